package backoff_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

// downFor is an operation that fails until so much time has passed.
func downFor(d time.Duration, calls *int) func(context.Context) error {
	start := time.Now()
	return func(context.Context) error {
		*calls++
		if time.Since(start) < d {
			return errDown
		}
		return nil
	}
}

var errDown = errors.New("down")

// impatient opens at the second failure in a row, for exactly a minute, and closes at
// the first success.
func impatient() *backoff.Breaker {
	return &backoff.Breaker{ConsecutiveFailures: 2, ConsecutiveSpan: -1, OpenFor: backoff.Constant(time.Minute), Jitter: backoff.NoJitter, ProbeSuccesses: 1}
}

// Contract row 33, the other way round: inside the loop the breaker hears every
// attempt, and its refusal ends the call with the service's last error and its own.
func TestAnOpenBreakerInsideEndsTheCallWithBothErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		policy := &backoff.Policy{Name: "fetch", MaxAttempts: 10, Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter}
		err := backoff.Stack(policy, impatient()).Do(t.Context(), downFor(time.Hour, &calls))

		require.Equal(t, 2, calls, "the third was refused")
		require.ErrorIs(t, err, backoff.ErrOpen)
		require.ErrorIs(t, err, errDown)
		gave, ok := errors.AsType[*backoff.Error](err)
		require.True(t, ok)
		require.Equal(t, backoff.ReasonOpen, gave.Reason)
		require.Equal(t, 2, gave.Attempts)
		open, ok := errors.AsType[*backoff.OpenError](err)
		require.True(t, ok)
		require.Equal(t, 59*time.Second, open.RetryAfter())

		outer := 0
		err = (&backoff.Policy{}).Do(t.Context(), func(context.Context) error { outer++; return err })
		require.ErrorIs(t, err, backoff.ErrOpen)
		require.Equal(t, 1, outer, "it is final to the loops around")
	})
}

func TestAFirstAttemptThatABreakerRefusesReturnsTheBreakersError(t *testing.T) {
	breaker := impatient()
	breaker.Trip()
	calls := 0
	err := backoff.Stack(&backoff.Policy{}, breaker).Do(t.Context(), downFor(0, &calls))
	require.Zero(t, calls)
	open, ok := errors.AsType[*backoff.OpenError](err)
	require.True(t, ok)
	require.Positive(t, open.RetryAfter())
}

func TestWaitOpenWaitsExactlyUntilTheCircuitMayBeTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, start := 0, time.Now()
		budget := &tokenCount{}
		policy := &backoff.Policy{MaxAttempts: 3, Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter, WaitOpen: true, Budget: budget}
		err := backoff.Stack(policy, impatient()).Do(t.Context(), downFor(30*time.Second, &calls))

		require.NoError(t, err)
		require.Equal(t, 3, calls, "the refusal was no attempt")
		require.Equal(t, time.Minute+time.Second, time.Since(start), "a second's wait, and a minute after the second failure")
		require.Equal(t, 3, budget.net(), "and took no token")
	})
}

func TestWaitOpenDoesNotWaitBeyondTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		calls, start := 0, time.Now()
		policy := &backoff.Policy{MaxAttempts: 3, Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter, WaitOpen: true}
		err := backoff.Stack(policy, impatient()).Do(ctx, downFor(time.Hour, &calls))

		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, errDown)
		require.Equal(t, 2*time.Second, time.Since(start), "it does not start a sleep that cannot end in an attempt")
	})
}

// The usual pair is fused into one call, which must be as careful as the two of them.
func TestAPanicInAStackCountsAndPassesThrough(t *testing.T) {
	breaker := &backoff.Breaker{ConsecutiveFailures: 1, ConsecutiveSpan: -1}
	service := backoff.Stack(breaker, &backoff.Policy{})
	require.NoError(t, service.Do(t.Context(), func(context.Context) error { return nil }))
	require.PanicsWithValue(t, "bug", func() {
		_ = service.Do(t.Context(), func(context.Context) error { panic("bug") })
	})
	require.Equal(t, backoff.StateOpen, breaker.State())
	require.ErrorIs(t, service.Do(t.Context(), func(context.Context) error { return nil }), backoff.ErrOpen)
}

