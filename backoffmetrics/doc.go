// Package backoffmetrics counts what policies, hedges and breakers do. It
// shows whether retries make calls succeed or only add load.
//
//	var metrics backoffmetrics.Metrics
//
//	var fetching = backoff.Policy{Name: "fetch", Observer: metrics.Observe}
//
//	http.Handle("/debug/backoff/", metrics.Handler())
//
// [Metrics.Handler] serves a page for people and the text for Prometheus. A
// [Metrics] is also an expvar.Var, which can be published under any name.
// [Metrics.Handler] also lists the series for Prometheus. The README of
// contrib/dashboards says which series answers which question.
//
// # The page
//
// All counts of the page are of the same window, which it names: the last 5
// minutes, or the time since the first call. A budget has a window of its own.
// The window is longer if for some time nobody opened the page and no call failed
// or was retried.
//
// A call that a breaker refused is a call that failed. If the breaker is around
// the policy, only the breaker has an event for it. So give the breaker the name
// of the policy, and an Observer: then its refusals are among the calls of that
// policy.
// If the breaker has another name, they are shown with the breaker alone. Series
// count them in the same way, as calls that failed for the reason open. All that
// a breaker refused is also in backoff_breaker_refusals_total.
//
// A hedge counts its calls as a policy does. Inside a policy it needs a name of
// its own, or each call is counted twice.
//
// How long attempts take and how many are in flight is known of those that a
// client measures: see package endpoint. The kinds of errors are their classes
// and types, as the function ErrorType of package backoffslog says, at most 7 for
// each operation.
package backoffmetrics
