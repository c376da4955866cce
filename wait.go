package backoff

import (
	"context"
	"math/bits"
	mathrand "math/rand/v2"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/draw"
	"github.com/gobackoff/backoff/internal/limits"
)

// The waits of a call are what its next wait depends on.
type waits struct {
	_ [0]func() // no ==

	retries    int           // retries since the schedule began
	prev       time.Duration // last wait, for the jitter
	sure       time.Duration // part of the wait under way that a server or the budget asked for
	atOnce     bool          // whether the last error asked for a retry without a wait
	refusals   int           // refusals of a breaker in a row that did not say when to ask again
	waitedOpen time.Duration // time waited for a circuit since the last attempt
}

// nextWait returns the delay of the schedule before the next attempt, and the wait:
// the delay under the jitter, scaled by the priority of the call, and at least
// what the server asked for.
func (r *Run) nextWait(v *verdict, elapsedLeft time.Duration) (delay, wait time.Duration) {
	p := &r.policy
	if r.sure = 0; v.open != nil {
		return r.circuitWait(v.hint.after)
	}
	r.sure = v.hint.after
	inRow := r.atOnce
	if r.atOnce = v.atOnce; v.atOnce && !inRow && !v.hint.given {
		return 0, 0
	}
	after := p.limitsFor(v.class)
	delay = delayOf(after.Schedule, r.retries+1)
	wait = p.jittered(after.Jitter, delay, r.prev)
	r.retries, r.prev = r.retries+1, wait
	if wait > 0 { // a call of low priority waits longer
		wait = limits.Cap(scale(wait, [...]float64{4, 1, 0.5}[PriorityOf(r.ctx)-PriorityBackground]), p.MaxDelay)
	}
	if v.hint.exact {
		r.retries, r.prev = 0, 0
	}
	left := maxDuration
	if v.hint.given || p.ShortenLastWait {
		left = min(elapsedLeft, untilDeadline(r.ctx))
	}
	wait = p.withRetryAfter(wait, v.hint, left)
	if p.ShortenLastWait && p.MaxElapsed > 0 && !p.hasAttemptTimeout() && left > 0 {
		wait = min(wait, max(left, v.hint.after))
	}
	return delay, wait
}

// circuitWait is nextWait after a breaker has refused. A breaker does not know
// when to ask again while all probes are out, or while it is forced open. Then
// the waits grow with each refusal, and are never so short as to make a busy
// loop. Refusals do not move the schedule on.
func (r *Run) circuitWait(after time.Duration) (delay, wait time.Duration) {
	const least = 10 * time.Millisecond
	r.refusals++
	delay = delayOf(r.policy.Schedule, r.retries+r.refusals)
	if wait = after; wait > 0 {
		r.refusals = 0
	} else {
		delay = max(delay, min(least<<min(r.refusals-1, 12), 30*time.Second))
		wait = max(least, r.policy.jittered(r.policy.Jitter, delay, max(r.prev, r.waitedOpen)))
	}
	r.waitedOpen += wait
	return delay, wait
}

// waitedTooLong reports whether the call has waited long enough for a circuit.
func (r *Run) waitedTooLong() bool {
	p := &r.policy
	return !p.persists && p.MaxElapsed <= 0 && p.capRetryAfter(r.waitedOpen) < r.waitedOpen
}

// timeFor returns why there is no time for an attempt after wait, or goOn.
func (r *Run) timeFor(wait, elapsedLeft time.Duration) Reason {
	wait = clock.Lasts(wait)
	noTime := wait == elapsedLeft && r.policy.MaxElapsed > 0 && r.policy.hasAttemptTimeout() // for the attempt
	switch {
	case wait > elapsedLeft || noTime:
		return ReasonElapsed
	case (wait > 0 || r.draft.failure.timedOut) && wait >= untilDeadline(r.ctx): // a deadline may end an attempt together with its timeout
		return ReasonDeadline
	}
	return goOn
}

// elapsedLeft returns how much of MaxElapsed is left: the last attempt begins
// within that time.
func (r *Run) elapsedLeft() time.Duration {
	if r.policy.MaxElapsed <= 0 {
		return maxDuration
	}
	return r.policy.MaxElapsed - r.age()
}

// untilDeadline returns how much time is left before the deadline of a call's
// context.
func untilDeadline(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return deadline.Sub(clock.Real())
	}
	return maxDuration
}

// capped bounds what a server may ask of a Supervisor, which waits no longer
// than MaxRetryAfter, and for no exact time: a server could make it spin.
func (p *Policy) capped(h hint) hint {
	if p.persists {
		h.exact, h.after = false, p.capRetryAfter(h.after)
	}
	return h
}

// capRetryAfter bounds a wait by MaxRetryAfter.
func (p *Policy) capRetryAfter(wait time.Duration) time.Duration {
	return limits.Cap(wait, limits.Or(p.MaxRetryAfter, defaultMaxRetryAfter))
}

// jittered turns a delay into a wait.
func (p *Policy) jittered(j Jitter, delay, prev time.Duration) time.Duration {
	switch {
	case j != nil:
		if isNoJitter(j) && p.MaxDelay <= 0 {
			return delay
		}
		return p.jitteredWith(j, delay, prev, draw.Unit(p.Rand))
	case delay == 0:
		return 0
	case p.Rand != nil || p.MaxDelay > 0:
		return p.jitteredWith(FullJitter, delay, prev, draw.Unit(p.Rand))
	}
	wait, _ := bits.Mul64(mathrand.Uint64(), uint64(delay)) // FullJitter, in integers
	return time.Duration(wait)
}

// jitteredWith is jittered for the draw u.
func (p *Policy) jitteredWith(j Jitter, delay, prev time.Duration, u float64) time.Duration {
	return limits.Cap(max(0, j(delay, prev, u)), p.MaxDelay)
}

// leastSpread is the least time over which calls are spread that a server asked
// to wait equally long.
const leastSpread = 100 * time.Millisecond

// withRetryAfter makes a wait at least as long as a server asked for, and
// spreads it over a tenth of that. If that time fits into the time left, but
// the wait does not, the wait ends at random between what the server asked for and the
// end of the time left.
func (p *Policy) withRetryAfter(wait time.Duration, h hint, left time.Duration) time.Duration {
	switch {
	case !h.given:
		return wait
	case h.exact:
		return h.after
	}
	u := draw.Unit(p.Rand)
	wait = max(wait, limits.Add(h.after, scale(max(h.after/10, leastSpread), u)))
	if wait < left || h.after > left || h.after == 0 { // waits cut by 0 would shrink to nothing
		return wait
	}
	return h.after + scale(left-h.after, u)
}
