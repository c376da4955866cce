// Package backoffmetrics counts what policies, hedges and breakers do. It
// shows whether retries make calls succeed or only add load.
//
//	var metrics backoffmetrics.Metrics
//
//	var fetching = backoff.Policy{Name: "fetch", Observer: metrics.Observe}
//
//	http.Handle("/metrics", metrics.Handler())
//
// [Metrics.Handler] serves the text for Prometheus, and lists the series. The
// README of contrib/dashboards says which series answers which question. A
// [Metrics] is also an expvar.Var, which can be published under any name.
// Package page, below this one, serves a page for people, and the text beside it.
//
// A call that the breaker of a [guard.Service] refused is a call of the policy that
// failed for the reason open: the Service tells the policy. All that a breaker with
// an Observer refused is also in backoff_breaker_refusals_total.
//
// A hedge counts its calls as a policy does. Inside a policy it needs a name of
// its own, or each call is counted twice.
package backoffmetrics
