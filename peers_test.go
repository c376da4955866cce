package backoff_test

// Published and reproduced bugs of other libraries that this one must not have,
// as far as no other test holds them already. docs/results/comparison.md puts the same
// questions to those libraries, and names for each the test that answers it
// here.

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/clock/clocktest"
)

// cenkalti/backoff and avast/retry-go: the mark ends the inner loop and is
// gone, so that the outer one starts it again.
func TestAPermanentErrorEndsEveryLoopAroundIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op := returning(backoff.Permanent(errFinal))
		run := op.do
		for range 3 {
			run = steady(time.Second).Wrap(run)
		}
		require.Equal(t, errFinal.Error(), run(t.Context()).Error())
		require.Len(t, op.at, 1)
	})
}

// avast/retry-go: a RetryIf replaces the check for Unrecoverable.
func TestAMarkStandsBesideAPredicate(t *testing.T) {
	for _, limit := range []int{5, -1} {
		policy := steady(time.Second)
		policy.MaxAttempts = limit
		policy.Classify = backoff.RetryIf(func(error) bool { return true })
		at, err := attempts(t, policy, errBoom, backoff.Permanent(errFinal), nil)
		require.ErrorIs(t, err, errFinal)
		require.Len(t, at, 2)
	}
}

// cenkalti/backoff#188: a default limit of 15 minutes, counted from the call,
// is over before a long poll has failed for the first time.
func TestALongAttemptIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op := returning(errBoom)
		err := new(backoff.Policy).Do(t.Context(), op.lasting(24*time.Hour))
		require.ErrorIs(t, err, backoff.ErrExhausted)
		require.Len(t, op.at, 4)
	})
}

// cenkalti/backoff, failsafe-go, go-resiliency: the maximum bounds the delay
// before it is spread, so that waits are up to 1.5 times as long.
func TestNoWaitIsLongerThanTheMaximum(t *testing.T) {
	policy := backoff.Policy{Schedule: backoff.Exponential{Max: 10 * time.Second}}
	for _, jitter := range []backoff.Jitter{nil, backoff.FullJitter, backoff.EqualJitter, backoff.NoJitter,
		backoff.DecorrelatedJitter(0, 10*time.Second)} {
		policy.Jitter = jitter
		for retry := range 2000 {
			require.LessOrEqual(t, policy.WaitBefore(retry), 10*time.Second)
		}
	}
}

// avast/retry-go, go-retryablehttp: at the maximum everybody waits the same
// time.
func TestTheSpreadIsKeptAtTheMaximum(t *testing.T) {
	policy := backoff.Policy{Schedule: backoff.Exponential{Max: 10 * time.Second}}
	waits := make([]time.Duration, 2000)
	for i := range waits {
		waits[i] = policy.WaitBefore(50)
	}
	slices.Sort(waits)
	require.Less(t, waits[200], 2*time.Second, "a tenth of them")
	require.Greater(t, waits[1800], 8*time.Second, "and a tenth")
	require.Less(t, len(waits)-len(slices.Compact(waits)), 10, "hardly two are alike")
}

// avast/retry-go: the errors of all attempts in one text, 169 kB after 10,000
// of them.
func TestAnErrorDoesNotGrowWithTheAttempts(t *testing.T) {
	text := func(attempts int) string {
		policy := backoff.Policy{Name: "fetch", MaxAttempts: attempts, Schedule: backoff.Constant(0)}
		return policy.Do(t.Context(), returning(errBoom).do).Error()
	}
	require.InDelta(t, len(text(10)), len(text(10_000)), 10)
}

// cenkalti/backoff#183: two calls that share one backoff value start each
// other's schedule again. sethvargo/go-retry: the second call finds the value
// used up.
func TestTwoCallsUnderOnePolicyKeepTheirOwnWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := backoff.Policy{MaxAttempts: 5, Schedule: backoff.Exponential{Initial: time.Second}, Jitter: backoff.NoJitter}
		ops := make([]*scripted, 3)
		together(len(ops), func(i int) {
			time.Sleep(time.Duration(i) * 4 * time.Second)
			ops[i] = returning(errBoom)
			_ = policy.Do(t.Context(), ops[i].do)
		})
		for _, op := range ops {
			require.Equal(t, msec(0, 1000, 3000, 7000, 15000), op.at)
		}
	})
}

// failsafe-go's default opens at the first failure.
func TestOneFailureDoesNotOpenACircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b backoff.Breaker
		require.Equal(t, backoff.BreakerClosed, stateAfter(&b, 1, errOutage))
		require.Equal(t, backoff.BreakerClosed, stateAfter(&b, 18, errOutage), "nor do as many that come at once")
	})
}

// failsafe-go and hystrix-go read the wall clock: where it is set back an hour,
// an open circuit stays open an hour longer.
func TestABreakerIsNotMovedByAClockThatIsSet(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(fmt.Sprint(step), func(t *testing.T) {
			began, elapsed, set := time.Now(), time.Duration(0), time.Duration(0)
			clock.Source = func() time.Time { return clocktest.Set(began.Add(elapsed), set) }
			defer func() { clock.Source = nil }()
			b := openBreaker(t)
			set = step
			elapsed = 5*time.Second - 1
			require.Equal(t, backoff.BreakerOpen, b.State())
			elapsed++
			require.Equal(t, backoff.BreakerHalfOpen, b.State())
		})
	}
}
