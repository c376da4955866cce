package backoff

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
)

const (
	defaultResetAfter = 2 * time.Minute
	longestRefusal    = 2 * time.Minute
)

var errEnded = errors.New("run ended")

// Keep runs op again and again, for as long as ctx lives: op is a connection, a
// subscription, a watch, that should not end but does. Between two runs it waits as
// after a failure, also when op returned nil, and also before the first run that follows a long
// one: those who were cut off together must not come back together.
//
// The schedule starts again after a run that lasted Healthy, and not before:
// a service that accepts connections and drops them is not well. MaxAttempts and
// MaxElapsed count since the last healthy run, which is itself the first of MaxAttempts;
// here a MaxAttempts of 0 means no limit.
//
// A Budget is asked when the wait before a run is over, so that a limit.Rate shared by any
// number of loops spaces their runs, and a limit.Concurrency bounds them; see [ReportReady]. Where it
// refuses, the loop waits once more, as the schedule says, and asks again. It never asks without
// a wait: where the schedule says 0, the zero Exponential stands in. After 2 minutes of
// refusals it asks as for a first attempt: a budget that only success pays, such as
// [RetryBudget], would otherwise be waiting for the loop, and the loop for the budget. A healthy run pays.
//
// It returns when ctx ends, op returns a permanent error, one that says not to retry, or a
// limit is reached, with the error that Do would return. What another policy in op gave up on
// is permanent to this loop as to any other; where it shall not end it, mark its error:
// WithClass(err, ClassRetryable). For a [Breaker] in op there is WaitOpen. A panic in op passes through.
func (p *Policy) Supervise(ctx context.Context, op func(context.Context) error) error {
	k := keeper{own: *p, seat: new(seat)}
	if k.own.MaxAttempts == 0 {
		k.own.MaxAttempts = -1
	}
	if p.Budget != nil {
		k.own.Budget = &k
	}
	k.budget, k.observer = p.Budget, p.Observer
	if p.Observer != nil {
		k.own.Observer = k.rename
	}
	k.Run = Run{policy: &k.own, ctx: ctx}
	defer k.abandon()
	for k.admit() {
		wait, ok := k.fail(k.run(op))
		if !ok || !k.sleep(wait) {
			break
		}
	}
	return k.err
}

// ReportReady tells the [Policy.Supervise] that ctx comes from that the run is beyond its
// beginning: connected, logged in, subscribed. Its Budget then hears of a success, and has its
// attempt back, instead of waiting for the run to end. By this a limit.Concurrency shared by many
// loops bounds how many are connecting at once, and not how many are connected.
//
// It does not make a run healthy; only time does. Where ctx is not that of a Keep, after
// the run, and when called again, it does nothing. It is safe for concurrent use.
func ReportReady(ctx context.Context) {
	if s, ok := ctx.Value(seatKey{}).(*seat); ok {
		s.leave(OutcomeSuccess)
	}
}

type seatKey struct{}

// seat is what a run holds of a budget; the zero one is empty. Whoever leaves it first,
// ReportReady or the end of the run, settles with the budget.
type seat struct {
	budget Budget
	ticket Ticket
	left   atomic.Bool
}

func (s *seat) leave(o Outcome) {
	if s.budget != nil && s.left.CompareAndSwap(false, true) {
		s.budget.Done(s.ticket, o)
	}
}

// keeper is a Run under Keep. To its own Run it is the budget, one that grants
// everything: the real one is asked when the wait is over.
type keeper struct {
	Run
	own      Policy
	budget   Budget
	observer Observer  // the real one
	due      Attempt   // that the Run asked for
	seat     *seat     // of the last run
	refused  time.Time // since when; zero if the budget does not refuse
}

// Reserve implements [Budget] for the keeper's own Run.
func (k *keeper) Reserve(a Attempt) (Ticket, time.Duration, bool) {
	k.due = a
	return Ticket{}, 0, true
}

// Done implements [Budget] for the keeper's own Run.
func (k *keeper) Done(_ Ticket, o Outcome) { k.seat.leave(o) }

// Validate asks the real budget.
func (k *keeper) Validate() error { return validate(k.budget) }

// rename is the observer of the keeper's own Run: a retry of that is a reconnect.
func (k *keeper) rename(ctx context.Context, e Event) {
	if e.Kind == EventRetry {
		e.Kind = EventReconnect
	}
	k.observer(ctx, e)
}

// run makes one run. Only time makes it healthy.
func (k *keeper) run(op func(context.Context) error) error {
	began := clock.Now()
	err := op(context.WithValue(k.Context(), seatKey{}, k.seat))
	if clock.Now().Sub(began) >= k.own.resetAfter() {
		k.Progress()
		k.seat.leave(OutcomeSuccess)
	}
	if err == nil {
		err = errEnded
	}
	return err
}

// admit waits until the next run may begin, or reports that there is none.
func (k *keeper) admit() bool {
	if _, ok := k.Admit(); !ok {
		return false
	}
	for k.budget != nil && !k.ask() {
		if !k.linger() {
			return false
		}
	}
	k.refused = time.Time{}
	return k.begin()
}

// ask asks the budget for the run that is due.
func (k *keeper) ask() bool {
	k.now = clock.Now()
	k.due.Now = k.now
	if !k.refused.IsZero() && k.now.Sub(k.refused) >= longestRefusal {
		k.due.Kind = AttemptFirst
	}
	ticket, wait, ok := k.budget.Reserve(k.due)
	if !ok {
		return false
	}
	k.seat = &seat{budget: k.budget, ticket: ticket}
	if !k.pause(wait) {
		return false
	}
	if d, ok := k.budget.(Confirmer); ok && !d.Confirm(ticket) {
		k.seat.leave(OutcomeNotSent)
		return false
	}
	return true
}

// linger waits after the budget refused, and reports whether to ask it again.
func (k *keeper) linger() bool {
	if k.over {
		return false
	}
	k.now = clock.Now()
	if k.refused.IsZero() {
		k.refused = k.now
	}
	k.step++
	wait := k.own.jittered(delayOf(k.own.Schedule, k.step), k.prev)
	k.prev = wait
	if wait <= 0 {
		wait = k.stopgap()
	}
	if k.observer != nil {
		k.notify(&Event{Kind: EventRefused, Reason: ReasonBudget, Wait: wait})
	}
	return k.pause(wait)
}

// stopgap is a wait, never 0, for a schedule that has none.
func (k *keeper) stopgap() time.Duration {
	wait := EqualJitter(Exponential{}.Delay(k.step), 0, k.own.draw())
	if k.own.MaxDelay > 0 {
		wait = min(wait, k.own.MaxDelay)
	}
	return wait
}

// pause waits on, before the same run, if that is within the loop's time.
func (k *keeper) pause(wait time.Duration) bool {
	if wait <= 0 {
		return true
	}
	if k.ctx.Err() != nil {
		k.cancelled()
		return false
	}
	if why := k.fits(wait); why != ReasonSuccess {
		k.settle(OutcomeNotSent)
		k.giveUp(why, ClassUnknown, wait)
		return false
	}
	before := k.slept
	woken := k.sleep(wait)
	k.slept += before
	return woken
}

func (p *Policy) resetAfter() time.Duration {
	if p.ResetAfter == 0 {
		return defaultResetAfter
	}
	return p.ResetAfter
}
