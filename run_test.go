package backoff_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/hedge"
	"github.com/gobackoff/backoff/limit"
)

func TestTheRangeLoopEndsWhenThePolicyGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op := returning(errBoom)
		r := steady(time.Second).Start(t.Context())
		var numbers []int
		for ctx := range r.Attempts() {
			n := r.Attempt()
			require.NoError(t, r.Err(), "the call goes on")
			numbers = append(numbers, n)
			r.Fail(op.do(ctx))
		}
		require.Equal(t, []int{1, 2, 3, 4}, numbers)
		require.Equal(t, msec(0, 1000, 2000, 3000), op.at, "no sleep after the last")
		require.ErrorIs(t, r.Err(), backoff.ErrExhausted)
		require.ErrorIs(t, r.Err(), errBoom)
		for range r.Attempts() {
			t.Fatal("a call that is over made an attempt")
		}
	})
}

// fetchInLoop is the loop of the documentation.
func fetchInLoop(ctx context.Context, p *backoff.Policy, fetch func(context.Context) error) (string, error) {
	r := p.Start(ctx)
	for ctx := range r.Attempts() {
		err := fetch(ctx)
		if err == nil {
			return "value", nil
		}
		r.Fail(err)
	}
	return "", r.Err()
}

func TestReturningFromTheRangeLoopIsSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy, books := steady(time.Second), &ledger{}
		policy.Budget = books
		events := watch(policy)
		v, err := fetchInLoop(t.Context(), policy, returning(errBoom, nil).do)
		require.NoError(t, err)
		require.Equal(t, "value", v)
		require.Equal(t, "done 2: success", books.lines[len(books.lines)-1])
		require.Equal(t, backoff.EventSuccess, (*events)[1].Kind)

		_, err = fetchInLoop(t.Context(), policy, returning(backoff.Permanent(errFinal)).do)
		require.EqualError(t, err, "final")
		require.Empty(t, books.out)
	})
}

func TestTheLastOfTwoFailsStands(t *testing.T) {
	r := (&backoff.Policy{MaxAttempts: 1}).Start(t.Context())
	for range r.Attempts() {
		r.Fail(errBoom)
		r.Fail(errFinal)
	}
	require.ErrorIs(t, r.Err(), errFinal)
	require.NotErrorIs(t, r.Err(), errBoom)
}

// Forgetting Fail must not end in a report of success, nor tell of an older
// failure.
func TestAForgottenFailIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := steady(time.Second).Start(t.Context())
		attempts := 0
		for range r.Attempts() {
			if attempts++; attempts == 1 {
				r.Fail(errBoom)
			}
		}
		require.Equal(t, 4, attempts)
		require.EqualError(t, r.Err(), "backoff: gave up after 4 attempts: the program did not say why (Run.Fail)")
		require.NotErrorIs(t, r.Err(), errBoom)
	})
}

func TestFailWithoutAnErrorIsAFailureToo(t *testing.T) {
	r := (&backoff.Policy{MaxAttempts: 1}).Start(t.Context())
	for range r.Attempts() {
		r.Fail(nil)
	}
	require.ErrorIs(t, r.Err(), backoff.ErrExhausted)
}

func TestBreakingOffAfterFailReturnsTheErrorAsItIs(t *testing.T) {
	books := &ledger{}
	r := (&backoff.Policy{Budget: books}).Start(t.Context())
	for range r.Attempts() {
		r.Fail(errBoom)
		break
	}
	require.Same(t, errBoom, r.Err())
	require.Equal(t, "done 1: transient", books.lines[1])
}

func TestTheContextOfARunIsTheAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := steady(time.Second)
		policy.AttemptTimeout, policy.Idempotency = time.Minute, backoff.Keyed
		r := policy.Start(t.Context())
		_, ok := r.Context().Deadline()
		require.False(t, ok, "no attempt yet")
		keys := map[string]bool{}
		for ctx := range r.Attempts() {
			deadline, ok := ctx.Deadline()
			require.True(t, ok)
			require.Equal(t, time.Minute, time.Until(deadline))
			keys[backoff.IdempotencyKey(ctx)] = true
			r.Fail(errBoom)
		}
		require.Len(t, keys, 1)
		require.NotContains(t, keys, "")
		_, ok = r.Context().Deadline()
		require.False(t, ok, "no attempt any more")
	})
}

