package backoff_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

// A fleet that is told "120" does not come back as one, nor
// early.
func TestARetryAfterIsNeverUndercutAndAlwaysSpread(t *testing.T) {
	policy := backoff.Policy{Rand: rand.New(rand.NewPCG(9, 10)).Float64}
	seen := map[time.Duration]bool{}
	var tenths [10]int
	for range 1000 {
		wait := again(t, policy, 1, backoff.RetryAfter(errBoom, 2*time.Minute))
		require.GreaterOrEqual(t, wait, 2*time.Minute)
		require.LessOrEqual(t, wait, 132*time.Second)
		seen[wait] = true
		tenths[min(9, (wait-2*time.Minute)*10/(12*time.Second))]++
	}
	require.Greater(t, len(seen), 990)
	for _, n := range tenths {
		require.InDelta(t, 100, n, 40, "%v: evenly over the tenth that may be added", tenths)
	}
}

// The longer of the own wait, and the hint
// with a tenth of it at random, or with 100 ms if that is more.
func TestTheWaitIsTheLongerOfTheOwnAndTheSpreadRetryAfter(t *testing.T) {
	for _, row := range []struct {
		hint, own, want time.Duration
	}{
		{0, 10 * time.Second, 10 * time.Second}, // a date in the past
		{time.Second, 10 * time.Second, 10 * time.Second},
		{40 * time.Second, time.Second, 42 * time.Second},
		{40 * time.Second, 41 * time.Second, 42 * time.Second},
		{40 * time.Second, 43 * time.Second, 43 * time.Second},
		{40 * time.Second, 0, 42 * time.Second},
		{time.Second, 0, 1050 * time.Millisecond},
		{200 * time.Millisecond, 0, 250 * time.Millisecond},
		{0, 0, 50 * time.Millisecond},
		{-time.Hour, 0, 50 * time.Millisecond},
	} {
		policy := backoff.Policy{Schedule: backoff.Constant(row.own), Jitter: backoff.NoJitter, Rand: fixed(0.5)}
		require.Equal(t, row.want, again(t, policy, 1, backoff.RetryAfter(errBoom, row.hint)), "%+v", row)
	}
	require.Equal(t, forever, again(t, backoff.Policy{MaxRetryAfter: -1}, 1, backoff.RetryAfter(errBoom, forever)), "the sum saturates")
}

// The server says when, and there is time until then: no random part, and no
// delay of the schedule, is a reason to give up.
func TestARetryAfterThatFitsIsObeyedWhateverItsSpread(t *testing.T) {
	otlp := backoff.Exponential{Initial: 5 * time.Second, Multiplier: 1.5}
	for name, row := range map[string]struct {
		hint     time.Duration
		elapsed  time.Duration // MaxElapsed
		deadline time.Duration // of the context
		schedule backoff.Schedule
	}{
		"a deadline":           {9500 * time.Millisecond, 0, 10 * time.Second, nil},
		"MaxElapsed":           {9500 * time.Millisecond, 10 * time.Second, 0, nil},
		"OTLP, 58 s":           {58 * time.Second, time.Minute, 0, otlp},
		"OTLP, 55 s":           {55 * time.Second, time.Minute, 0, otlp},
		"a longer delay":       {time.Second, 0, 10 * time.Second, backoff.Constant(time.Hour)},
		"both":                 {9 * time.Second, 10 * time.Second, 9500 * time.Millisecond, nil},
		"exactly MaxElapsed":   {10 * time.Second, 10 * time.Second, 0, nil},
		"no time but a moment": {10*time.Second - 1, 0, 10 * time.Second, nil},
	} {
		rng := rand.New(rand.NewPCG(9, 10))
		waits := map[time.Duration]bool{}
		for range 100 {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if row.deadline > 0 {
					ctx = within(t, row.deadline)
				}
				policy := backoff.Policy{Schedule: row.schedule, MaxElapsed: row.elapsed, Rand: rng.Float64}
				op := returning(backoff.RetryAfter(errBoom, row.hint), nil)
				require.NoError(t, policy.Do(ctx, op.do), name)
				require.GreaterOrEqual(t, op.at[1], row.hint, name)
				waits[op.at[1]] = true
			})
		}
		if max(row.elapsed, row.deadline)-row.hint > time.Microsecond {
			require.Greater(t, len(waits), 90, "%s: the rest of the time spreads the calls", name)
		}
	}
}

