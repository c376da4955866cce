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
// contrib/dashboards says which of them answers what.
//
// # The page
//
// All counts of the page are of the same window, which it names: the last 5
// minutes, or the time since the first call. A budget has a window of its own.
// The window is longer if the page was not looked at for some time, and no call
// was in trouble.
//
// A call that a breaker refused is a call that failed. Of a breaker around a
// policy only the breaker tells, so the breaker must have the name of the
// policy, and an Observer; then its refusals are among the calls of that policy.
// If the breaker has another name, they are shown with the breaker alone. Series
// count them in the same way, as calls that failed for the reason open. All that
// a breaker refused is in backoff_breaker_refusals_total besides.
//
// A hedge counts its calls as a policy does. Inside a policy it needs a name of
// its own, or each call is counted twice.
//
// How long attempts take and how many are in flight is known of those that a
// client measures: see package endpoint. The kinds of errors are their classes
// and types, as the function ErrorType of package backoffslog says, at most 7 for
// each operation.
package backoffmetrics