func TestATimeoutInTheRangeLoopIsKnownAsTheAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		books := &ledger{}
		policy := steady(time.Second)
		policy.AttemptTimeout, policy.Budget = time.Minute, books
		r := policy.Start(t.Context())
		for ctx := range r.Attempts() {
			n := r.Attempt()
			<-ctx.Done()
			r.Fail(ctx.Err())
			if n == 2 {
				break
			}
		}
		require.Equal(t, context.DeadlineExceeded, r.Err())
		require.Equal(t, "done 1: timeout", books.lines[1])
		require.Equal(t, "done 2: timeout", books.lines[3])
	})
}

// Each chunk that got through has the whole policy
// before it.
func TestProgressStartsAttemptsElapsedTimeAndScheduleAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := backoff.Policy{
			Schedule: backoff.Exponential{Initial: time.Second}, Jitter: backoff.NoJitter,
			MaxAttempts: 3, MaxElapsed: 10 * time.Second,
		}
		op := returning(errBoom)
		r := policy.Start(t.Context())
		for ctx := range r.Attempts() {
			n := r.Attempt()
			if n == 3 || n == 5 { // got further before it broke off
				time.Sleep(time.Minute)
				r.Progress()
			}
			r.Fail(op.do(ctx))
		}
		// Attempts 1, 2, 3: waits of 1 and 2 s. Then 3 is the first of three: 1
		// s; so is 5.
		require.Equal(t, msec(0, 1000, 63_000, 64_000, 126_000, 127_000, 129_000), op.at)
		e := gaveUp(t, r.Err())
		require.Equal(t, backoff.ReasonAttempts, e.Reason)
		require.Equal(t, 3, e.Attempts, "since the last progress, as the time")
		require.Equal(t, 3*time.Second, e.Elapsed)
	})
}

func TestResetMakesARunAsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy, books := steady(time.Second), &ledger{}
		policy.Budget = books
		r := policy.Start(t.Context())
		for range 3 {
			attempts := 0
			for range r.Attempts() {
				attempts++
				r.Fail(errBoom)
			}
			require.Equal(t, 4, attempts)
			require.ErrorIs(t, r.Err(), errBoom)
			r.Reset()
			require.NoError(t, r.Err())
		}
		require.Len(t, books.lines, 3*4*2, "an attempt is asked for once, and told of once")
	})
}

func TestResetLeavesNothingOpen(t *testing.T) {
	books := &ledger{}
	r := (&backoff.Policy{Budget: books, AttemptTimeout: time.Hour}).Start(t.Context())
	var attempt context.Context
	for ctx := range r.Attempts() {
		attempt = ctx
		r.Reset()
		break
	}
	require.NoError(t, r.Err())
	require.Empty(t, books.out)
	require.Error(t, attempt.Err())
}

func TestResetGivesBackARetryThatWasGranted(t *testing.T) {
	books := &ledger{}
	r := (&backoff.Policy{Budget: books, Schedule: backoff.Constant(0)}).Start(t.Context())
	_, ok := r.Retry(errBoom)
	require.True(t, ok)
	require.Len(t, books.out, 1)
	r.Reset()
	require.Empty(t, books.out)
}

// The connection that held was one attempt, whatever was reset while it ended.
func TestResetPaysForEveryAttemptOnce(t *testing.T) {
	books := &ledger{}
	r := (&backoff.Policy{Budget: books, Schedule: backoff.Constant(0)}).Start(t.Context())
	attempts := 0
	for range r.Attempts() {
		if attempts++; attempts == 2 {
			break
		}
		r.Reset()
		r.Fail(errBoom)
	}
	require.NoError(t, r.Err())
	require.Empty(t, books.out)
	require.Equal(t, attempts, books.granted, "%q", books.lines)
}

