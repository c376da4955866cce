// Package backoff retries calls that fail transiently, without overloading the
// service they call.
//
//	ctx, cancel := context.WithTimeout(ctx, 2*time.Second) // for all attempts and waits
//	defer cancel()
//	page, err := backoff.DoValue(ctx, backoff.Policy{Name: "fetch"}, fetch)
//
// The zero [Policy] makes at most 4 attempts, with exponential backoff from 100
// ms up to 30 s and full jitter, until the context ends. It waits as long as a
// server asks for, up to 5 minutes. [Policy.Do] calls an operation without a
// value, and [Policy.Start] is for a loop of your own.
//
// An operation can mark its error: [Permanent] ends the call, and [RetryAfter]
// passes on what the server asked for. A [Classifier] sorts other errors, and
// [RetryIf] makes a Classifier of a func(error) bool. Unknown errors are
// retried.
//
// By default an operation may be sent twice. [Policy.Idempotency] changes that:
// [NonIdempotent] repeats only what cannot have arrived, and [Keyed] gives each
// call a key, by which the server recognizes a repeat.
//
// A permanent error is returned as it is; one that Classify refuses is marked
// [Permanent]. A policy that gives up returns an [*Error]: it says why, names the
// field that sets the limit, and matches the last error. [Cause] returns the
// error of the operation.
//
// A [Budget], such as [RetryBudget], bounds the retries of many calls, and a
// [Breaker] stops the calls to a service that is down. A policy has neither by
// default. A [Supervisor] keeps a connection open.
//
// Policies nest without multiplying: three layers of four attempts make four
// calls, not 64, if the layers between wrap errors by %w (see [Error]).
//
// Other packages are for HTTP (backoffhttp), SQL transactions (backoffsql),
// other clients (plug), polls (poll), a second request beside a slow one
// (hedge), what all calls to a service share (guard), limits of rates and
// concurrency (limit, pace), logs (backoffslog), metrics (backoffmetrics),
// changes while a program runs (control), waits that end early (control/wake),
// and policies in files (spec, presets). Those below contrib, such as
// backoffgrpc, are modules of their own.
//
// 0 means the documented default and a negative number no limit, unless the
// field says otherwise. Attempts include the first call, retries do
// not. A delay is what the schedule says, a wait is what the call sleeps. There
// is no clock to inject: run tests under testing/synctest.
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
// It returns the last value of op, even with an error. It allocates nothing if
// d is a Policy, or a pointer to one or to a Breaker.
func DoValue[T any](ctx context.Context, d Doer, op func(context.Context) (T, error)) (value T, err error) {
	err = d.Do(ctx, func(ctx context.Context) (failed error) {
		value, failed = op(ctx)
		return
	})
	return
}
