package backoff_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/control/wake"
	"github.com/gobackoff/backoff/hedge"
	"github.com/gobackoff/backoff/internal/force"
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
		requireIs(t, r.Err(), backoff.ErrExhausted, errBoom)
		for range r.Attempts() {
			t.Fatal("a call that is over made an attempt")
		}
	})
}

func TestTheLastOfTwoFailsStandsAlsoWithoutAnError(t *testing.T) {
	for _, last := range []error{errFinal, nil} {
		r := (&backoff.Policy{MaxAttempts: 1}).Start(t.Context())
		for range r.Attempts() {
			r.Fail(errBoom)
			r.Fail(last)
		}
		require.ErrorIs(t, r.Err(), backoff.ErrExhausted)
		require.Equal(t, last != nil, errors.Is(r.Err(), errFinal))
		require.NotErrorIs(t, r.Err(), errBoom)
	}
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

func TestBreakingOffAfterFailReturnsTheErrorAsItIs(t *testing.T) {
	books := &ledger{}
	r := (&backoff.Policy{Budget: books}).Start(t.Context())
	for range r.Attempts() {
		r.Fail(errBoom)
		break
	}
	require.Same(t, errBoom, r.Err())
	require.Equal(t, "done 1: failed", books.lines[1])
}

// Otherwise the first request would have another timeout than the second, or none, and
// another key, or none, which charges twice. The clock begins with the first, too.
func TestEachAttemptOfALoopHasTheSame(t *testing.T) {
	for way, run := range ways {
		bubble(t, way, func(t *testing.T) {
			policy := *steady(time.Second)
			policy.Idempotency, policy.AttemptTimeout, policy.MaxElapsed = backoff.Keyed, 5*time.Second, 10*time.Second
			began := time.Now()
			var left []time.Duration
			var keys []string
			err := run(t.Context(), &policy, func(ctx context.Context) error {
				deadline, _ := ctx.Deadline()
				left, keys = append(left, time.Until(deadline)), append(keys, backoff.IdempotencyKey(ctx))
				time.Sleep(4 * time.Second)
				return errBoom
			})
			require.Equal(t, msec(5000, 5000), left)
			require.NotEmpty(t, keys[0])
			require.Equal(t, keys[0], keys[1])
			require.Equal(t, backoff.ReasonElapsed, gaveUp(t, err).Reason)
			require.Equal(t, 9*time.Second, time.Since(began))
		})
	}
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
	})
}

func TestResetMakesARunAsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy, books := steady(time.Second), &ledger{}
		policy.Budget = books
		r := policy.Start(t.Context())
		for range 3 {
			op := returning(errBoom)
			require.ErrorIs(t, loop(r, op.do), errBoom)
			require.Len(t, op.at, 4)
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
	r.Begin(0)
	require.True(t, granted(r.Retry(errBoom)))
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

// Begin and Retry, for callers with a loop of their own.

func TestBeginSaysNo(t *testing.T) {
	ended := endedContext(t)
	for _, row := range []struct {
		ctx    context.Context
		policy backoff.Policy
		want   string
	}{
		{ended, backoff.Policy{}, "backoff: not started: context canceled"},
		{ended, backoff.Policy{Idempotency: backoff.Keyed}, "backoff: not started: context canceled"},
		{ended, backoff.Policy{Schedule: backoff.Constant(-1)}, "backoff: Policy.Schedule: Constant is -1ns, want 0 or more"},
		{t.Context(), backoff.Policy{Budget: refusing(1)}, "backoff: not started: budget refused (Budget)"},
		{t.Context(), backoff.Policy{Schedule: backoff.Constant(-1)}, "backoff: Policy.Schedule: Constant is -1ns, want 0 or more"},
	} {
		events := watch(&row.policy)
		r := row.policy.Start(row.ctx)
		for range 2 {
			ctx, ok := r.Begin(0)
			require.False(t, ok, row.want)
			require.Equal(t, row.ctx, ctx)
		}
		require.False(t, granted(r.Retry(errBoom)))
		require.EqualError(t, r.Err(), row.want)
		require.Len(t, *events, 1)
		for range r.Attempts() {
			t.Fatal("an attempt that was not granted")
		}
	}
}

// Such an attempt would have had no timeout and no key.
func TestRetryWithoutABeginEndsTheCall(t *testing.T) {
	for _, result := range []error{nil, errBoom} {
		for _, begun := range []bool{false, true} { // the first attempt
			policy, books := backoff.Policy{Schedule: backoff.Constant(0)}, &ledger{}
			policy.Budget = books
			events := watch(&policy)
			r := policy.Start(t.Context())
			if begun {
				r.Begin(0)
				r.Retry(errBoom)
			}
			wait, ok := r.Retry(result)
			require.False(t, ok)
			require.Zero(t, wait)
			require.EqualError(t, r.Err(), "backoff: Run.Retry was called without Run.Begin")
			require.False(t, backoff.Policy{}.Retryable(r.Err()))
			last := (*events)[len(*events)-1]
			require.Equal(t, []any{backoff.EventGiveUp, backoff.ReasonInvalid, r.Err()}, []any{last.Kind, last.Reason, last.Err})
			require.Empty(t, books.out)
			require.False(t, granted(r.Begin(0)), "over is over")
		}
	}
}

// The attempt was made, and a result is never lost: neither to the end of the context
// meanwhile, as in Do, nor to a budget.
func TestRetryCountsWhatItIsToldOf(t *testing.T) {
	for name, policy := range everyPath() {
		for _, begin := range []bool{true, false} {
			for _, result := range []error{nil, errBoom} {
				ctx, cancel := context.WithCancel(t.Context())
				r := policy.Start(ctx)
				tell := r.Tried
				if begin {
					require.True(t, granted(r.Begin(0)))
					tell = r.Retry
				}
				cancel() // during the attempt
				_, ok := tell(result)
				require.False(t, ok)
				if require.ErrorIs(t, r.Err(), result, name); result != nil {
					require.ErrorContains(t, r.Err(), "gave up after 1 attempt: context canceled: boom", "%s, begun: %v", name, begin)
				}
			}
		}
	}
}

func TestAfterASuccessThereIsNothingMore(t *testing.T) {
	for name, policy := range everyPath() {
		ranged, begun, tried := policy.Start(t.Context()), policy.Start(t.Context()), policy.Start(t.Context())
		require.NoError(t, loop(ranged, returning(nil).do))
		begun.Begin(0)
		begun.Retry(nil)
		tried.Tried(nil)
		for _, r := range []*backoff.Run{ranged, begun, tried} {
			require.False(t, granted(r.Retry(errBoom)), name)
			require.False(t, granted(r.Tried(errBoom)), name)
			require.False(t, granted(r.Begin(0)), name)
			for range r.Attempts() {
				t.Fatalf("%s: an attempt after success", name)
			}
			require.NoError(t, r.Err(), name)
		}
	}
}

// Tried, for the loops of other libraries.

func TestTriedDecidesForALoopThatSleepsItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := backoff.Policy{Schedule: backoff.Exponential{Initial: time.Second}, Jitter: backoff.NoJitter}
		r := policy.Start(t.Context())
		began := time.Now()
		for _, want := range msec(1000, 2000, 4000) {
			pause, ok := r.Tried(errBoom)
			require.True(t, ok)
			require.Equal(t, want, pause)
		}
		require.Zero(t, time.Since(began), "the caller sleeps")
		pause, ok := r.Tried(errBoom)
		require.False(t, ok)
		require.Zero(t, pause)
		require.Equal(t, 4, gaveUp(t, r.Err()).Attempts)
		require.False(t, granted(r.Tried(errBoom)), "over is over")
	})
}

func TestTriedAsksTheBudgetAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		books := &ledger{}
		policy := backoff.Policy{Budget: books, Schedule: backoff.Constant(0)}
		events := watch(&policy)
		r := policy.Start(t.Context())
		require.True(t, granted(r.Tried(errBoom)))
		require.False(t, granted(r.Tried(nil)))
		require.NoError(t, r.Err())
		require.Equal(t, []string{
			"0s: reserve first 1 after unknown", "done 1: failed", "0s: reserve retry 2 after unknown", "done 2: success",
		}, books.lines)
		require.Equal(t, backoff.EventSuccess, (*events)[1].Kind)
		require.Equal(t, 2, (*events)[1].Attempt)

		clerk := new(clerk)
		_, _ = (&backoff.Policy{Budget: clerk}).Start(t.Context()).Tried(nil)
		clerk.asked[0].Now = time.Time{}
		require.Equal(t, []backoff.Attempt{{Number: 1, MaxAttempts: 4}}, clerk.asked, "which is not paced")
		require.Equal(t, []string{"success"}, clerk.told)
	})
}

func TestTriedCountsAnAttemptAfterOneThatWasBegun(t *testing.T) {
	r := (&backoff.Policy{Schedule: backoff.Constant(0), MaxAttempts: 2}).Start(t.Context())
	r.Begin(0)
	pause, ok := r.Retry(errBoom)
	require.True(t, ok)
	require.Zero(t, pause)
	require.False(t, granted(r.Tried(errBoom)))
	require.Equal(t, 2, gaveUp(t, r.Err()).Attempts)
}