// Contract row 33: around the loop a breaker hears one verdict per call, and open, it lets
// nothing through and sleeps not at all.
func TestABreakerAroundTheLoopHearsOneVerdictPerCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		breaker := &backoff.Breaker{ConsecutiveFailures: 10, ConsecutiveSpan: -1, MinCalls: 100}
		service := backoff.Stack(breaker, &backoff.Policy{MaxAttempts: 3})
		for range 10 {
			require.Equal(t, backoff.StateClosed, breaker.State())
			require.ErrorIs(t, service.Do(t.Context(), downFor(time.Hour, &attempts)), errDown)
		}
		require.Equal(t, 30, attempts)
		require.Equal(t, backoff.StateOpen, breaker.State(), "at the tenth verdict")

		start := time.Now()
		require.ErrorIs(t, service.Do(t.Context(), downFor(time.Hour, &attempts)), backoff.ErrOpen)
		require.Equal(t, 30, attempts)
		require.Zero(t, time.Since(start))
	})
}

// A budget may delay a first attempt, also a hedged one.
func TestAHedgedCallThatWaitsForItsBudgetEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		hedge := &backoff.Hedge{Budget: slow(time.Minute)}
		_, err := backoff.HedgeValue(ctx, hedge, func(context.Context) (int, error) { return 0, errors.New("not to be made") }, nil)
		require.ErrorIs(t, err, context.Canceled)
		require.NotContains(t, err.Error(), "not to be made")
	})
}

// Outside a bubble the timer of that wait is one that is used again.
func TestAHedgedCallWaitsForItsBudget(t *testing.T) {
	hedge := &backoff.Hedge{Budget: slow(time.Millisecond)}
	for range 3 {
		value, err := backoff.HedgeValue(t.Context(), hedge, func(context.Context) (int, error) { return 7, nil }, nil)
		require.NoError(t, err)
		require.Equal(t, 7, value)
	}
}

func TestAStackCarriesACallThroughAFailure(t *testing.T) {
	attempts := 0
	service := backoff.Stack(&backoff.Breaker{}, &backoff.Policy{Schedule: backoff.Constant(0)})
	require.NoError(t, service.Do(t.Context(), func(context.Context) error {
		if attempts++; attempts < 3 {
			return errDown
		}
		return nil
	}))
	require.Equal(t, 3, attempts)
}

// slow is a budget that grants everything, after so long.
type slow time.Duration

func (s slow) Reserve(backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	return backoff.Ticket{}, time.Duration(s), true
}
func (slow) Done(backoff.Ticket, backoff.Result) {}

// An attempt timeout that ends a call of an inner policy is the outer policy's, which
// goes on: it was its own doing.
func TestAnOuterAttemptTimeoutAroundAPolicyIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		outer := &backoff.Policy{MaxAttempts: 3, AttemptTimeout: time.Second, Schedule: backoff.Constant(0)}
		inner := &backoff.Policy{MaxAttempts: 5, Schedule: backoff.Constant(400 * time.Millisecond), Jitter: backoff.NoJitter}
		err := backoff.Stack(outer, inner).Do(t.Context(), downFor(time.Hour, &calls))
		require.ErrorIs(t, err, backoff.ErrExhausted)
		require.ErrorIs(t, err, errDown)
		require.Equal(t, 3*3, calls, "three attempts of the outer one, each with time for three of the inner")
	})
}

