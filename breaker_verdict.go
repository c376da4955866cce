package backoff

import (
	"context"
	"errors"
	"slices"
)

// A score is what the end of a call says of the service. The order is that in which
// parts of an error tree overrule one another.
type score uint8

const (
	scoreNone score = iota
	scoreGood
	scoreThrottled
	scoreBad
)

// result is how a call ended.
type result struct {
	err   error
	hint  hint
	score score
	slow  bool
}

var errCrashed = errors.New("backoff: operation panicked or left its goroutine")

// report takes in what a call returned.
func (b *Breaker) report(ctx context.Context, t permit, err error) {
	b.settle(ctx, t, b.weigh(ctx, t, err))
}

// crashed takes in that a call did not return.
func (b *Breaker) crashed(ctx context.Context, t permit) {
	b.settle(ctx, t, result{err: errCrashed, score: scoreBad})
}

// weigh says how a call ended.
func (b *Breaker) weigh(ctx context.Context, t permit, err error) result {
	r := result{err: err, score: scoreGood}
	if t.phase == nil {
		return r
	}
	ended := ctx.Err()
	switch {
	case err == nil:
	case ended != nil && ended != context.DeadlineExceeded:
		r.score = scoreNone
	case ended != nil && errors.Is(err, context.Canceled): // its way to report the deadline
		r.score = scoreBad
	default:
		r.score, r.hint = b.sort(err)
	}
	if b.SlowCall > 0 || b.MinAttemptTime > 0 {
		took := t.phase.age() - t.began
		r.slow = b.SlowCall > 0 && took >= b.SlowCall
		if ended != nil && r.score == scoreBad && took < b.MinAttemptTime {
			r.score = scoreNone
		}
	}
	return r
}

// sort scores an error. What a policy said of it is about retrying, so it is looked
// through; what the operation said stands.
func (b *Breaker) sort(err error) (score, hint) {
	if !layered(err) {
		return b.class(err)
	}
	switch e := err.(type) {
	case *OpenError:
		return scoreNone, hint{}
	case *Error:
		if e.Last == nil || e.Reason == ReasonCanceled {
			return scoreNone, hint{}
		}
		return b.sort(e.Last)
	case *marked:
		if e.class != ClassUnknown && !e.inferred {
			return scoreOf(e.class), judge(nil, err).hint
		}
		s, h := b.sort(e.err)
		return s, h.longer(e.hint)
	case interface{ Unwrap() []error }:
		return b.worst(e.Unwrap())
	}
	return b.sort(errors.Unwrap(err))
}

func (b *Breaker) worst(errs []error) (worst score, longest hint) {
	for _, err := range errs {
		if err != nil {
			s, h := b.sort(err)
			worst, longest = max(worst, s), longest.longer(h)
		}
	}
	return worst, longest
}

// layered reports whether a policy or a breaker had a hand in an error.
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

// class scores an error that nobody of ours has touched.
func (b *Breaker) class(err error) (score, hint) {
	if errors.Is(err, ErrOpen) || errors.Is(err, ErrBudget) {
		return scoreNone, hint{}
	}
	v := judge(b.Classify, err)
	if v.class == ClassPermanent && errors.Is(err, context.Canceled) {
		return scoreNone, hint{}
	}
	return scoreOf(v.class), v.hint
}

func scoreOf(c Class) score {
	switch c {
	case ClassPermanent:
		return scoreGood
	case ClassThrottled, ClassOverloaded:
		return scoreThrottled
	}
	return scoreBad
}
