// Package backoff retries calls that fail transiently, without overloading the
// service they call.
//
//	ctx, cancel := context.WithTimeout(ctx, 2*time.Second) // for all attempts and waits
//	defer cancel()
//	page, err := backoff.DoValue(ctx, backoff.Policy{Name: "fetch"}, fetch)
//
// The zero [Policy] is safe: at most 4 attempts, exponential backoff from 100
// ms up to 30 s under full jitter, bounded by the context. It waits as long as
// a server asks for, up to 5 minutes. [Policy.Do] is for an operation without a
// value, and [Policy.Start] for a loop of the caller's own. For HTTP there is
// package backoffhttp, whose Client needs no more than a policy.
//
// An operation can mark its error: [Permanent] ends the call, and [RetryAfter]
// passes on what the server asked for. [RetryIf] retries what a function says, and
// a [Classifier] sorts errors into classes. An error that it does not know is retried.
//
// By default an operation may be sent twice. If it must not be, say so by the
// policy's [Idempotency]: [NonIdempotent] repeats only what cannot have arrived,
// and [Keyed] makes a key for each call.
//
// A definitive error is returned as the operation returned it (see
// [Policy.Do]). If a policy gives up, the error is an [*Error]. It says why,
// names the field that sets the limit, and matches the last error of the
// operation. [Cause] returns that error itself.
//
// An [Observer] receives an [Event] for each retry, and for the end of a call.
//
// A [Budget], such as [RetryBudget], bounds the retries of many calls, and a
// [Breaker] the calls themselves, so that an outage stays cheap. A policy has
// neither by default. Package guard has a Service, which puts all that calls to one
// service share around their policies, in the right order.
//
// A [Schedule] sets how the delay grows ([Exponential], [Linear], [Constant],
// [Sequence]). A [Jitter] such as [FullJitter] spreads the delay, so that
// clients that failed together do not retry together. A [Supervisor] keeps a
// connection open.
//
// Policies nest without multiplying. What an inner policy gave up on is
// permanent to the policies around it, so three layers of four attempts cost
// four calls at the bottom, not 64, if the layers between wrap the error rather
// than its text (see [Error]).
//
// Other packages retry HTTP requests (backoffhttp), SQL transactions
// (backoffsql) and calls of other clients (plug); poll (poll); send a slow call a
// second time (hedge); have rate limits and bulkheads (limit, pace); log
// (backoffslog) and count (backoffmetrics), by what is called (endpoint); switch
// retries off while a program runs (control); read policies from files (spec),
// and know those of other systems (presets). The packages below contrib, such as
// backoffgrpc, are modules of their own.
//
// In the whole package 0 means the documented default and a negative number no
// limit, unless the field says otherwise. The attempts of a call include the
// first one, its retries do not. A delay is what the schedule says, a wait is
// what the call sleeps. There is no clock to inject: run tests under
// testing/synctest.
package backoff

import "context"

// A Doer runs an operation: a [Policy], a [Breaker], what guard.Service.With
// returns, or a type of the program's own. It must not call op on more than one
// goroutine at a time, and must not return while op runs.
type Doer interface {
	Do(ctx context.Context, op func(context.Context) error) error
}

// DoValue is d.Do for an operation that also returns a value:
//
//	page, err := backoff.DoValue(ctx, policy, fetch)
//
// It returns the last value of op, also beside an error: the last response is
// not lost. It allocates nothing if d is a Policy, or a pointer to one or to a
// Breaker, and three small objects if d is an interface.
func DoValue[T any](ctx context.Context, d Doer, op func(context.Context) (T, error)) (value T, err error) {
	err = d.Do(ctx, func(ctx context.Context) (failed error) {
		value, failed = op(ctx)
		return
	})
	return
}