// Retry, for callers with a loop of their own.

// It is the shape of a gax.Retryer.
func TestRetryDecidesForALoopThatSleepsItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var retryer interface {
			Retry(err error) (pause time.Duration, shouldRetry bool)
		}
		policy := backoff.Policy{Schedule: backoff.Exponential{Initial: time.Second}, Jitter: backoff.NoJitter}
		r := policy.Start(t.Context())
		retryer = r
		began := time.Now()
		for _, want := range msec(1000, 2000, 4000) {
			pause, ok := retryer.Retry(errBoom)
			require.True(t, ok)
			require.Equal(t, want, pause)
		}
		require.Zero(t, time.Since(began), "the caller sleeps")
		pause, ok := retryer.Retry(errBoom)
		require.False(t, ok)
		require.Zero(t, pause)
		require.Equal(t, 4, gaveUp(t, r.Err()).Attempts)
		_, ok = retryer.Retry(errBoom)
		require.False(t, ok, "over is over")
	})
}

func TestRetryTakesNoErrorForSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		books := &ledger{}
		policy := backoff.Policy{Budget: books, Schedule: backoff.Constant(0)}
		events := watch(&policy)
		r := policy.Start(t.Context())
		_, ok := r.Retry(errBoom)
		require.True(t, ok)
		_, ok = r.Retry(nil)
		require.False(t, ok)
		require.NoError(t, r.Err())
		require.Equal(t, []string{
			"0s: reserve first 1 after unknown", "done 1: transient", "0s: reserve retry 2 after unknown", "done 2: success",
		}, books.lines)
		require.Equal(t, backoff.EventSuccess, (*events)[1].Kind)
		require.Equal(t, 2, (*events)[1].Attempt)
	})
}

func TestAfterASuccessThereIsNothingMore(t *testing.T) {
	for name, policy := range everyPath() {
		ranged, asked := policy.Start(t.Context()), policy.Start(t.Context())
		for range ranged.Attempts() {
			break
		}
		pause, ok := asked.Retry(nil)
		require.False(t, ok, name)
		require.Zero(t, pause, name)
		for _, r := range []*backoff.Run{ranged, asked} {
			pause, ok := r.Retry(errBoom)
			require.False(t, ok, name)
			require.Zero(t, pause, name)
			_, ok = r.Admit()
			require.False(t, ok, name)
			for range r.Attempts() {
				t.Fatalf("%s: an attempt after success", name)
			}
			require.NoError(t, r.Err(), name)
		}
	}
}

// A caller's own loop reports after the fact. That the context ended meanwhile
// takes nothing away from a result, as in Do.
func TestRetryNeverDropsASuccess(t *testing.T) {
	for name, policy := range everyPath() {
		for _, admit := range []bool{true, false} {
			ctx, cancel := context.WithCancel(t.Context())
			r := policy.Start(ctx)
			if admit {
				_, ok := r.Admit()
				require.True(t, ok)
			}
			cancel() // during the attempt
			_, ok := r.Retry(nil)
			require.False(t, ok)
			require.NoError(t, r.Err(), "%s, asked before: %v", name, admit)
		}
	}
}

func TestRetryTellsTheBudgetOfASuccessThatItWasNotAskedFor(t *testing.T) {
	clerk := new(clerk)
	_, _ = (&backoff.Policy{Budget: clerk}).Start(t.Context()).Retry(nil)
	clerk.asked[0].Now = time.Time{}
	require.Equal(t, []backoff.Attempt{{Number: 1, MaxAttempts: 4}}, clerk.asked)
	require.Equal(t, []backoff.Outcome{backoff.OutcomeSuccess}, clerk.told)
}

func TestBeginPaysABudgetThatGrantsFirstAttemptsUnasked(t *testing.T) {
	budget := new(backoff.RetryBudget)
	r := (&backoff.Policy{Budget: budget}).Start(t.Context())
	require.True(t, r.Begin(0))
	r.Retry(nil)
	require.EqualValues(t, 1, budget.Stats().Successes)
}

