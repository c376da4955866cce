package backoff

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/draw"
	"github.com/gobackoff/backoff/internal/limits"
)

const (
	leastReset     = 10 * time.Second // bounds of the default of ResetAfter
	mostReset      = 30 * time.Second
	longestRefusal = 2 * time.Minute
	leastHealthy   = time.Second // shortest run after which AtOnce is obeyed again
)

// endedRun returns the error of a run that returned nil. It is marked, because no
// classifier can know it.
func endedRun() error { return OfClass(errors.New("run ended"), ClassRetryable) }

// A Supervisor runs an operation again and again: it is a reconnect loop. The
// operation is a connection, a subscription or a watch, which should not end but
// does. The zero Supervisor reconnects for as long as its context lives.
//
//	err := backoff.Supervisor{Policy: policy}.Run(ctx, connectAndServe)
type Supervisor struct {
	_ [0]func() // no unkeyed literals, no ==

	// Policy of the loop. Its MaxAttempts must be 0 or negative: MaxRuns takes
	// its place. Its MaxElapsed counts from the last run that lasted
	// ResetAfter. Its Idempotency is asked as for a retry. If a server, or a
	// [Breaker] in the operation, asks for a longer wait than MaxRetryAfter,
	// the loop waits for MaxRetryAfter and up to a tenth more.
	Policy Policy

	// Most runs in a row. 0 and negative mean no limit. A run that lasted
	// ResetAfter is the first of a new row. Policy.ByClass may set another
	// limit for a class.
	MaxRuns int

	// Time that a run, with its dial, must last for the schedule to start again,
	// and for a Budget to count a success. Defaults to the longest delay of
	// Policy.Schedule, from 10 to 30 seconds; negative means no time. An
	// [AtOnce] is obeyed again only after a run of a second or more.
	ResetAfter time.Duration
}

// Run runs op again and again until ctx ends, with a wait after each run. A run
// that returns nil counts as a failure of ClassRetryable.
//
// A Budget is asked when the wait before a run is over. If it refuses, the loop
// waits as the schedule says, and asks again. A schedule that says 0 is then
// replaced by the zero Exponential. After 2 minutes of refusals the loop asks
// as for a first attempt.
//
// Run returns when ctx ends, when the next wait would pass its deadline, when a
// limit is reached, and when an error is permanent or of ClassOverloaded, by
// its mark or by the policy's own Classify. So mark the errors that should end
// the loop, such as a refused login. What DefaultClassifier finds permanent
// does not end it. Nor does an open [Breaker] in op, or a policy in op that
// gave up.
//
// The error is an [*Error]; its Reason says why. It may match a
// context.Canceled that op returned, though ctx has not ended. An invalid
// Supervisor is refused with Validate's error. A panic in op passes through.
func (s Supervisor) Run(ctx context.Context, op func(context.Context) error) error {
	return s.RunReady(ctx, func(ctx context.Context, _ func()) error { return op(ctx) })
}

// RunReady is [Supervisor.Run] for an operation that calls ready when its run has
// started: it is connected, logged in, subscribed. The policy's Budget then
// gets a success, without waiting for the end of the run. So a Concurrency of
// package limit that many loops share bounds how many are connecting at once,
// and not how many are connected. If the run then ends with an error that says
// when to retry, the Budget gets a second Done.
//
// ready does not start the schedule again; only ResetAfter does. It does nothing
// if the run is over, or if it was called before. It is safe for concurrent use.
func (s Supervisor) RunReady(ctx context.Context, op func(ctx context.Context, ready func()) error) error {
	p := s.Policy
	l := reconnects{Supervisor: s, loop: Run{ctx: ctx}, grant: new(runGrant)}
	p.MaxAttempts, p.persists = cmp.Or(max(s.MaxRuns, 0), -1), true
	p.Budget = &l
	if p.Observer != nil {
		p.Observer = l.observe
	}
	l.loop.policy, l.loop.limit = p, p.MaxAttempts
	defer l.loop.settleUnfinished()
	for l.admit() {
		err := l.runOnce(op)
		l.loop.waitedOpen = 0
		wait, ok := l.loop.fail(err)
		if !ok || !l.loop.sleep(wait) {
			break
		}
	}
	return l.loop.err
}

// resetAfter is ResetAfter. A run that lasted longer than any wait is worth a short one.
func (s *Supervisor) resetAfter() time.Duration {
	longest := limits.Cap(delayOf(s.Policy.Schedule, 1000), s.Policy.MaxDelay)
	return limits.Or(s.ResetAfter, clamp(longest, leastReset, mostReset))
}

// Decide is [Policy.Decide] for a loop that keeps its own count: it says what
// follows when the given run, counted from 1, has ended with err. It looks inside the
// error of a policy that gave up.
func (s Supervisor) Decide(run int, err error) Decision {
	if err == nil {
		err = endedRun()
	}
	p := s.Policy
	p.MaxAttempts, p.persists = cmp.Or(max(s.MaxRuns, 0), -1), true
	return p.Decide(run, err)
}

// Validate reports every invalid field with its value, or returns nil.
func (s Supervisor) Validate() error {
	return join(s.checkAttempts(), s.Policy.Validate())
}

func (s *Supervisor) checkAttempts() error {
	if s.Policy.MaxAttempts <= 0 {
		return nil
	}
	return invalid("Supervisor.Policy.MaxAttempts", "is "+strconv.Itoa(s.Policy.MaxAttempts)+", want 0: MaxRuns limits the runs")
}

