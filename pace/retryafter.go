package pace

import (
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/badfield"
	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/fault"
	"github.com/gobackoff/backoff/internal/limits"
)

// HoldOff is a [backoff.Budget] that makes all calls that share it wait once a
// server told one of them when to retry. It is for services that count the
// requests of a whole client. As the budget of a service it is joined with another:
//
//	&guard.Service{Budget: backoff.JoinBudgets(new(pace.HoldOff), new(pace.Pacer))}
//
// It reads what the server said from the error of an attempt, by
// [backoff.RetryAfter], [backoff.Pushback], or a method RetryAfter()
// time.Duration. If a server says so in a response that is a success, or a
// permanent failure, call Hold, as a Transport of package backoffhttp does. Until
// the time that the server named, no attempt begins: first attempts wait, too, and
// so does a retry whose own wait ends before. Of several such times the latest
// counts. Afterwards the calls begin at random,
// within a tenth of the time that the server asked for, or 100 ms if that is
// more. A call already waiting for its own Retry-After is not delayed again, so
// the wait of a [backoff.Pushback] stays exact.
//
// A failure that does not say when to retry delays no other call. HoldOff
// refuses nothing, except as MaxWait says: join it with another Budget by
// [backoff.JoinBudgets], in any order. A budget that spaces calls then also spaces
// those that were held off together. A call whose context or policy leaves less
// time than it would have to wait ends at once, with an error that says so.
//
// The zero value is ready to use. A HoldOff must not be copied, nor MaxWait
// changed, after first use. It is safe for concurrent use. It takes no lock.
// While nothing is held, a call costs one atomic load, reads no clock and
// allocates nothing. A Done that never comes is a response that is not
// counted; a second Done changes nothing.
type HoldOff struct {
	backoff.BudgetDefaults

	// MaxWait is the longest wait that a server may ask for. If it asks for more,
	// HoldOff ignores it. A call that was put off once, and would then be put off
	// for longer than MaxWait in all, is refused. 0 means 5 minutes, a negative
	// value no limit.
	MaxWait time.Duration

	held atomic.Pointer[hold] // nil while nothing is held
}

// hold is the time in which no attempt begins.
type hold struct {
	until time.Time
	asked time.Duration // by the server
}

// leastSpread is the least time over which calls that were held off together are
// spread, as after a RetryAfter.
const leastSpread = 100 * time.Millisecond

// Hold makes calls wait for d from now on, unless they wait for longer already.
// It does nothing if d is 0, negative, or beyond MaxWait.
func (h *HoldOff) Hold(d time.Duration) {
	if d <= 0 || d > maxWait(h.MaxWait) {
		return
	}
	next := &hold{clock.Now().Add(d), d}
	for {
		old := h.held.Load()
		if old != nil && !next.until.After(old.until) || h.held.CompareAndSwap(old, next) {
			return
		}
	}
}

// GrantsFirst implements [backoff.Budget]. It is true while nothing is held.
func (h *HoldOff) GrantsFirst() bool { return h != nil && h.held.Load() == nil }

// Reserve implements [backoff.Budget]. It grants every attempt.
func (h *HoldOff) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	held := h.held.Load()
	if held == nil {
		return backoff.Ticket{}, 0, true
	}
	now := a.Time()
	left := held.until.Sub(now)
	if left <= 0 {
		h.held.CompareAndSwap(held, nil)
	}
	if left <= a.Wait {
		return backoff.Ticket{}, 0, true
	}
	t := h.ticket(now)
	return t, held.wait(left, t), true
}

// Pace implements [backoff.Budget], for calls that were told to wait longer while
// they waited.
func (h *HoldOff) Pace(t backoff.Ticket) (backoff.Ticket, time.Duration, bool) {
	held := h.held.Load()
	if held == nil {
		return t, 0, true
	}
	now := clock.Now()
	left := held.until.Sub(now)
	switch {
	case left <= 0:
		return t, 0, true
	case t.Word == 0:
		t = h.ticket(now)
	case int64(held.until.Sub(loaded)) > int64(t.Word):
		return t, 0, false
	}
	return t, held.wait(left, t), true
}

// drawn is the bits of a ticket that are random: where in the spread its call
// is. The others are the latest time to which the call may be put off, rounded up
// to about a millisecond, in nanoseconds since loaded.
const drawn = 1<<20 - 1

// loaded is a moment from which time counts, whatever a clock is set to meanwhile.
var loaded = clock.Now()

// ticket returns the ticket of a call that is put off from now on.
func (h *HoldOff) ticket(now time.Time) backoff.Ticket {
	latest := min(math.MaxInt64-drawn, limits.Add(now.Sub(loaded), maxWait(h.MaxWait)))
	return backoff.Ticket{Word: uint64(latest+drawn)&^drawn | rand.Uint64N(drawn+1)}
}

// wait returns how long a call waits if the hold ends in left.
func (h *hold) wait(left time.Duration, t backoff.Ticket) time.Duration {
	u := float64(t.Word&drawn) / (drawn + 1)
	return limits.Add(left, time.Duration(u*float64(max(h.asked/10, leastSpread))))
}

// Done implements [backoff.Budget].
func (h *HoldOff) Done(_ backoff.Ticket, r backoff.Result) {
	f := whose(&r)
	if f != fault.Wrong && f.Row().Pacer != fault.Unmade { // a breaker's wait is for its own calls, that of a permanent failure for its own operation
		h.Hold(r.RetryAfter)
	}
}

// Validate refuses a nil HoldOff.
func (h *HoldOff) Validate() error { return backoff.Permanent(badfield.Nil("pace.HoldOff", h == nil)) }
