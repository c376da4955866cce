// Package backoffmetrics counts what policies, hedges and breakers do, so that one sees
// in one look whether retries rescue calls or multiply them.
//
//	var metrics backoffmetrics.Metrics
//
//	var fetching = backoff.Policy{Name: "fetch", Observer: metrics.Observe}
//
//	http.Handle("/debug/backoff/", metrics.Handler())
//
// [Metrics.Handler] is a page for people and the text for Prometheus; a [Metrics] is
// also an expvar.Var, to be published under any name.
//
// # Series
//
// What Prometheus gets. An operation is the Name of a policy or a hedge.
//
//	backoff_calls_total{operation,outcome}            calls that ended: first, retried (a success that took
//	                                                  more than one attempt), failed
//	backoff_attempts_total{operation}                 attempts that ended; by calls, this is the amplification
//	backoff_retries_total{operation,class}            retries announced, by the class of the failure before
//	backoff_failed_attempts_total{operation,class}    attempts that failed
//	backoff_failures_total{operation,reason}          calls that failed in the end
//	backoff_attempts_per_call{operation}              histogram; 0 for a call that made none
//	backoff_refusals_total{operation,of}              what the budget refused: call, retry, hedge, run
//	backoff_delay_seconds{operation}                  histogram of what the schedule said
//	backoff_wait_seconds{operation}                   histogram of what that became by jitter and hints
//	backoff_slept_seconds{operation}                  histogram of what was really slept
//	backoff_hedges_total{operation,result}            hedges sent: won, lost; by calls, this is the extra load
//	backoff_reconnects_total{operation}               runs under Policy.Supervise that ended and were followed by another
//	backoff_breaker_state{breaker,state}              1 for the state that the breaker is in: closed, open, half-open
//	backoff_breaker_transitions_total{breaker,from,to,trigger}
//	backoff_breaker_refusals_total{breaker}           calls that the breaker refused
//	backoff_budget_successes{budget}                  within the window of the budget
//	backoff_budget_retries{budget}                    granted within the window
//	backoff_budget_allowed{budget}                    retries that these successes allow
//
// Series by class, reason, trigger and result begin when they are first counted, the others
// with the operation. A breaker appears with its first change of state or refusal, as a
// closed one has nothing to tell. Runs under Policy.Supervise are reconnects, not attempts, but
// for the last one: a loop that lives for days would drown the calls.
package backoffmetrics