// The caller's own deadline is another matter.
func TestAnInnerPolicyThatRunsIntoTheCallersDeadlineEndsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		inner := &backoff.Policy{MaxAttempts: 5, Schedule: backoff.Constant(400 * time.Millisecond), Jitter: backoff.NoJitter}
		for _, outer := range []*backoff.Policy{{}, {AttemptTimeout: time.Hour}} {
			calls = 0
			require.ErrorIs(t, backoff.Stack(outer, inner).Do(ctx, downFor(time.Hour, &calls)), context.DeadlineExceeded)
			require.LessOrEqual(t, calls, 3)
		}
	})
}

// What an inner policy gave up on was no answer that could pay for retries.
func TestAnInnerPolicysGivingUpPaysNoBudget(t *testing.T) {
	var outcomes []backoff.Outcome
	outer := &backoff.Policy{Budget: hears(func(o backoff.Outcome) { outcomes = append(outcomes, o) })}
	inner := &backoff.Policy{Schedule: backoff.Constant(0)}
	calls := 0
	require.Error(t, backoff.Stack(outer, inner).Do(t.Context(), downFor(time.Hour, &calls)))
	require.Equal(t, []backoff.Outcome{backoff.OutcomeTransient}, outcomes)
}

type hears func(backoff.Outcome)

func (hears) Reserve(backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	return backoff.Ticket{}, 0, true
}
func (h hears) Done(_ backoff.Ticket, r backoff.Result) { h(r.Outcome) }

// Half-open, with its one probe out, a breaker cannot say when to come back.
func TestWaitOpenDoesNotSpinWhileAnotherProbeIsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		breaker := backoff.Breaker{ConsecutiveFailures: 1, ConsecutiveSpan: -1, OpenFor: backoff.Constant(time.Second), Jitter: backoff.NoJitter, ProbeTimeout: time.Minute}
		require.Error(t, breaker.Do(t.Context(), func(context.Context) error { return errDown }))
		time.Sleep(time.Second)
		go breaker.Do(t.Context(), func(context.Context) error { time.Sleep(30 * time.Second); return nil })
		synctest.Wait()

		policy := backoff.Policy{MaxAttempts: 2, Schedule: backoff.Constant(0), WaitOpen: true}
		asked := 0
		require.NoError(t, policy.Do(t.Context(), func(ctx context.Context) error {
			asked++
			return breaker.Do(ctx, func(context.Context) error { return nil })
		}))
		require.LessOrEqual(t, asked, 3100, "at most a hundred times a second")
	})
}

// Contract row 25: budget, breaker and retries in one outage, in one call.
func TestBudgetBreakerAndRetriesWorkTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		op := downFor(30*time.Second, &calls)
		service := backoff.Stack(
			&backoff.Breaker{OpenFor: backoff.Constant(5 * time.Second), Jitter: backoff.NoJitter},
			&backoff.Policy{Budget: &backoff.RetryBudget{}, AttemptTimeout: time.Second},
		)
		const seconds = 60
		refused, lost := 0, 0
		for range seconds * 10 {
			switch err := service.Do(t.Context(), op); {
			case errors.Is(err, backoff.ErrOpen):
				refused++
			case err != nil:
				lost++
			}
			time.Sleep(100 * time.Millisecond)
		}
		require.Greater(t, refused, 150, "of the 300 calls of the outage, most never left")
		require.Less(t, lost, 40)
		require.Less(t, calls, 600-refused+10, "and hardly one was retried: nothing succeeded that could pay")
		require.NoError(t, service.Do(t.Context(), op), "the service is back")
	})
}

// tokenCount is a budget that grants everything and keeps count.
type tokenCount struct{ reserved, unsent int }

func (s *tokenCount) Reserve(backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	s.reserved++
	return backoff.Ticket{}, 0, true
}

func (s *tokenCount) Done(_ backoff.Ticket, r backoff.Result) {
	if r.Outcome == backoff.OutcomeNotSent {
		s.unsent++
	}
}

// net is how many attempts were paid for.
func (s *tokenCount) net() int { return s.reserved - s.unsent }