// A budget would have refused the attempt, or its departure. A success stands, and
// a failure ends the call with its error.
func TestTriedKeepsTheResultOfAnAttemptThatABudgetRefuses(t *testing.T) {
	shut := func(from uint64) *turnstile {
		return &turnstile{shut: func(ticket uint64) bool { return ticket >= from }}
	}
	for name, budget := range map[string]backoff.Budget{"refuses": refusing(1), "refuses the departure": shut(1), "is invalid": (*backoff.RetryBudget)(nil)} {
		r := (&backoff.Policy{Budget: budget}).Start(t.Context())
		require.False(t, granted(r.Tried(nil)), name)
		require.NoError(t, r.Err(), name)
	}

	r := (&backoff.Policy{Budget: refusing(1)}).Start(t.Context())
	require.False(t, granted(r.Tried(errFinal)))
	requireIs(t, r.Err(), backoff.ErrBudget, errFinal)

	books := shut(2)
	r = (&backoff.Policy{Budget: books, Schedule: backoff.Constant(0)}).Start(t.Context())
	require.True(t, granted(r.Tried(errBoom)))
	require.False(t, granted(r.Tried(errFinal)))
	require.ErrorIs(t, r.Err(), backoff.ErrBudget)
	require.Empty(t, books.out)
	require.ErrorIs(t, r.Err(), errFinal, "the last error")
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

// A call costs no goroutine but its caller's, asleep or
// cancelled.
func TestThousandsOfCancelledCallsLeaveNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls, others = 2000, 10 // goroutines of the runtime and of other tests come and go
		policy := &backoff.Policy{Schedule: backoff.Constant(time.Hour), Jitter: backoff.NoJitter, AttemptTimeout: time.Hour}
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
		var attempts, exhausted atomic.Int64
		together(1000, func(int) {
			err := policy.Do(t.Context(), func(context.Context) error { attempts.Add(1); return errBoom })
			if e, ok := err.(*backoff.Error); ok && e.Attempts == 4 {
				exhausted.Add(1)
			}
		})
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
	policy := &backoff.Policy{Schedule: backoff.Constant(time.Millisecond), Jitter: backoff.NoJitter, MaxAttempts: 2}
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
	r := backoff.Policy{Schedule: backoff.Constant(0)}.Start(t.Context())
	for ctx := range r.Attempts() {
		if r.Attempt() == 1 {
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

// An attempt that is under way must end before the next one begins.
func TestBeginDuringAnAttemptEndsTheCall(t *testing.T) {
	budget := new(clerk)
	r := backoff.Policy{Budget: budget}.Start(t.Context())
	require.True(t, granted(r.Begin(0)))
	require.False(t, granted(r.Begin(0)))
	require.EqualError(t, r.Err(), "backoff: Run.Begin was called before Run.Retry")
	require.Empty(t, budget.out, "the budget has its ticket back")
}

func TestACallThatIsWokenBeginsItsScheduleAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network wake.Signal
		time.AfterFunc(40*time.Second, network.Wake) // 25.5 s after the start begins a wait of 25.6 s
		var at []time.Duration
		began := time.Now()
		p := backoff.Policy{MaxAttempts: 11, Jitter: backoff.NoJitter}
		p.Do(network.Context(t.Context()), func(context.Context) error {
			at = append(at, time.Since(began))
			return errDown
		})
		require.Less(t, at[9], 40*time.Second+101*time.Millisecond)
		require.Equal(t, 200*time.Millisecond, at[10]-at[9])
	})
}

// forceFirst makes the first attempt of each call fail without being made, and the second
// one after it was made, until the test ends.
func forceFirst(t *testing.T) {
	type key struct{}
	force.OnStart = func(ctx context.Context, limit int, elapsed time.Duration, repeatable bool) context.Context {
		require.True(t, repeatable)
		require.Equal(t, 3, limit)
		require.Equal(t, time.Minute, elapsed)
		return context.WithValue(ctx, key{}, new(int))
	}
	force.OnAttempt = func(ctx context.Context) (context.Context, error) {
		made := ctx.Value(key{}).(*int)
		if *made++; *made == 1 {
			return ctx, errDown
		}
		return ctx, nil
	}
	force.OnResult = func(ctx context.Context, err error) error {
		if *ctx.Value(key{}).(*int) == 2 {
			return errDown
		}
		return err
	}
	force.OnBreaker = func(ctx context.Context, b any) context.Context { return context.WithValue(ctx, key{}, b) }
	force.On.Store(true)
	t.Cleanup(func() { force.On.Store(false) })
}

func TestATestMayForceEachKindOfLoopToRetry(t *testing.T) {
	forceFirst(t)
	p := backoff.Policy{MaxAttempts: 3, MaxElapsed: time.Minute, Schedule: backoff.Constant(0)}
	calls := 0
	require.NoError(t, p.Do(t.Context(), func(context.Context) error {
		calls++
		return nil
	}))
	require.Equal(t, 2, calls)

	run := p.Start(t.Context())
	for range run.Attempts() {
		require.Equal(t, 2, run.Attempt())
		break
	}
	require.NoError(t, run.Err())

	run = p.Start(t.Context())
	_, ok := run.Begin(0) // which has no way to fail
	require.True(t, ok)
	_, ok = run.Retry(nil)
	require.False(t, ok)

	b := new(backoff.Breaker)
	require.NoError(t, b.Do(t.Context(), func(ctx context.Context) error {
		require.NotEqual(t, t.Context(), ctx)
		return nil
	}))
}
