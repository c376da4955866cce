// Package backoffmetrics counts what policies, hedges and breakers do. It shows
// whether retries rescue calls or multiply them.
//
//	var metrics backoffmetrics.Metrics
//
//	var fetching = backoff.Policy{Name: "fetch", Observer: metrics.Observe}
//
//	http.Handle("/debug/backoff/", metrics.Handler())
//
// [Metrics.Handler] serves a page for people and the text for Prometheus. A
// [Metrics] is also an expvar.Var, which can be published under any name.
//
// # Series
//
// These are the series for Prometheus. An operation is the Name of a policy or
// a hedge.
//
//	backoff_calls_total{operation,outcome}
//		calls that ended: first (success at the first attempt), retried
//		(success at a later one), failed
//	backoff_attempts_total{operation}
//		attempts that ended; divided by calls, this is the amplification
//	backoff_retries_total{operation,class}
//		retries announced, by the class of the failure before
//	backoff_failed_attempts_total{operation,class}
//		attempts that failed
//	backoff_failures_total{operation,reason}
//		calls that failed in the end
//	backoff_attempts_per_call{operation}
//		histogram; 0 for a call that made no attempt
//	backoff_refusals_total{operation,of}
//		what the budget refused: call, retry, hedge, run
//	backoff_delay_seconds{operation}
//		histogram of delays before a retry, as the schedule says
//	backoff_wait_seconds{operation}
//		histogram of waits before a retry, after jitter and Retry-After
//	backoff_slept_seconds{operation}
//		histogram of the time slept before a retry
//	backoff_hedges_total{operation,result}
//		hedges sent: won, lost; divided by calls, this is the extra load
//	backoff_reconnects_total{operation}
//		runs under Policy.Supervise that ended and were followed by another
//	backoff_breaker_state{breaker,state}
//		1 for the state that the breaker is in: closed, open, half-open
//	backoff_breaker_transitions_total{breaker,from,to,trigger}
//		changes of the breaker's state
//	backoff_breaker_refusals_total{breaker}
//		calls that the breaker refused
//	backoff_budget_successes{budget}
//		successes within the window of the budget
//	backoff_budget_retries{budget}
//		retries granted within the window of the budget
//	backoff_budget_allowed{budget}
//		retries that these successes allow
//	backoff_key_evictions_total{keys}
//		keys of breakers or budgets that were forgotten for others
//
// Series by class, reason, trigger and result begin when they are first
// counted. The others begin with the operation. A breaker appears with its
// first change of state or its first refusal, since until then it is closed.
//
// A run under Policy.Supervise counts as a reconnect, not as an attempt, except
// for the last one: a loop that runs for days would otherwise hide the calls.
package backoffmetrics
