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

var errCrashed = errors.New("backoff: operation panicked or left its goroutine")

// weigh says what it means for the circuit that the operation returned err, or
// errCrashed if it did not return.
func (c call) weigh(err error) circuit.Input {
	in := circuit.Input{Kind: circuit.Answer, Permit: circuit.Permit{Probe: c.probe}, Score: circuit.Good}
	ended := c.ctx.Err()
	switch {
	case err == nil:
	case err == errCrashed:
		in.Score = circuit.Bad
		return in
	case ended != nil && ended != context.DeadlineExceeded:
		in.Score = circuit.None
	case ended != nil && errors.Is(err, context.Canceled): // the operation's way to report the deadline
		in.Score = circuit.Bad
	default:
		score, hint := c.breaker.scoreOfError(err)
		in.Score, in.Rest = score, c.breaker.restFor(hint)
	}
	if c.phase.Paths.Time {
		c.weighTime(&in, ended != nil)
	}
	return in
}

// weighTime adds what the duration of the call says. A deadline of the caller
// that left the call too little time says nothing about the service.
func (c call) weighTime(in *circuit.Input, ended bool) {
	b, took := c.breaker, c.phase.Age()-c.began
	in.Slow = b.SlowCall > 0 && took >= b.SlowCall
	if ended && in.Score == circuit.Bad && took < b.MinAttemptTime {
		in.Score = circuit.None
	}
}

// restFor returns for how long a server asks to be left alone.
func (b *Breaker) restFor(h hint) time.Duration {
	d := b.capRetryAfter(h.after)
	if d == 0 || h.exact {
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
	if v.gaveUp {
		return circuit.Bad, v.hint
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