// runGrant is what a budget granted to a run; the zero value is nothing. The
// first of ready and the end of the run settles it.
type runGrant struct {
	budget  Budget
	ticket  Ticket
	settled atomic.Bool
}

// ready tells the budget that the run has started.
func (g *runGrant) ready() { g.settle(Result{}) }

// settle tells the budget how the run ended, also if the grant is settled and a
// server has asked for a wait.
func (g *runGrant) settle(r Result) {
	if g.budget != nil && (g.settled.CompareAndSwap(false, true) || r.RetryAfter > 0) {
		g.budget.Done(g.ticket, r)
	}
}

// reconnects is the loop of a Supervisor. It is also the budget of its own Run,
// and grants everything, because a loop asks the user's budget after the wait.
type reconnects struct {
	Supervisor
	BudgetDefaults

	loop         Run
	pending      Attempt   // attempt that the Run asked for
	grant        *runGrant // grant of the newest run
	refusedSince time.Time // start of the budget's refusals; zero if it does not refuse
}

// Reserve implements [Budget] for the loop's own Run.
func (l *reconnects) Reserve(a Attempt) (Ticket, time.Duration, bool) {
	l.pending = a
	l.pending.Wait, l.pending.Paced = 0, true // the user's budget is asked when it is over
	return Ticket{}, 0, true
}

// Done implements [Budget] for the loop's own Run.
func (l *reconnects) Done(_ Ticket, r Result) { l.grant.settle(r) }

// Validate implements [Budget] for the loop's own Run, which validates its Policy.
func (l *reconnects) Validate() error {
	return join(l.checkAttempts(), validate("Policy.Budget", l.Policy.Budget))
}

// observe is the observer of the loop's own Run. What that Run calls a retry is a
// reconnect.
func (l *reconnects) observe(ctx context.Context, e Event) {
	if e.Kind == EventRetry {
		e.Kind = EventReconnect
	}
	l.Policy.Observer(ctx, e)
}

// runOnce makes one run.
func (l *reconnects) runOnce(op func(ctx context.Context, ready func()) error) error {
	began := clock.Now()
	err := op(l.loop.context(), l.grant.ready)
	if took := clock.Now().Sub(began); took >= l.resetAfter() {
		atOnce := l.loop.atOnce && took < leastHealthy
		l.loop.Progress()
		l.loop.atOnce = atOnce
		l.grant.settle(Result{})
	}
	if err == nil {
		err = endedRun()
	}
	return err
}

// admit waits until the next run may start, or reports that there is none.
func (l *reconnects) admit() bool {
	if _, ok := l.loop.admit(); !ok {
		return false
	}
	for l.Policy.Budget != nil && !l.askBudget() {
		if !l.waitRefused() {
			return false
		}
	}
	l.refusedSince, l.loop.sent = time.Time{}, time.Time{} // the run begins now
	_, begun := l.loop.Begin(0)
	return begun
}

// askBudget asks the user's budget for the next run.
func (l *reconnects) askBudget() bool {
	b := l.Policy.Budget
	l.pending.Now = clock.Now()
	if !l.refusedSince.IsZero() && l.pending.Now.Sub(l.refusedSince) >= longestRefusal {
		l.pending.Number = 1
	}
	ticket, wait, ok := b.Reserve(l.pending)
	if !ok {
		return false
	}
	l.grant = &runGrant{budget: b, ticket: ticket}
	for wait > 0 && ok {
		if !l.waitMore(wait, wait) {
			return false
		}
		l.grant.ticket, wait, ok = b.Pace(l.grant.ticket)
	}
	if !ok || !b.Confirm(l.grant.ticket) {
		l.grant.settle(Result{NotSent: true})
		return false
	}
	return true
}

// waitRefused waits after the budget refused, and reports whether to ask again.
func (l *reconnects) waitRefused() bool {
	r := &l.loop
	if r.phase == over {
		return false
	}
	if l.refusedSince.IsZero() {
		l.refusedSince = clock.Now()
	}
	r.retries++
	after := r.policy.limitsFor(l.pending.Class)
	wait := r.policy.jittered(after.Jitter, delayOf(after.Schedule, r.retries), r.prev)
	r.prev = wait
	if wait <= 0 {
		wait = l.minimalWait()
	}
	if r.policy.Observer != nil {
		r.notify(&Event{Kind: EventRefused, Reason: ReasonBudget, Wait: wait})
	}
	return l.waitMore(wait, 0)
}

// minimalWait is a wait above 0, for a schedule that has none.
func (l *reconnects) minimalWait() time.Duration {
	wait := EqualJitter(Exponential{}.Delay(l.loop.retries), 0, draw.Unit(l.Policy.Rand))
	return limits.Cap(wait, l.Policy.MaxDelay)
}

// waitMore waits again before the same run, if the loop has the time. The budget asked
// for the part of it that is sure.
func (l *reconnects) waitMore(wait, sure time.Duration) bool {
	r := &l.loop
	r.sure = sure
	if why := r.timeFor(wait, r.elapsedLeft()); wait > 0 && why != goOn {
		r.settle(Result{NotSent: true})
		r.giveUp(why, ClassUnknown, wait)
		return false
	}
	return r.sleep(wait)
}