func TestRetryInHindsightKeepsTheErrorThatABudgetRefusedToRetry(t *testing.T) {
	r := (&backoff.Policy{Budget: refusing(1)}).Start(t.Context())
	pause, ok := r.Retry(errBoom)
	require.False(t, ok)
	require.Zero(t, pause)
	require.ErrorIs(t, r.Err(), backoff.ErrBudget)
	require.ErrorIs(t, r.Err(), errBoom)
}

func TestRetryCountsAnAttemptAfterOneThatWasBegun(t *testing.T) {
	r := (&backoff.Policy{Schedule: backoff.Constant(0), MaxAttempts: 2}).Start(t.Context())
	require.True(t, r.Begin(0))
	pause, ok := r.Retry(errBoom)
	require.True(t, ok)
	require.Zero(t, pause)
	_, ok = r.Retry(errBoom)
	require.False(t, ok)
	require.Equal(t, 2, gaveUp(t, r.Err()).Attempts)
}

func TestProgressStartsTheAttemptsTimesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := backoff.Policy{AttemptTimeoutSchedule: backoff.Linear{Initial: time.Second}, Schedule: backoff.Constant(0)}
		r := policy.Start(t.Context())
		var limits []time.Duration
		for ctx := range r.Attempts() {
			deadline, _ := ctx.Deadline()
			limits = append(limits, time.Until(deadline))
			if len(limits) == 2 {
				r.Progress()
			}
			r.Fail(errBoom)
		}
		require.Equal(t, msec(1000, 2000, 2000, 3000, 4000), limits)
	})
}

func TestAdmitNamesWhatIsInvalidAlsoUnderAnEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	policy := backoff.Policy{Schedule: backoff.Constant(-1)}
	events := watch(&policy)
	r := policy.Start(ctx)
	r.Admit()
	require.ErrorContains(t, r.Err(), "Policy.Schedule")
	require.Len(t, *events, 1)
	require.Equal(t, backoff.ClassPermanent, (*events)[0].Class)
}

// Nor does a budget that would have refused the attempt which brought it.
func TestRetryNeverDropsASuccessForABudget(t *testing.T) {
	shut := func(uint64) bool { return true }
	for name, budget := range map[string]backoff.Budget{"refuses": refusing(1), "refuses the departure": &turnstile{shut: shut},
		"is invalid": (*backoff.RetryBudget)(nil)} {
		r := (&backoff.Policy{Budget: budget}).Start(t.Context())
		_, ok := r.Retry(nil)
		require.False(t, ok, name)
		require.NoError(t, r.Err(), name)
	}
}

// A departure refused in hindsight ends the call, with the attempt that was
// made.
func TestRetryAsksForTheDepartureToo(t *testing.T) {
	books := &turnstile{shut: func(ticket uint64) bool { return ticket == 2 }}
	r := (&backoff.Policy{Budget: books, Schedule: backoff.Constant(0)}).Start(t.Context())
	_, ok := r.Retry(errBoom)
	require.True(t, ok)
	_, ok = r.Retry(errFinal)
	require.False(t, ok)
	require.ErrorIs(t, r.Err(), backoff.ErrBudget)
	require.Empty(t, books.out)
	require.ErrorIs(t, r.Err(), errFinal, "the last error")
	require.Equal(t, 2, gaveUp(t, r.Err()).Attempts)
}

// The attempt was made, whether or not it was asked for.
func TestRetryCountsTheAttemptItIsToldOf(t *testing.T) {
	for _, admit := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		r := (&backoff.Policy{}).Start(ctx)
		if admit {
			r.Admit()
		}
		cancel()
		_, ok := r.Retry(errBoom)
		require.False(t, ok)
		require.EqualError(t, r.Err(), "backoff: gave up after 1 attempt: context canceled: boom", "asked before: %v", admit)
	}
}

func TestAdmitAsksForTheFirstAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		books := &ledger{wait: func(backoff.Attempt) time.Duration { return time.Minute }}
		r := (&backoff.Policy{Budget: books}).Start(t.Context())
		pause, ok := r.Admit()
		require.True(t, ok)
		require.Equal(t, time.Minute, pause)
		pause, ok = r.Admit()
		require.True(t, ok)
		require.Zero(t, pause, "asked once")
		require.Len(t, books.lines, 1)
	})
}

func TestAdmitSaysNo(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, row := range []struct {
		ctx    context.Context
		policy backoff.Policy
		want   string
	}{
		{ended, backoff.Policy{}, "backoff: not started: context canceled"},
		{ended, backoff.Policy{Idempotency: backoff.Keyed}, "backoff: not started: context canceled"},
		{t.Context(), backoff.Policy{Budget: refusing(1)}, "backoff: not started: budget refused (Policy.Budget)"},
		{t.Context(), backoff.Policy{Schedule: backoff.Constant(-1)}, "backoff: Policy.Schedule: Constant is -1ns, want 0 or more"},
	} {
		r := row.policy.Start(row.ctx)
		for range 2 {
			pause, ok := r.Admit()
			require.False(t, ok, row.want)
			require.Zero(t, pause)
		}
		_, ok := r.Retry(errBoom)
		require.False(t, ok)
		require.EqualError(t, r.Err(), row.want)
		for range r.Attempts() {
			t.Fatal("an attempt that was not admitted")
		}
	}
}

// Without a context of its own for each attempt, a caller's loop still finds
// the key of the call where Run.Context promises it.
func TestACallersOwnLoopFindsItsKey(t *testing.T) {
	r := (&backoff.Policy{Idempotency: backoff.Keyed, Schedule: backoff.Constant(0)}).Start(t.Context())
	_, ok := r.Admit()
	require.True(t, ok)
	key := backoff.IdempotencyKey(r.Context())
	require.NotEmpty(t, key, "first attempt")
	_, ok = r.Retry(errBoom)
	require.True(t, ok)
	require.Equal(t, key, backoff.IdempotencyKey(r.Context()), "second attempt")
}

// A range loop may be gone on with after an Admit of its own.
func TestAttemptsFollowAnAdmit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		books := &ledger{}
		policy := steady(time.Second)
		policy.Budget = books
		r := policy.Start(t.Context())
		r.Admit()
		for range r.Attempts() {
			break
		}
		require.Equal(t, []string{"0s: reserve first 1 after unknown", "done 1: success"}, books.lines)
	})
}

// A caller's own loop may leave the waiting to the Run, and has then all that
// Do has.
func TestBeginWaitsAndBeginsForACallersOwnLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inFlight := &limit.Concurrency{Max: 1}
		policy := steady(time.Second)
		policy.Budget = inFlight
		events := watch(policy)
		r, start := policy.Start(t.Context()), time.Now()
		pause, ok := r.Admit()
		for attempt := 0; ok && r.Begin(pause); attempt++ {
			require.Equal(t, 1, inFlight.Load(), "under way")
			if attempt == 2 {
				r.Retry(nil)
				break
			}
			pause, ok = r.Retry(errBoom)
			require.Zero(t, inFlight.Load(), "asleep")
		}
		require.NoError(t, r.Err())
		require.Equal(t, 2*time.Second, time.Since(start))
		require.Equal(t, time.Second, (*events)[1].Slept)
		require.Equal(t, 3, (*events)[2].Attempt)
	})
}

func TestBeginEndsTheCallWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := steady(time.Minute).Start(ctx)
		pause, ok := r.Retry(errBoom)
		require.True(t, ok)
		time.AfterFunc(time.Second, cancel)
		require.False(t, r.Begin(pause))
		require.ErrorIs(t, r.Err(), context.Canceled)
		require.ErrorIs(t, r.Err(), errBoom)
	})
}