func TestARetryAfterThatDoesNotFitEndsTheCall(t *testing.T) {
	for _, mark := range []func(error, time.Duration) error{backoff.RetryAfter, backoff.Pushback} {
		for _, hint := range []time.Duration{10 * time.Second, 11 * time.Second} {
			synctest.Test(t, func(t *testing.T) {
				err := backoff.Policy{}.Do(within(t, 10*time.Second), returning(mark(errBoom, hint)).do)
				require.Equal(t, backoff.ReasonDeadline, gaveUp(t, err).Reason)
				require.Equal(t, hint, gaveUp(t, err).RetryAfter())
			})
		}
	}
}

// gRFC A6: exactly so long, and then the schedule from its beginning.
func TestPushbackIsExactAndRestartsTheSchedule(t *testing.T) {
	policy := backoff.Policy{Schedule: backoff.Exponential{Initial: time.Second}, Jitter: backoff.NoJitter, MaxAttempts: 7}
	back := backoff.Pushback(errBoom, 10*time.Millisecond)
	at, err := attempts(t, policy, errBoom, errBoom, back, errBoom, errBoom, backoff.Pushback(errBoom, 0), errBoom)
	require.Error(t, err)
	require.Equal(t, msec(0, 1000, 3000, 3010, 4010, 6010, 6010), at)
}

// A RetryAfter in its schedule has its place: it is not started again.
func TestARetryAfterLetsTheScheduleGoOn(t *testing.T) {
	policy := backoff.Policy{Schedule: backoff.Exponential{Initial: time.Second}, Jitter: backoff.NoJitter, Rand: fixed(0)}
	at, err := attempts(t, policy, errBoom, backoff.RetryAfter(errBoom, 10*time.Second), errBoom)
	require.Error(t, err)
	require.Equal(t, msec(0, 1000, 11_000, 15_000), at)
}

// An error may bring its hint as a method.
type busy time.Duration

func (busy) Error() string               { return "busy" }
func (b busy) RetryAfter() time.Duration { return time.Duration(b) }

func TestARetryAfterIsFoundHoweverDeep(t *testing.T) {
	policy := backoff.Policy{Rand: fixed(0), Schedule: backoff.Constant(0)}
	for _, err := range []error{
		busy(time.Minute), backoff.RetryAfter(errBoom, time.Minute), fmt.Errorf("op: %w", busy(time.Minute)),
		errors.Join(errBoom, busy(time.Minute)), backoff.OfClass(busy(time.Minute), backoff.ClassThrottled),
		backoff.OfClass(fmt.Errorf("op: %w", backoff.RetryAfter(errBoom, time.Minute)), backoff.ClassRetryable),
		errors.Join(busy(time.Second), busy(time.Minute)), // the longer of two
		backoff.RetryAfter(backoff.RetryAfter(errBoom, time.Minute), time.Second),
		errors.Join(busy(-time.Second), busy(time.Minute), busy(-time.Hour)),
	} {
		require.Equal(t, time.Minute, again(t, policy, 1, err), "%v", err)
	}
	require.Zero(t, again(t, policy, 1, busy(-time.Minute)))
}

// A hint says when, not whether.
func TestARetryAfterMakesNoErrorRetryable(t *testing.T) {
	policy := backoff.Policy{}
	for _, err := range []error{
		backoff.RetryAfter(backoff.Permanent(errBoom), time.Second), backoff.Permanent(backoff.RetryAfter(errBoom, time.Second)),
		backoff.RetryAfter(context.Canceled, time.Second), backoff.RetryAfter(httpStatus{404, nil}, time.Second),
		backoff.Permanent(busy(time.Second)),
	} {
		require.False(t, policy.Retryable(err), "%v", err)
	}
}

// A layer may override what an inner policy gave up on, and keeps the server's
// word.
func TestARetryAfterOutlivesTheInnerPolicy(t *testing.T) {
	inner, outer := backoff.Policy{MaxRetryAfter: time.Second}, backoff.Policy{Rand: fixed(0), Schedule: backoff.Constant(0)}
	err := inner.Do(t.Context(), returning(backoff.RetryAfter(errBoom, time.Minute)).do)
	require.ErrorIs(t, err, backoff.ErrExhausted)
	require.Equal(t, time.Minute, again(t, outer, 1, backoff.OfClass(err, backoff.ClassRetryable)))
}

