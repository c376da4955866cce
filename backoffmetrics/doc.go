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
// A call that a breaker refused is a call that failed. If the breaker is around
// the policy, only the breaker has an event for it. So give the breaker the name
// of the policy, and an Observer: then its refusals are counted as calls of that
// policy that failed for the reason open. If the breaker has another name, they
// are counted by the breaker alone. All that a breaker refused is also in
// backoff_breaker_refusals_total.
//
// A hedge counts its calls as a policy does. Inside a policy it needs a name of
// its own, or each call is counted twice.
package backoffmetrics
