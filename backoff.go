// Package backoff retries calls that fail transiently, without overloading the
// service they call.
//
//	var fetching = backoff.Policy{Name: "fetch"}
//
//	err := fetching.Do(ctx, func(ctx context.Context) error {
//		return fetch(ctx)
//	})
//
// The zero [Policy] is safe: at most 4 attempts, exponential backoff from 100
// ms up to 30 s under full jitter, bounded by the context. It waits as long as
// a server asks for, up to 5 minutes.
//
// A [Schedule] sets how the delay grows ([Exponential], [Linear], [Constant],
// [Sequence]). A [Jitter] such as [FullJitter] spreads the delay, so that
// clients that failed together do not retry together.
//
// A [Classifier] sorts errors. An operation can mark its error: [Permanent]
// ends the call, and [RetryAfter] passes on what the server asked for. An
// [Idempotency] says whether the operation may be sent twice at all.
//
// Policies nest without multiplying. What an inner policy gave up on is
// permanent to the policies around it, so three layers of four attempts cost
// four calls at the bottom, not 64, if the layers between wrap the error rather
// than its text (see [Error]). [Stack] puts one [Doer] around another.
//
// A [Budget], such as [RetryBudget], bounds the retries of many calls, and a
// [Breaker] the calls themselves, so that an outage stays cheap. A policy has
// neither by default. A [Hedge] sends a slow call a second time. An [Observer]
// receives the events of all of them.
//
// A definitive error is returned as the operation returned it (see
// [Policy.Do]). If a policy gives up, the error is an [*Error]. It says why,
// names the field that sets the limit, and matches the last error of the
// operation. [Cause] returns that error itself.
//
// Other packages retry HTTP requests (backoffhttp), SQL transactions
// (backoffsql) and calls of other clients (plug); poll (poll); have rate limits
// and bulkheads (limit, pace); share breakers and budgets (fleet); log
// (backoffslog) and count (backoffmetrics), by what is called (endpoint); switch
// retries off while a program runs (control); read policies from files (spec),
// know those of other systems (presets), and show what a policy does
// (preview). The packages below contrib, such as backoffgrpc, are modules of
// their own.
//
// In the whole package 0 means the documented default, and a negative number
// means no limit. The attempts of a call include the first one, its retries do
// not. A delay is what the schedule says, a wait is what the call sleeps. There
// is no clock to inject: run tests under testing/synctest.
package backoff

import (
	"context"
	"errors"

	"github.com/gobackoff/backoff/internal/handoff"
)

// A Doer runs an operation: a [Policy], a [Breaker], a [Stack] of them, or a
// user's own type. It must not call op on more than one goroutine at a time,
// nor after Do has returned.
type Doer interface {
	Do(ctx context.Context, op func(context.Context) error) error
}

// DoValue is d.Do for an operation that also returns a value:
//
//	page, err := backoff.DoValue(ctx, policy, fetch)
//
// It returns the last value of op, also beside an error: the last response is
// not lost.
//
// For the types of this package DoValue costs what their Do costs, and op stays
// on the caller's stack. A pointer to a policy costs less than its value. A
// Doer of another type runs on a goroutine of its own, while op runs on the
// caller's.
func DoValue[T any](ctx context.Context, d Doer, op func(context.Context) (T, error)) (T, error) {
	var value T
	err := through(ctx, d, nil, func(ctx context.Context) (err error) {
		value, err = op(ctx)
		return err
	})
	return value, err
}

// Stack returns the doers around one another, the outermost first.
// Stack(breaker, policy) asks the breaker once per call, Stack(policy, breaker)
// once per attempt. An empty Stack just calls the operation.
func Stack(outermost ...Doer) Doer {
	return &stack{append(make([]Doer, 0, 4), outermost...)} // a cache line that nobody writes to
}

// stack is what Stack returns.
type stack struct{ doers []Doer }

func (s *stack) Do(ctx context.Context, op func(context.Context) error) error {
	if len(s.doers) == 0 {
		return op(ctx)
	}
	return through(ctx, s.doers[0], s.doers[1:], op)
}

// through runs op under d, and within d under the doers of inner. It calls the
// types of this package by name: if op were passed to an interface, it would
// escape to the heap with all that it captures.
func through(ctx context.Context, d Doer, inner []Doer, op func(context.Context) error) error {
	run := op
	if len(inner) > 0 {
		run = func(ctx context.Context) error {
			if p, ok := inner[0].(*Policy); ok && len(inner) == 1 {
				return p.do(ctx, op) // as through would, for most stacks
			}
			return through(ctx, inner[0], inner[1:], op)
		}
	}
	switch known := d.(type) {
	case *Policy:
		return known.do(ctx, run)
	case Policy:
		return throughValue(ctx, d, run)
	case *Breaker:
		return known.Do(ctx, run)
	case *stack:
		return known.Do(ctx, run)
	case *Patience:
		return known.do(ctx, inner, op)
	}
	return handoff.Do(ctx, d.Do, run, errAbandoned) // a user's own
}

// throughValue is through for a Policy. It is not inlined, because a call that
// waits has no room for a policy on its stack.
//
//go:noinline
func throughValue(ctx context.Context, d Doer, op func(context.Context) error) error {
	return d.(Policy).Do(ctx, op)
}

// errAbandoned is permanent. Permanent would mark it at the start of every
// program.
var errAbandoned error = &marked{err: errors.New("backoff: operation abandoned"), class: ClassPermanent}