// A call costs no goroutine but its caller's, asleep or
// cancelled.
func TestThousandsOfCancelledCallsLeaveNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls, others = 2000, 10 // goroutines of the runtime and of other tests come and go
		policy := steady(time.Hour)
		policy.AttemptTimeout = time.Hour
		ctx, cancel := context.WithCancel(t.Context())
		before := runtime.NumGoroutine()
		var wg sync.WaitGroup
		var cancelled atomic.Int64
		for range calls {
			wg.Go(func() {
				err := policy.Do(ctx, func(context.Context) error { return errBoom })
				if e, ok := err.(*backoff.Error); ok && e.Reason == backoff.ReasonCanceled {
					cancelled.Add(1)
				}
			})
		}
		synctest.Wait()
		require.LessOrEqual(t, runtime.NumGoroutine(), before+calls+others, "none but the callers")

		cancel()
		wg.Wait()
		synctest.Wait()
		require.EqualValues(t, calls, cancelled.Load())
		require.LessOrEqual(t, runtime.NumGoroutine(), before+others)
	})
}

// A policy is data, and shared as such.
func TestAThousandGoroutinesShareOnePolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := &backoff.Policy{
			Jitter: backoff.DecorrelatedJitter(time.Second, time.Minute), Idempotency: backoff.Keyed,
			AttemptTimeoutSchedule: backoff.Exponential{}, MaxElapsed: time.Hour, Budget: &ledger{},
			Observer: func(context.Context, backoff.Event) {},
		}
		var wg sync.WaitGroup
		var attempts, exhausted atomic.Int64
		for range 1000 {
			wg.Go(func() {
				err := policy.Do(t.Context(), func(context.Context) error { attempts.Add(1); return errBoom })
				if e, ok := err.(*backoff.Error); ok && e.Attempts == 4 {
					exhausted.Add(1)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 4000, attempts.Load())
		require.EqualValues(t, 1000, exhausted.Load())
	})
}

// A timer belongs to the bubble it was made in. Waits outside reuse theirs;
// none may find its way into a bubble, nor out of one.
func TestTimersStayInTheirBubble(t *testing.T) {
	policy := steady(time.Microsecond)
	wait := func(t *testing.T) {
		began := time.Now()
		op := returning(errBoom)
		require.ErrorIs(t, policy.Do(t.Context(), op.do), errBoom)
		require.GreaterOrEqual(t, time.Since(began), 3*time.Microsecond)
		require.Len(t, op.at, 4)
		h := &hedge.Hedge{Budget: &clerk{reserve: after(time.Microsecond)}}
		_, err := hedge.Value(t.Context(), h, func(context.Context) (int, error) { return 0, nil }, nil)
		require.NoError(t, err)
	}
	for range 3 {
		wait(t)
		synctest.Test(t, wait)
	}
}

// A wait that was cut short leaves nothing that the next one could find: not
// even a tick of the timer.
func TestACancelledWaitDoesNotShortenTheNext(t *testing.T) {
	policy := steady(time.Millisecond)
	policy.MaxAttempts = 2
	for range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		err := policy.Do(ctx, func(context.Context) error {
			time.AfterFunc(200*time.Microsecond, cancel)
			return errBoom
		})
		cancel()
		require.Error(t, err)
		began := time.Now()
		require.ErrorIs(t, policy.Do(t.Context(), returning(errBoom).do), backoff.ErrExhausted)
		require.GreaterOrEqual(t, time.Since(began), time.Millisecond)
	}
}

// The refusal of a breaker does not replace the service's last answer, unless
// the body of the loop leaves with it.
func TestLeavingTheLoopAfterARefusalReturnsTheRefusal(t *testing.T) {
	breaker := &backoff.Breaker{}
	policy := backoff.Policy{Schedule: backoff.Constant(0)}
	r := policy.Start(t.Context())
	for ctx := range r.Attempts() {
		n := r.Attempt()
		if n == 1 {
			r.Fail(errBoom)
			breaker.Trip()
			continue
		}
		r.Fail(breaker.Do(ctx, returning(nil).do))
		break
	}
	refusedBy(t, r.Err())
	require.NotErrorIs(t, r.Err(), errBoom)
}
