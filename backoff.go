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
// neither by default. [Stack] puts one [Doer], such as a Breaker, around another.
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

// A Doer runs an operation: a [Policy], a [Breaker], a [Patience], a [Stack] of
// them, or a type of the program's own. It must not call op on more than one
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
// Breaker, and three small objects if d is an interface, such as that of a Stack.
func DoValue[T any](ctx context.Context, d Doer, op func(context.Context) (T, error)) (value T, err error) {
	err = d.Do(ctx, func(ctx context.Context) (failed error) {
		value, failed = op(ctx)
		return
	})
	return
}

// Stack returns the doers around one another, the outermost first.
// Stack(breaker, policy) asks the breaker once per call, Stack(policy, breaker)
// once per attempt. An empty Stack just calls the operation, and a Stack in
// another one counts as its doers.
//
// If a doer refuses a call, the policy inside it never runs. Stack then calls
// [Policy.Refused], or the method of that name of another Doer, so a policy in a
// Stack reports the end of every call.
//
// What Stack returns also has the method Validate() error, which reports what is
// wrong with any of its doers.
func Stack(outermost ...Doer) Doer {
	doers := make([]Doer, 0, max(4, len(outermost))) // at least a cache line, so that no writer shares it
	for _, d := range outermost {
		switch d := d.(type) {
		case Policy:
			doers = append(doers, &d)
		case *stack:
			doers = append(doers, d.doers...)
		case *mixedStack:
			doers = append(doers, d.doers...)
		default:
			doers = append(doers, d)
		}
	}
	for _, d := range doers {
		if !isOurs(d) {
			return &mixedStack{doers}
		}
	}
	return &stack{doers}
}

type doers []Doer

// stack is what Stack returns if through knows the types of all doers.
type stack struct{ doers }

func (s *stack) Do(ctx context.Context, op func(context.Context) error) error {
	if len(s.doers) == 0 {
		return op(ctx)
	}
	return through(ctx, s.doers[0], s.doers[1:], op)
}

// mixedStack is what Stack returns otherwise.
type mixedStack struct{ doers }

func (s *mixedStack) Do(ctx context.Context, op func(context.Context) error) error {
	return throughAny(ctx, s.doers[0], s.doers[1:], op)
}

// isOurs reports whether through knows the type of d.
func isOurs(d Doer) bool {
	switch d.(type) {
	case *Policy, *Breaker:
		return true
	}
	return false
}

// through runs op under d, and within d under the doers of inner.
func through(ctx context.Context, d Doer, inner []Doer, op func(context.Context) error) error {
	if len(inner) == 0 {
		return throughOne(ctx, d, op)
	}
	reached := false
	err := throughOne(ctx, d, func(ctx context.Context) error {
		reached = true
		if p, ok := inner[0].(*Policy); ok && len(inner) == 1 {
			return p.do(ctx, op) // as through would, for most stacks
		}
		return through(ctx, inner[0], inner[1:], op)
	})
	if err != nil && !reached {
		notifyRefused(ctx, inner, err)
	}
	return err
}

// throughOne runs op under d. It calls the types of this package by name: passed
// to an interface, op would escape to the heap with everything that it captures.
func throughOne(ctx context.Context, d Doer, op func(context.Context) error) error {
	if p, ok := d.(*Policy); ok {
		return p.do(ctx, op)
	}
	return d.(*Breaker).Do(ctx, op)
}

// throughAny is through for doers of any type.
func throughAny(ctx context.Context, d Doer, inner []Doer, op func(context.Context) error) error {
	if len(inner) == 0 {
		return d.Do(ctx, op)
	}
	var err error
	reached := false
	if p, ok := d.(*Patience); ok {
		err = p.doAround(ctx, inner, op, &reached)
	} else {
		err = d.Do(ctx, func(ctx context.Context) error {
			reached = true
			return throughAny(ctx, inner[0], inner[1:], op)
		})
	}
	if err != nil && !reached {
		notifyRefused(ctx, inner, err)
	}
	return err
}

// notifyRefused tells the first policy of inner that a doer around it refused a
// call with err.
//
//go:noinline
func notifyRefused(ctx context.Context, inner []Doer, err error) {
	for _, d := range inner {
		if p, ok := d.(interface{ Refused(context.Context, error) }); ok {
			p.Refused(ctx, err)
			return
		}
	}
}