// Whoever passes a verdict on, passes the hint on.
func TestRetryAfterOfFindsWhatTheServerAskedFor(t *testing.T) {
	exhausted := (&backoff.Policy{MaxAttempts: 1}).Do(t.Context(), returning(backoff.RetryAfter(errBoom, time.Minute)).do)
	for _, err := range []error{
		backoff.RetryAfter(errBoom, time.Minute), backoff.Pushback(errBoom, time.Minute), exhausted,
		errors.Join(errFinal, fmt.Errorf("layer: %w", backoff.RetryAfter(errBoom, time.Minute))),
	} {
		hint, ok := backoff.RetryAfterOf(err)
		require.True(t, ok, "%v", err)
		require.Equal(t, time.Minute, hint, "%v", err)
	}
	gaveUp := (&backoff.Policy{MaxRetryAfter: 1}).Do(t.Context(), returning(backoff.RetryAfter(errBoom, time.Second)).do)
	hint, ok := backoff.RetryAfterOf(gaveUp)
	require.True(t, ok)
	require.Equal(t, time.Second, hint)
	for _, err := range []error{nil, errBoom, backoff.Permanent(errBoom), &backoff.Error{Last: errBoom}} {
		_, ok := backoff.RetryAfterOf(err)
		require.False(t, ok, "%v", err)
	}
}

func TestTheWaitOfAnOpenCircuitIsNotThatOfTheCallThatOpenedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backoff.Breaker{ConsecutiveFailures: 1, OpenFor: backoff.Constant(time.Minute), MaxRetryAfter: -1, Jitter: backoff.NoJitter}
		policy := backoff.Policy{MaxRetryAfter: time.Second}
		fail := func(ctx context.Context) error {
			return policy.Do(ctx, func(context.Context) error { return backoff.RetryAfter(errBoom, time.Hour) })
		}
		for b.State() == backoff.BreakerClosed {
			require.Error(t, b.Do(t.Context(), fail))
		}
		time.Sleep(30 * time.Minute)
		refused := b.Do(t.Context(), fail)
		open := refusedBy(t, refused)
		got, ok := backoff.RetryAfterOf(refused)
		require.True(t, ok)
		require.Equal(t, open.RetryAfter(), got)
		require.Less(t, got, time.Hour)
	})
}

func TestAtOnceDoesNotWaitAndTakesNoStepOfTheSchedule(t *testing.T) {
	policy := backoff.Policy{
		Schedule: backoff.Exponential{Initial: time.Second}, Jitter: backoff.NoJitter, MaxAttempts: 6,
	}
	events := watch(&policy)
	at, err := attempts(t, policy, backoff.AtOnce(errBoom), errBoom, fmt.Errorf("layer: %w", backoff.AtOnce(errBoom)), errBoom)
	require.Equal(t, msec(0, 0, 1000, 1000, 3000, 7000), at, "and counts as an attempt")
	require.Equal(t, backoff.ReasonAttempts, gaveUp(t, err).Reason)
	require.Zero(t, (*events)[0].Wait+(*events)[0].Delay+(*events)[0].RetryAfter)
	require.Equal(t, backoff.EventRetry, (*events)[0].Kind)
	_, asked := backoff.RetryAfterOf(backoff.AtOnce(errBoom))
	require.False(t, asked)
}

// A server that finds every nonce bad gets the load of the schedule.
func TestOfErrorsInARowOnlyTheFirstIsRetriedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := backoff.Policy{Schedule: backoff.Exponential{Initial: time.Second}, Jitter: backoff.NoJitter, MaxAttempts: 5}
		op := returning(backoff.AtOnce(errBoom))
		require.Error(t, policy.Do(t.Context(), op.do))
		require.Equal(t, msec(0, 0, 1000, 3000, 7000), op.at)

		r := policy.Start(t.Context())
		var waits []time.Duration
		retry := func() {
			wait, ok := r.Tried(backoff.AtOnce(errBoom))
			require.True(t, ok)
			waits = append(waits, wait)
		}
		retry()
		retry()
		r.Progress()
		retry()
		r.Reset()
		retry()
		require.Equal(t, msec(0, 1000, 0, 0), waits, "Progress and Reset begin a new row")
	})
}

