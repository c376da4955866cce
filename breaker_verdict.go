package backoff

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gobackoff/backoff/internal/circuit"
	"github.com/gobackoff/backoff/internal/draw"
	"github.com/gobackoff/backoff/internal/limits"
)

// result is how a call ended, and what that says about the service.
type result struct {
	err   error
	hint  hint
	score circuit.Score
	slow  bool
}

var errCrashed = errors.New("backoff: operation panicked or left its goroutine")

// crashed is the result of a call that did not return.
func crashed() result { return result{err: errCrashed, score: circuit.Bad} }

// report takes in what a call returned.
func (b *Breaker) report(ctx context.Context, t permit, err error) {
	b.settle(ctx, t, b.weigh(ctx, t, err))
}

// settle takes in how a call ended.
func (b *Breaker) settle(ctx context.Context, t permit, r result) {
	switch {
	case t.phase == nil || t.probe == 0 && r.score == circuit.None:
	case t.probe == 0 && r.score == circuit.Good && !r.slow:
		t.phase.Good.Add()
	default:
		if stats, undecided := b.record(ctx, t, r); undecided && b.TripIf(stats) {
			b.obeyRule(ctx, t, r)
		}
	}
}

// record takes in under the lock how a call ended, and reports whether the
// user's own rule is to be asked.
func (b *Breaker) record(ctx context.Context, t permit, r result) (stats BreakerStats, undecided bool) {
	p := b.lock()
	defer b.unlock()
	if p != t.phase {
		return BreakerStats{}, false // too late
	}
	c := b.config()
	in := p.Answer(&c, t.probe, r.score, r.slow)
	in.Rest = b.restFor(r.hint)
	if !b.stepBy(ctx, &c, &in, r.err).Undecided || b.TripIf == nil {
		return BreakerStats{}, false
	}
	return b.stats(), true
}

// obeyRule opens the circuit because the user's own rule said so.
func (b *Breaker) obeyRule(ctx context.Context, t permit, r result) {
	p := b.lock()
	defer b.unlock()
	if p == t.phase {
		b.step(ctx, b.input(circuit.Rule), r.err)
	}
}

// restFor returns for how long a server asks to be left alone.
func (b *Breaker) restFor(h hint) time.Duration {
	if !h.given {
		return 0
	}
	d := b.capRetryAfter(h.after)
	if h.exact {
		return d
	}
	return limits.Add(d, scale(d/10, draw.Unit(b.Rand)))
}

// capRetryAfter bounds how long others may keep the circuit open.
func (b *Breaker) capRetryAfter(d time.Duration) time.Duration {
	if most := limits.Or(b.MaxRetryAfter, defaultMaxRetryAfter); most > 0 {
		return min(d, most)
	}
	return d
}

// weigh says how a call ended that was admitted with t and returned err.
func (b *Breaker) weigh(ctx context.Context, t permit, err error) result {
	r := result{err: err, score: circuit.Good}
	if t.phase == nil {
		return r
	}
	ended := ctx.Err()
	switch {
	case err == nil:
	case ended != nil && ended != context.DeadlineExceeded:
		r.score = circuit.None
	case ended != nil && errors.Is(err, context.Canceled): // the operation's way to report the deadline
		r.score = circuit.Bad
	default:
		r.score, r.hint = b.scoreOfError(err)
	}
	if b.timesCalls() {
		b.weighTime(&r, t, ended != nil)
	}
	return r
}

// weighTime adds to a result what the duration of the call says. A deadline of
// the caller that left the call too little time says nothing about the service.
func (b *Breaker) weighTime(r *result, t permit, ended bool) {
	took := t.phase.Age() - t.began
	r.slow = b.SlowCall > 0 && took >= b.SlowCall
	if ended && r.score == circuit.Bad && took < b.MinAttemptTime {
		r.score = circuit.None
	}
}

// scoreOfError scores an error. A policy's classification is about retrying, so
// the breaker looks at the error below it; what the operation itself said
// stands.
func (b *Breaker) scoreOfError(err error) (circuit.Score, hint) {
	if !layered(err) {
		return b.scoreOfOperation(err)
	}
	switch e := err.(type) {
	case *OpenError:
		return circuit.None, hint{}
	case *Error:
		if e.Last == nil || e.Reason == ReasonCanceled {
			return circuit.None, hint{}
		}
		return b.scoreOfError(e.Last)
	case *marked:
		if e.class != ClassUnknown && !e.inferred {
			return scoreOfClass(e.class), judge(nil, err).hint
		}
		s, h := b.scoreOfError(e.err)
		return s, h.longer(e.hint)
	case interface{ Unwrap() []error }:
		return b.scoreOfAll(e.Unwrap())
	}
	return b.scoreOfError(errors.Unwrap(err))
}

// scoreOfAll returns the highest score of several errors, and the longest hint.
func (b *Breaker) scoreOfAll(errs []error) (highest circuit.Score, longest hint) {
	for _, err := range errs {
		if err != nil {
			s, h := b.scoreOfError(err)
			highest, longest = max(highest, s), longest.longer(h)
		}
	}
	return highest, longest
}

// layered reports whether an error passed through a policy or a breaker.
func layered(err error) bool {
	switch e := err.(type) {
	case *Error, *OpenError:
		return true
	case *marked:
		return e.inferred || layered(e.err)
	case interface{ Unwrap() error }:
		return layered(e.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), layered)
	}
	return false
}

// scoreOfOperation scores an error that passed through no policy and no
// breaker.
func (b *Breaker) scoreOfOperation(err error) (circuit.Score, hint) {
	if errors.Is(err, ErrOpen) || errors.Is(err, ErrBudget) {
		return circuit.None, hint{}
	}
	v := judge(b.Classify, err)
	if v.class == ClassPermanent && errors.Is(err, context.Canceled) {
		return circuit.None, hint{}
	}
	return scoreOfClass(v.class), v.hint
}

func scoreOfClass(c Class) circuit.Score {
	switch c {
	case ClassPermanent:
		return circuit.Good
	case ClassThrottled, ClassOverloaded:
		return circuit.Throttled
	}
	return circuit.Bad
}
