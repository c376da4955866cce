package backoff

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/draw"
	"github.com/gobackoff/backoff/internal/limits"
)

const (
	defaultResetAfter = 2 * time.Minute
	longestRefusal    = 2 * time.Minute
)

// errEnded is marked, because no classifier can know it.
var errEnded = WithClass(errors.New("run ended"), ClassRetryable)

// Supervise runs op again and again until ctx ends: it is a reconnect loop. op
// is a connection, a subscription or a watch, which should not end but does.
// Between two runs Supervise waits as after a failure, even if op returned nil
// or ran long: clients that were disconnected together must not reconnect
// together.
//
// The schedule starts again after a run that lasted ResetAfter, and not
// before: a service that accepts connections and drops them is not healthy.
// MaxAttempts and MaxElapsed count from the last run of that length, which is
// itself the first of MaxAttempts. Here a MaxAttempts of 0 means no limit, and
// ByClass may set one for a class. A run that returned nil is of
// ClassRetryable.
//
// A Budget is asked after the wait before a run. So a Rate of package limit
// that many loops share spaces their runs, and a Concurrency bounds them; see
// [ReportReady]. If the budget refuses, the loop waits once more, as the
// schedule says, and asks again. It never asks without a wait: if the schedule
// says 0, the zero Exponential is used. After 2 minutes of refusals it asks as
// for a first attempt. Otherwise a budget that only success pays for, such as
// [RetryBudget], and the loop would wait for each other. A run that lasted
// ResetAfter pays.
//
// Supervise ends when ctx ends, a limit that the policy sets is reached, op
// returns an error marked [Permanent] or ClassOverloaded, or the policy's own
// Classify says one of the two. Nothing else ends it. A failure that
// DefaultClassifier finds permanent, such as a name that does not exist, a
// certificate or a cancellation of op's own, may be gone at the next run. The
// same holds for what another policy in op gave up on, which Classify gets to
// see here. So mark the errors that should end the loop, such as a refused
// login. The loop waits for an open [Breaker] in op.
//
// If MaxRetryAfter is set, a server or a [Breaker] that asks for a longer wait
// ends the loop. If it is 0, the loop waits 5 minutes instead. MaxRetryAfter
// bounds a single wait for a circuit, not all of them. A [Pushback] counts as
// a [RetryAfter], so that no server can make the loop spin.
//
// The error is an [*Error], even after a permanent one, and its Reason says
// why the loop ended. Do not test for context.Canceled instead: it would also
// match one of op's own. An invalid policy is refused with the error of
// Validate. A panic in op passes through.
func (p Policy) Supervise(ctx context.Context, op func(context.Context) error) error {
	s := supervisor{budget: p.Budget, observer: p.Observer, grant: new(runGrant)}
	s.Run = Run{lasting: true, cutsHints: p.MaxRetryAfter == 0, ending: ending{ctx: ctx}}
	p.MaxAttempts, p.MaxRetryAfter = limits.Or(p.MaxAttempts, -1), limits.Or(p.MaxRetryAfter, -1)
	if p.Budget != nil {
		p.Budget = &s
	}
	if p.Observer != nil {
		p.Observer = s.observe
	}
	s.policy, s.limit = p, p.MaxAttempts
	defer s.abandon()
	for s.admit() {
		err := s.runOnce(op)
		s.waitedOpen = 0
		wait, ok := s.fail(err)
		if !ok || !s.sleep(wait) {
			break
		}
	}
	return s.err
}

// ReportReady tells the [Policy.Supervise] that made ctx that the run has
// started: it is connected, logged in, subscribed. The policy's Budget then
// gets a success, without waiting for the end of the run. So a Concurrency of
// package limit that many loops share bounds how many are connecting at once,
// and not how many are connected. If the run then ends with an error that says
// when to retry, the Budget is told by a second Done.
//
// ReportReady does not start the schedule again; only ResetAfter does. It does
// nothing if ctx does not come from a Supervise, if the run is over, or if it
// was called before. It is safe for concurrent use.
func ReportReady(ctx context.Context) {
	if g, ok := ctx.Value(runGrantKey{}).(*runGrant); ok {
		g.settle(Result{})
	}
}

// runGrantKey is the key by which a context finds the grant of its run.
type runGrantKey struct{}

// runGrant is what a budget granted to a run; the zero value is nothing. The
// first of ReportReady and the end of the run settles it.
type runGrant struct {
	budget  Budget
	ticket  Ticket
	settled atomic.Bool
}

