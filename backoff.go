// Package backoff carries a call through transient failure without hurting the
// service it calls.
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
// A [Schedule] says how the delay grows ([Exponential], [Linear], [Constant],
// [Sequence]). A [Jitter] spreads the delay, so that clients which failed
// together do not come back together ([FullJitter], [EqualJitter],
// [DecorrelatedJitter]).
//
// A [Classifier] sorts errors. An operation marks its error to say more than
// the error does: [Permanent] ends the call, [RetryAfter] passes on what the
// server asked for. An [Idempotency] says whether the operation may be sent
// twice at all.
//
// Policies nest without multiplying. What an inner policy gave up on is
// permanent to the policies around it, so three layers of four attempts cost
// four calls at the bottom, not 64. [Stack] puts one [Doer] around another.
//
// A [Budget], such as [RetryBudget], bounds the retries of many calls, and a
// [Breaker] the calls themselves, so that an outage stays cheap. A policy has
// neither by default. A [Hedge] asks twice where the first answer is slow. An
// [Observer] hears of all of them.
//
// A definitive error comes back as the operation returned it, to errors.Is and
// errors.As. Where a policy gives up, the error is an [*Error]. It says why,
// and matches the last error of the operation. [Cause] returns that error
// itself.
//
// Packages beside this one retry HTTP requests (backoffhttp), SQL transactions
// (backoffsql) and calls of other clients (plug); limit the rate and
// concurrency of calls (limit); log (backoffslog) and count (backoffmetrics);
// read policies from files (spec), know those of other systems (presets), and
// show what a policy does (preview). The packages below contrib, such as
// backoffgrpc, are modules of their own.
//
// In the whole package 0 means the documented default, and a negative number
// means no limit. The attempts of a call include the first one, its retries do
// not. A delay is what the schedule says, a wait is what the call sleeps. There
// is no clock to inject: run tests under testing/synctest.
package backoff

import "context"

// A Doer carries out an operation: a [Policy], a [Breaker], a [Stack] of them,
// or a user's own type. It must not call op on more than one goroutine at a
// time, nor after Do has returned.
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
	p, ok := d.(*Policy)
	if !ok || p.hearsSuccess() || p.limitsAttempts() || p.invalid() || ctx.Err() != nil {
		return doValue(ctx, d, op)
	}
	// As Do, with one call less between the caller and op.
	value, err := op(ctx)
	if err == nil {
		return value, nil
	}
	err = p.redo(ctx, func(ctx context.Context) (err error) {
		value, err = op(ctx)
		return err
	}, err)
	return value, err
}

// doValue is DoValue for any Doer.
func doValue[T any](ctx context.Context, d Doer, op func(context.Context) (T, error)) (T, error) {
	var value T
	err := through(ctx, d, func(ctx context.Context) (err error) {
		value, err = op(ctx)
		return err
	})
	return value, err
}

// Stack returns the doers around one another, the outermost first.
// Stack(breaker, policy) asks the breaker once per call, Stack(policy, breaker)
// once per attempt. An empty Stack just calls the operation.
func Stack(outermost ...Doer) Doer {
	s := &stack{doers: append([]Doer(nil), outermost...)}
	s.prepare()
	return s
}

// stack is what Stack returns.
type stack struct {
	breaker *Breaker // around policy, if there is just this usual pair
	policy  *Policy
	doers   []Doer
}

// prepare looks for a breaker around a policy. It is not part of Stack, so that
// Stack is inlined, and the compiler sees which Do is called.
//
//go:noinline
func (s *stack) prepare() {
	for i, d := range s.doers {
		if p, ok := d.(Policy); ok {
			s.doers[i] = &p
		}
	}
	if len(s.doers) == 2 {
		b, around := s.doers[0].(*Breaker)
		p, inside := s.doers[1].(*Policy)
		if around && inside {
			s.breaker, s.policy = b, p
		}
	}
}

func (s *stack) Do(ctx context.Context, op func(context.Context) error) error {
	if s.breaker != nil {
		return s.breaker.around(ctx, s.policy, op)
	}
	return layers(ctx, s.doers, op)
}

// layers runs op under all of outermost.
func layers(ctx context.Context, outermost []Doer, op func(context.Context) error) error {
	switch len(outermost) {
	case 0:
		return op(ctx)
	case 1:
		return through(ctx, outermost[0], op)
	}
	return through(ctx, outermost[0], func(ctx context.Context) error { return layers(ctx, outermost[1:], op) })
}

// through is d.Do(ctx, op), but calls the types of this package by name. If op
// were passed to an interface, it would escape to the heap with all that it
// captures.
func through(ctx context.Context, d Doer, op func(context.Context) error) error {
	switch d := d.(type) {
	case *Policy:
		return d.Do(ctx, op)
	case Policy:
		return d.Do(ctx, op)
	case *Breaker:
		return d.Do(ctx, op)
	case *stack:
		return d.Do(ctx, op)
	}
	return foreign(ctx, d, op)
}

// foreign is d.Do(ctx, op) for a user's own Doer. If op were passed to d, it
// would escape to the heap, also for callers whose Doer is of this package. So
// d runs on a goroutine of its own, and asks this one to run op.
func foreign(ctx context.Context, d Doer, op func(context.Context) error) error {
	h := handoff{
		calls:   make(chan context.Context),
		results: make(chan error),
		ended:   make(chan struct{}),
		closed:  make(chan struct{}),
	}
	defer close(h.closed)
	go h.run(ctx, d)
	for {
		select {
		case ctx := <-h.calls:
			h.results <- op(ctx)
		case <-h.ended:
			if h.panic != nil {
				panic(h.panic)
			}
			return h.err
		}
	}
}

// handoff connects a Doer on its goroutine with the operation on the caller's.
type handoff struct {
	calls   chan context.Context
	results chan error
	ended   chan struct{} // closed when Do has returned
	closed  chan struct{} // closed when nobody takes calls any more
	err     error
	panic   any
}

// run calls d.Do.
func (h *handoff) run(ctx context.Context, d Doer) {
	h.err = errAbandoned // in case of a Goexit
	defer close(h.ended)
	defer func() { h.panic = recover() }()
	h.err = d.Do(ctx, h.call)
}

// call is the operation that d gets.
func (h *handoff) call(ctx context.Context) error {
	select {
	case h.calls <- ctx:
	case <-h.closed:
		return errAbandoned
	}
	select {
	case err := <-h.results:
		return err
	case <-h.closed: // op panicked, or left its goroutine
		return errAbandoned
	}
}

var errAbandoned error = &marked{err: errorText("backoff: operation abandoned"), class: ClassPermanent}

// errorText is an error that is its text.
type errorText string

func (e errorText) Error() string { return string(e) }
