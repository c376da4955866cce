package backoff

import (
	"context"
	"errors"
	"time"

	"github.com/gobackoff/backoff/internal/circuit"
	"github.com/gobackoff/backoff/internal/draw"
	"github.com/gobackoff/backoff/internal/errtree"
	"github.com/gobackoff/backoff/internal/fault"
	"github.com/gobackoff/backoff/internal/inbound"
	"github.com/gobackoff/backoff/internal/limits"
)

var errCrashed = errors.New("backoff: operation panicked or left its goroutine")

// score says what it means for the circuit that the operation returned err, or
// errCrashed if it did not return.
func (c call) score(err error) circuit.Input {
	in := circuit.Input{Kind: circuit.Answer, Permit: circuit.Permit{Probe: c.probe}, Score: circuit.Good}
	ended := c.ctx.Err()
	switch {
	case err == nil:
	case err == errCrashed:
		in.Score = circuit.Bad
		return in
	case ended != nil && ended != context.DeadlineExceeded:
		in.Score = fault.Left.Score()
	case ended != nil && errtree.Is(err, context.Canceled): // the operation's way to report the deadline
		in.Score = circuit.Hung
	default:
		score, hint := c.breaker.scoreOfError(err)
		in.Score, in.Rest = score, c.breaker.holdOpenFor(hint)
	}
	if c.phase.Paths.Time || c.began > 0 || c.probe != 0 || in.Score >= circuit.Hung {
		c.scoreTime(&in, err)
	}
	return in
}

// scoreTime adds what the duration of the call says.
func (c call) scoreTime(in *circuit.Input, err error) {
	age := c.phase.Age()
	took := age - c.began
	in.Slow = c.breaker.SlowCall > 0 && took >= c.breaker.SlowCall
	switch {
	case in.Score == circuit.Good && (c.began > 0 || c.probe != 0):
		c.breaker.usual.Learn(took, c.phase.Began.Add(age))
	case in.Score >= circuit.Hung && c.hurried(err, took):
		in.Score = circuit.None
	}
}

// hurried reports whether a deadline of the caller ended the call too early to
// say anything about the service.
func (c call) hurried(err error, took time.Duration) bool {
	least, ended := c.breaker.MinAttemptTime, c.ctx.Err() != nil
	if inbound.Limits(c.ctx) && !errtree.Is(err, ErrAttemptTimeout) {
		least, ended = limits.Or(least, time.Second), ended || inbound.Over(c.ctx)
	}
	if !ended || took < least {
		return ended
	}
	ours := errtree.Is(err, ErrAttemptTimeout) || context.Cause(c.ctx) == ErrAttemptTimeout
	return least >= 0 && !ours && c.phase.Hurried(&c.breaker.usual, took)
}

// holdOpenFor returns for how long a server asks to be left alone.
func (b *Breaker) holdOpenFor(h hint) time.Duration {
	d := b.capRetryAfter(h.after)
	if d == 0 || h.exact {
		return d
	}
	return limits.Add(d, scale(d/10, draw.Unit(b.Rand)))
}

// capRetryAfter bounds how long others may keep the circuit open.
func (b *Breaker) capRetryAfter(d time.Duration) time.Duration {
	return limits.Cap(d, limits.Or(b.MaxRetryAfter, defaultMaxRetryAfter))
}

// scoreOfError scores an error. A policy's classification is about retrying, so
// the breaker looks at the error below it; what the operation itself said
// stands.
func (b *Breaker) scoreOfError(err error) (circuit.Score, hint) {
	s := scoring{b, errtree.Walk{Left: 4 * errtree.Most}} // an error is looked at up to four times
	return s.of(err)
}

// scoring is the way through the tree of an error.
type scoring struct {
	breaker *Breaker
	walk    errtree.Walk
}

func (s *scoring) of(err error) (circuit.Score, hint) {
	if score, h, layered := s.throughPolicy(err); layered {
		return score, h
	}
	return s.ofOperation(err)
}

// throughPolicy scores an error if it passed through a policy or a breaker, and
// reports whether it did.
func (s *scoring) throughPolicy(err error) (circuit.Score, hint, bool) {
	if s.walk.Left--; s.walk.Left < 0 {
		return 0, hint{}, false
	}
	switch e := err.(type) {
	case *OpenError:
		return circuit.None, hint{}, true
	case *Error:
		if e == nil || e.Last == nil || e.Reason == ReasonCanceled {
			return circuit.None, hint{}, true
		}
		score, h := s.of(e.Last)
		if e.failure.timedOut && (score == circuit.Bad || score == circuit.None && s.walk.Is(e.Last, context.Canceled)) {
			score = circuit.Hung
		}
		return score, h, true
	case *marked:
		return s.ofMarked(e)
	}
	if f, ok := fault.Said(err); ok && f != fault.Answered { // whatever is below it
		return f.Score(), hint{}, true
	}
	branches, inner := errtree.Unwrap(err)
	if inner != nil {
		return s.throughPolicy(inner)
	}
	return s.ofBranches(branches)
}

func (s *scoring) ofMarked(m *marked) (score circuit.Score, h hint, layered bool) {
	switch {
	case m.inferred:
		score, h = s.of(m.err)
		layered = true
	case m.class == ClassUnknown:
		score, h, layered = s.throughPolicy(m.err)
	case s.walk.Find(m.err, isLayer) || s.walk.Left <= 0:
		v := judge(nil, m)
		return s.ofVerdict(&v, m.err), v.hint, true
	}
	return score, h.longer(m.hint), layered
}

// isLayer reports whether a policy or a breaker made the error.
func isLayer(err error) bool {
	switch e := err.(type) {
	case *Error, *OpenError:
		return true
	case *marked:
		return e.inferred
	}
	return false
}

// ofBranches returns the highest score of several errors, and the longest hint,
// if one of the errors is layered.
func (s *scoring) ofBranches(errs []error) (highest circuit.Score, longest hint, layered bool) {
	var plain []error
	for _, err := range errs {
		if err == nil {
			continue
		}
		score, h, ok := s.throughPolicy(err)
		if !ok {
			plain = append(plain, err)
		}
		layered = layered || ok
		highest, longest = max(highest, score), longest.longer(h)
		if s.walk.Left <= 0 {
			break
		}
	}
	if !layered {
		return 0, hint{}, false
	}
	for _, err := range plain {
		score, h := s.ofOperation(err)
		highest, longest = max(highest, score), longest.longer(h)
	}
	return highest, longest, true
}

// ofOperation scores an error that passed through no policy and no breaker. An
// error that is too large to be read is a failure.
func (s *scoring) ofOperation(err error) (circuit.Score, hint) {
	if s.walk.Left <= 0 {
		return circuit.Bad, hint{}
	}
	if s.walk.Is(err, ErrOpen) || s.walk.Is(err, ErrBudget) {
		return circuit.None, hint{}
	}
	v := judge(s.breaker.Classify, err)
	return s.ofVerdict(&v, err), v.hint
}

// ofVerdict scores an error that was judged. A server that throttles and asks
// for longer than MaxRetryAfter speaks of a quota that is used up, which is that
// of one caller. An error that never reached the service, but came after a timeout,
// may be overload.
func (s *scoring) ofVerdict(v *verdict, err error) circuit.Score {
	whose, after := v.fault(), v.hint.after
	switch {
	case whose == fault.Throttled && s.breaker.capRetryAfter(after) < after:
		whose = fault.Quota
	case (whose == fault.Unreached || whose == fault.Failed) && s.walk.Find(err, errtree.IsTimeout):
		whose = fault.Late
	}
	return whose.Score()
}