// settle tells the budget how the run ended, also if the grant is settled and a
// server has asked for a wait.
func (g *runGrant) settle(r Result) {
	if g.budget != nil && (g.settled.CompareAndSwap(false, true) || r.RetryAfter > 0) {
		g.budget.Done(g.ticket, r)
	}
}

// supervisor is a Run under Supervise. It stands in for the budget of its own
// Run, and grants everything; the user's budget is asked after the wait.
type supervisor struct {
	Run
	budget       Budget    // the user's
	observer     Observer  // the user's
	pending      Attempt   // what the Run asked for
	grant        *runGrant // of the last run
	refusedSince time.Time // zero if the budget does not refuse
}

// Reserve implements [Budget] for the supervisor's own Run.
func (s *supervisor) Reserve(a Attempt) (Ticket, time.Duration, bool) {
	s.pending = a
	s.pending.Wait, s.pending.Paced = 0, true // the user's budget is asked when it is over
	return Ticket{}, 0, true
}

// Done implements [Budget] for the supervisor's own Run.
func (s *supervisor) Done(_ Ticket, r Result) { s.grant.settle(r) }

// Validate asks the user's budget.
func (s *supervisor) Validate() error { return validate(s.budget) }

// observe is the observer of the supervisor's own Run. What that Run calls a
// retry is a reconnect.
func (s *supervisor) observe(ctx context.Context, e Event) {
	if e.Kind == EventRetry {
		e.Kind = EventReconnect
	}
	s.observer(ctx, e)
}

// runOnce makes one run.
func (s *supervisor) runOnce(op func(context.Context) error) error {
	began := clock.Now()
	err := op(context.WithValue(s.Context(), runGrantKey{}, s.grant))
	if clock.Now().Sub(began) >= limits.Or(s.policy.ResetAfter, defaultResetAfter) {
		s.Progress()
		s.grant.settle(Result{})
	}
	if err == nil {
		err = errEnded
	}
	return err
}

// admit waits until the next run may start, or reports that there is none.
func (s *supervisor) admit() bool {
	if _, ok := s.Run.admit(true); !ok {
		return false
	}
	for s.budget != nil && !s.askBudget() {
		if !s.waitRefused() {
			return false
		}
	}
	s.refusedSince = time.Time{}
	return s.Begin(0)
}

// askBudget asks the user's budget for the next run.
func (s *supervisor) askBudget() bool {
	s.pending.Now = clock.Now()
	if !s.refusedSince.IsZero() && s.pending.Now.Sub(s.refusedSince) >= longestRefusal {
		s.pending.Kind = AttemptFirst
	}
	ticket, wait, ok := s.budget.Reserve(s.pending)
	if !ok {
		return false
	}
	s.grant = &runGrant{budget: s.budget, ticket: ticket}
	for wait > 0 && ok {
		if !s.waitMore(wait) {
			return false
		}
		s.grant.ticket, wait, ok = pace(s.budget, s.grant.ticket)
	}
	if !ok || !confirm(s.budget, s.grant.ticket) {
		s.grant.settle(Result{Outcome: OutcomeNotSent})
		return false
	}
	return true
}

// waitRefused waits after the budget refused, and reports whether to ask again.
func (s *supervisor) waitRefused() bool {
	if s.phase == over {
		return false
	}
	if s.refusedSince.IsZero() {
		s.refusedSince = clock.Now()
	}
	s.retries++
	wait := s.policy.jittered(delayOf(s.policy.after(s.pending.Class).Schedule, s.retries), s.prev)
	s.prev = wait
	if wait <= 0 {
		wait = s.minimalWait()
	}
	if s.observer != nil {
		s.notify(&Event{Kind: EventRefused, Reason: ReasonBudget, Wait: wait})
	}
	return s.waitMore(wait)
}

// minimalWait is a wait above 0, for a schedule that has none.
func (s *supervisor) minimalWait() time.Duration {
	wait := EqualJitter(Exponential{}.Delay(s.retries), 0, draw.Unit(s.policy.Rand))
	if s.policy.MaxDelay > 0 {
		wait = min(wait, s.policy.MaxDelay)
	}
	return wait
}

// waitMore waits again before the same run, if that is within the loop's time.
func (s *supervisor) waitMore(wait time.Duration) bool {
	if why := s.fits(wait, s.age()); wait > 0 && why != ReasonSuccess {
		s.settle(Result{Outcome: OutcomeNotSent})
		s.giveUp(why, ClassUnknown, wait)
		return false
	}
	return s.sleep(wait)
}