// An error that is marked as permanent stays so. One that only a classifier finds
// permanent does not.
func TestAtOnceMakesRetryableWhatIsNotMarkedAsPermanent(t *testing.T) {
	exhausted := (&backoff.Policy{MaxAttempts: 2}).Do(t.Context(), returning(backoff.AtOnce(errBoom)).do)
	policy := backoff.Policy{Classify: backoff.RetryIf(func(error) bool { return false })}
	for _, err := range []error{errBoom, httpStatus{400, nil}, backoff.OfClass(errBoom, backoff.ClassNotSent)} {
		require.True(t, policy.Retryable(backoff.AtOnce(err)), "%v", err)
		require.True(t, backoff.Policy{}.Retryable(errors.Join(err, backoff.AtOnce(errBoom))), "%v", err)
	}
	for _, err := range []error{
		backoff.AtOnce(backoff.Permanent(errBoom)), backoff.Permanent(backoff.AtOnce(errBoom)),
		errors.Join(backoff.AtOnce(errBoom), backoff.Permanent(errBoom)),
		backoff.AtOnce(backoff.OfClass(errBoom, backoff.ClassOverloaded)), backoff.AtOnce(exhausted),
	} {
		require.False(t, policy.Retryable(err), "%v", err)
	}
	require.NoError(t, backoff.AtOnce(nil))
	require.Equal(t, errBoom, backoff.Cause(backoff.AtOnce(errBoom)))
	require.Equal(t, backoff.ClassThrottled, backoff.DefaultClassifier(backoff.AtOnce(httpStatus{429, nil})))
}

func TestAtOnceDoesNotSayThatARequestMayBeRepeated(t *testing.T) {
	policy := backoff.Policy{Idempotency: backoff.NonIdempotent}
	for want, err := range map[int]error{
		1: backoff.AtOnce(errBoom),
		4: backoff.AtOnce(backoff.OfClass(errBoom, backoff.ClassNotSent)),
	} {
		at, err := attempts(t, policy, err)
		require.Error(t, err)
		require.Len(t, at, want)
	}
}

func TestWhatAServerAskedForGoesBeforeAtOnce(t *testing.T) {
	for _, failed := range []error{
		backoff.AtOnce(backoff.Pushback(errBoom, 5*time.Second)), backoff.Pushback(backoff.AtOnce(errBoom), 5*time.Second),
		errors.Join(backoff.AtOnce(errBoom), busy(5*time.Second)), backoff.AtOnce(backoff.RetryAfter(errBoom, 5*time.Second)),
	} {
		policy := backoff.Policy{Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter, Rand: fixed(0)}
		at, err := attempts(t, policy, failed, nil)
		require.NoError(t, err)
		require.Equal(t, msec(0, 5000), at)
		require.Equal(t, 5*time.Second, again(t, policy, 1, failed))
	}
}

// The policy that gave up has retried at once itself.
func TestAtOnceEndsWithThePolicyThatHeardIt(t *testing.T) {
	for attempts, want := range map[int]time.Duration{2: time.Second, 1: 0} { // one that makes no retries leaves them to others
		synctest.Test(t, func(t *testing.T) {
			inner := backoff.Policy{MaxAttempts: attempts, Schedule: backoff.Constant(0)}
			outer := backoff.Policy{MaxAttempts: 2, Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter}
			began := time.Now()
			require.Error(t, outer.Do(t.Context(), func(ctx context.Context) error {
				return backoff.OfClass(inner.Do(ctx, returning(backoff.AtOnce(errBoom)).do), backoff.ClassRetryable)
			}))
			require.Equal(t, want, time.Since(began))
		})
	}
	gave := (&backoff.Policy{MaxAttempts: 2}).Do(t.Context(), returning(errBoom).do)
	policy := backoff.Policy{Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter}
	require.Zero(t, again(t, policy, 1, backoff.AtOnce(backoff.OfClass(gave, backoff.ClassRetryable))), "the layer around it says so itself")
}

// Decide cannot know what came before any retry but the first.
func TestDecideRetriesAtOnceOnlyFirst(t *testing.T) {
	policy := backoff.Policy{Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter}
	for retry, want := range map[int]time.Duration{0: 0, 1: 0, 2: time.Second, 3: time.Second} {
		require.Equal(t, want, again(t, policy, retry, backoff.AtOnce(errBoom)), "retry %d", retry)
	}
}

func TestARetryAtOnceIsARetryToTheBudget(t *testing.T) {
	clerk := clerk{reserve: no(2, 2)}
	policy := backoff.Policy{Budget: &clerk}
	at, err := attempts(t, policy, backoff.AtOnce(errBoom))
	require.ErrorIs(t, err, backoff.ErrBudget)
	require.False(t, clerk.asked[1].First())
	require.Len(t, at, 1)
}
