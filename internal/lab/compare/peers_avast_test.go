package compare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

// What the tests of avast/retry-go promise.
var avastPromises = []promise{
	{test: "retry_test.go TestDoWithDataAllFailed", name: "a call whose attempts all fail tells the last failure and their number", holds: func(t *testing.T) {
		n := 0
		value, err := backoff.DoValue(t.Context(), steady(4), func(context.Context) (int, error) {
			n++
			return n, fmt.Errorf("failure %d", n)
		})
		require.EqualError(t, err, "backoff: gave up after 4 attempts: failure 4")
		require.Equal(t, 4, value)
	}, theirs: "its error lists all failures, and there is no value", why: "the text would grow with the attempts; an observer sees each failure"},
	{test: "retry_test.go TestDoFirstOk", name: "a call that succeeds at once has no retry", holds: observed("success", nil)},
	{test: "retry_test.go TestDoWithDataFirstOk", name: "and its value comes back", holds: returned("rows", nil, "rows", 1)},
	{test: "retry_test.go TestRetryIf", name: "a rule that refuses the third failure ends the call with it", holds: tried(ruled(steady(9), errDown), 3, errDown, errDown, io.EOF)},
	{test: "retry_test.go TestRetryIf_ZeroAttempts", name: "a rule ends a call without a limit, and what it refuses comes back with the text of the operation", holds: func(t *testing.T) {
		n := 0
		err := ruled(steady(-1), errDown).Do(t.Context(), func(context.Context) error {
			if n++; n < 3 {
				return errDown
			}
			return io.EOF
		})
		require.EqualError(t, err, "EOF")
		require.Equal(t, 3, n)
	}},
	{test: "retry_test.go TestZeroAttemptsWithError", name: "a call without a limit has a thousand attempts, if it takes them", holds: longRow(1000, -1)},
	{test: "retry_test.go TestZeroAttemptsWithoutError", name: "a call without a limit that succeeds has one", holds: tried(steady(-1), 1, nil)},
	{test: "retry_test.go TestZeroAttemptsWithUnrecoverableError", name: "a mark ends a call without a limit", holds: func(t *testing.T) {
		mark := backoff.Permanent(errDown)
		require.True(t, steady(-1).Do(t.Context(), func(context.Context) error { return mark }) == mark)
	}},
	{test: "retry_test.go TestAttemptsForError", name: "a kind of failure may have fewer attempts than others", holds: kinds(9, 3, 3, backoff.OfClass(errDown, backoff.ClassThrottled))},
	{test: "retry_test.go TestAttemptsForError_ZeroAttempts_Failure", name: "it has its limit in a call without one", holds: kinds(-1, 2, 2, backoff.OfClass(errDown, backoff.ClassThrottled))},
	{test: "retry_test.go TestAttemptsForError_ZeroAttempts_Success", name: "a call that succeeds within it is a success", holds: kinds(-1, 3, 3, backoff.OfClass(errDown, backoff.ClassThrottled), backoff.OfClass(errDown, backoff.ClassThrottled), nil)},
	{test: "retry_test.go TestAttemptsForError_ZeroAttempts_SingleAttemptIssue137", name: "an operation that was cancelled is not tried again, also without a limit", holds: tried(steady(-1), 1, context.Canceled)},
	{test: "retry_test.go TestAttemptsForError_ZeroAttempts_MultipleErrors", name: "the limit of the last failure counts, with all attempts", holds: kinds(-1, 2, 3,
		errDown, errDown, backoff.OfClass(io.EOF, backoff.ClassThrottled))},
	{test: "retry_test.go TestAttemptsForError_ZeroAttempts_ZeroCountForError", name: "a kind with a limit of 0 has that of the policy", holds: kinds(5, 0, 5, backoff.OfClass(errDown, backoff.ClassThrottled)),
		theirs: "a limit of 0 for an error means one attempt", why: "0 is the default everywhere here; 1 means one attempt"},
	{test: "retry_test.go TestAttemptsForError_NonZeroAttempts_ZeroCountForError", name: "a kind with a limit of 1 has one", holds: kinds(5, 1, 1, backoff.OfClass(errDown, backoff.ClassThrottled))},
	{test: "retry_test.go TestAttemptsForError_ZeroAttempts_WithData", name: "a value comes back from a call with such a limit", holds: func(t *testing.T) {
		policy, n := steady(-1), 0
		policy.ByClass = map[backoff.Class]backoff.ClassLimits{backoff.ClassThrottled: {MaxAttempts: 3}}
		value, err := backoff.DoValue(t.Context(), policy, func(context.Context) (string, error) {
			if n++; n < 2 {
				return "", backoff.OfClass(errDown, backoff.ClassThrottled)
			}
			return "rows", nil
		})
		require.NoError(t, err)
		require.Equal(t, "rows", value)
	}},
	{test: "retry_test.go TestDefaultSleep", name: "the zero policy waits less than a second in all", holds: func(t *testing.T) {
		began := time.Now()
		_ = new(backoff.Policy).Do(t.Context(), failing(new(int)))
		require.Greater(t, time.Since(began), time.Duration(0))
		require.LessOrEqual(t, time.Since(began), 700*time.Millisecond)
	}},
	{test: "retry_test.go TestFixedSleep", name: "fixed waits do not grow", holds: sleepsFor(steady(5), 4*time.Second)},
	{test: "retry_test.go TestMaxDelay", name: "no wait passes the longest one", holds: func(t *testing.T) {
		policy := backoff.Policy{MaxAttempts: 6, MaxDelay: 5 * time.Second, Schedule: backoff.Exponential{Initial: 2 * time.Second}, Jitter: backoff.NoJitter}
		sleepsFor(policy, (2+4+5+5+5)*time.Second)(t)
	}},
	{test: "retry_test.go TestRandomDelay", name: "a random wait lies within its bounds", holds: func(t *testing.T) {
		policy := backoff.Policy{Schedule: backoff.Constant(50 * time.Millisecond)}
		for range 1000 {
			require.LessOrEqual(t, policy.WaitBefore(1), 50*time.Millisecond)
		}
	}},
	{test: "retry_test.go TestCombineFixedDelays", name: "a schedule may be the sum of others", holds: func(t *testing.T) {
		policy := steady(3)
		policy.Schedule = backoff.ScheduleFunc(func(n int) time.Duration {
			return backoff.Constant(time.Second).Delay(n) + backoff.Linear{Initial: time.Second}.Delay(n)
		})
		sleepsFor(policy, 2*time.Second+3*time.Second)(t)
	}},
	{test: "retry_test.go TestCombineDelay", name: "a schedule of the caller's own that is negative is no wait", holds: func(t *testing.T) {
		policy := steady(3)
		policy.Schedule = backoff.ScheduleFunc(func(int) time.Duration { return math.MinInt64 })
		sleepsFor(policy, 0)(t)
	}},
	{test: "retry_test.go TestBackOffDelay", name: "the doubling of any delay ends at the longest duration, and never below zero", holds: func(t *testing.T) {
		for _, initial := range []time.Duration{1, time.Second, 1<<53 - 1, 1 << 62, math.MaxInt64} {
			schedule, last := backoff.Exponential{Initial: initial, Max: -1}, time.Duration(0)
			require.Equal(t, initial, schedule.Delay(1))
			for retry := range 100 {
				require.GreaterOrEqual(t, schedule.Delay(retry+1), last)
				last = schedule.Delay(retry + 1)
			}
			require.Equal(t, time.Duration(math.MaxInt64), last)
		}
	}},
	{test: "retry_test.go TestBackOffDelayRespectsMaxDelay", name: "the longest delay of a policy bounds any schedule", holds: func(t *testing.T) {
		policy := backoff.Policy{MaxAttempts: 3, Schedule: backoff.Exponential{Initial: math.MaxInt64}, Jitter: backoff.NoJitter, MaxDelay: time.Second}
		sleepsFor(policy, 2*time.Second)(t)
	}},
	{test: "retry_test.go TestFullJitterBackoffDelay", name: "a full spread lies between nothing and the delay", holds: func(t *testing.T) {
		policy := backoff.Policy{Schedule: backoff.Exponential{Initial: 40 * time.Millisecond, Max: 700 * time.Millisecond}}
		for retry := 1; retry < 20; retry++ {
			for range 50 {
				require.LessOrEqual(t, policy.WaitBefore(retry), policy.Schedule.Delay(retry))
				require.GreaterOrEqual(t, policy.WaitBefore(retry), time.Duration(0))
			}
		}
	}},
	{test: "retry_test.go TestFullJitterBackoffDelayDoesNotPanicWhenCeilingExceedsInt64", name: "a full spread of the longest duration is no panic", holds: func(t *testing.T) {
		policy := backoff.Policy{Schedule: backoff.Exponential{Initial: time.Second, Max: -1}}
		for _, retry := range []int{1, 34, 64, 65, 1025, math.MaxInt} {
			require.GreaterOrEqual(t, policy.WaitBefore(retry), time.Duration(0))
		}
	}},
	{test: "retry_test.go TestFullJitterZeroDelayAfterManyAttempts", name: "a delay of nothing stays nothing, in a thousand attempts", holds: func(t *testing.T) {
		began := time.Now()
		for _, limit := range []int{-1, 1100} {
			longRow(1025, limit)(t)
		}
		require.Zero(t, time.Since(began))
	}},
	{test: "retry_test.go TestLastErrorOnly", name: "the last failure alone is there by `Cause`", holds: func(t *testing.T) {
		n := 0
		err := steady(4).Do(t.Context(), func(context.Context) error { n++; return fmt.Errorf("failure %d", n) })
		require.EqualError(t, backoff.Cause(err), "failure 4")
	}},
	{test: "last_error_test.go TestLastError", name: "and as a field of the error", holds: func(t *testing.T) {
		gave, ok := errors.AsType[*backoff.Error](givenUp(t))
		require.True(t, ok)
		require.True(t, gave.Last == errDown)
	}},
	{test: "retry_test.go TestLastErrorOnlyReturnsFinalErrorAfterManyAttempts", name: "it is the last of many", holds: func(t *testing.T) {
		policy, n := steady(600), 0
		policy.Schedule = backoff.Constant(0)
		err := policy.Do(t.Context(), func(context.Context) error { n++; return typed{fmt.Errorf("failure %d", n)} })
		require.EqualError(t, backoff.Cause(err), "typed: failure 600")
	}},
	{test: "retry_test.go TestLastErrorOnlyUnboundedAttemptsUntilContextCancel", name: "a call without a limit ends with its context", holds: func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 999*time.Second+time.Second/2)
		defer cancel()
		n := 0
		require.ErrorIs(t, steady(-1).Do(ctx, failing(&n)), context.DeadlineExceeded)
		require.Equal(t, 1000, n)
	}},
	{test: "retry_test.go TestUnrecoverableError", name: "a marked error ends the call after one attempt", holds: tried(steady(4), 1, backoff.Permanent(errDown))},
	{test: "retry_test.go TestIsRecoverable", name: "a mark is seen through other errors", holds: func(t *testing.T) {
		require.True(t, steady(4).Retryable(errDown))
		require.False(t, steady(4).Retryable(backoff.Permanent(errDown)))
		require.False(t, steady(4).Retryable(fmt.Errorf("load: %w", backoff.Permanent(errDown))))
	}},
	{test: "retry_test.go TestContext", name: "a call that was cancelled before makes no attempt", holds: func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		n := 0
		require.ErrorIs(t, steady(4).Do(ctx, failing(&n)), context.Canceled)
		require.Zero(t, n)
	}},
	{test: "retry_test.go TestContext", name: "a call that its observer cancels ends with both errors", holds: cancelledByObserver(time.Second)},
	{test: "retry_test.go TestContext", name: "the context's error is there for ==", holds: func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second/2, cancel)
		gave, ok := errors.AsType[*backoff.Error](steady(-1).Do(ctx, failing(new(int))))
		require.True(t, ok)
		require.True(t, gave.ContextError() == context.Canceled)
	}},
	{test: "retry_test.go TestContext", name: "a call that runs out of time matches its last failure", holds: func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		n := 0
		err := steady(-1).Do(ctx, func(context.Context) error { n++; return typed{fmt.Errorf("failure %d", n)} })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		last, ok := errors.AsType[typed](err)
		require.True(t, ok)
		require.EqualError(t, last, "typed: failure 2")
	}},
	{test: "retry_test.go TestErrorIs", name: "the error matches the last failure and not its text", holds: func(t *testing.T) {
		require.ErrorIs(t, givenUp(t), errDown)
		require.NotErrorIs(t, givenUp(t), errors.New(errDown.Error()))
	}},
	{test: "retry_test.go TestErrorAs", name: "errors.As finds the type of the last failure, and no other", holds: func(t *testing.T) {
		err := steady(2).Do(t.Context(), func(context.Context) error { return typed{io.EOF} })
		_, ok := errors.AsType[typed](err)
		require.True(t, ok)
		_, ok = errors.AsType[*backoff.OpenError](err)
		require.False(t, ok)
	}},
	{test: "retry_test.go TestUnwrap", name: "the error unwraps to a list that has the failure", holds: func(t *testing.T) {
		err := steady(1).Do(t.Context(), failing(new(int)))
		require.NoError(t, errors.Unwrap(err))
		list, ok := err.(interface{ Unwrap() []error })
		require.True(t, ok)
		require.Contains(t, list.Unwrap(), errDown)
	}},
	{test: "retry_test.go TestErrorsUnwrapReturnsNil", name: "an earlier failure is not in the error", holds: func(t *testing.T) {
		n := 0
		err := steady(2).Do(t.Context(), func(context.Context) error { n++; return []error{io.ErrNoProgress, errDown}[n-1] })
		require.ErrorIs(t, err, errDown)
		require.NotErrorIs(t, err, io.ErrNoProgress)
	}, theirs: "the error matches the failures of all attempts", why: "an error says what is wrong now; an observer sees each failure"},
	{test: "capacity_pool_test.go TestCapacityPoolConcurrency", name: "calls at the same time get no more retries than the budget has", holds: retriesAtOnce},
	{test: "throttle_test.go TestFixedTokenBucketThrottleManagerBehavior", name: "a budget is spent by retries, and paid by successes", holds: func(t *testing.T) {
		budget := paid(t, 100)
		before := budget.Stats().Allowed
		require.NotZero(t, before)
		policy := steady(4)
		policy.Budget = budget
		_ = policy.Do(t.Context(), failing(new(int)))
		require.EqualValues(t, 3, budget.Stats().Retries)
	}},
	{test: "throttle_test.go TestWithThrottleOption", name: "a retry that the rule refuses costs the budget nothing", holds: costs(0, func(p *backoff.Policy) { *p = ruled(*p, io.EOF) })},
	{test: "throttle_test.go TestWithThrottleOption", name: "nor does the one that the last attempt does not have", holds: costs(1, func(p *backoff.Policy) { p.MaxAttempts = 2 })},
	{test: "throttle_test.go TestWithThrottleOption", name: "nor one beyond the limit of its kind", holds: costs(1, func(p *backoff.Policy) {
		p.ByClass = map[backoff.Class]backoff.ClassLimits{backoff.ClassUnknown: {MaxAttempts: 2}}
	})},
	{test: "throttle_test.go TestWithThrottleOption", name: "a retry that the budget refuses is not announced", holds: func(t *testing.T) {
		policy, kinds := steady(4), []backoff.EventKind{}
		policy.Budget = spent(t)
		policy.Observer = func(_ context.Context, e backoff.Event) { kinds = append(kinds, e.Kind) }
		_ = policy.Do(t.Context(), failing(new(int)))
		require.Equal(t, []backoff.EventKind{backoff.EventGiveUp}, kinds)
	}},
	{test: "throttle_test.go TestWithThrottleOption", name: "a call without retries left is not one that the budget refused", holds: func(t *testing.T) {
		policy := steady(2)
		policy.Budget = paid(t, 100)
		err := policy.Do(t.Context(), failing(new(int)))
		require.ErrorIs(t, err, backoff.ErrExhausted)
		require.NotErrorIs(t, err, backoff.ErrBudget)
	}},
	{test: "throttle_test.go TestWithThrottleOption", name: "a policy without a budget has all its attempts", holds: tried(steady(10), 10, errDown)},
	{test: "throttle_test.go TestWithFixedTokenBucketThrottleOption", name: "calls under copies of a policy share its budget", holds: func(t *testing.T) {
		policy := steady(4)
		policy.Budget = spent(t)
		other, n := policy, 0
		other.Name = "other"
		require.ErrorIs(t, other.Do(t.Context(), failing(&n)), backoff.ErrBudget)
		require.Equal(t, 1, n)
	}},
	{test: "throttle_test.go TestWithFixedTokenBucketThrottleOption", name: "another policy's budget is another one", holds: func(t *testing.T) {
		spent(t)
		policy, n := steady(4), 0
		policy.Budget = new(backoff.RetryBudget)
		_ = policy.Do(t.Context(), failing(&n))
		require.Equal(t, 4, n)
	}},
}

// longRow makes a call that succeeds in the given attempt, without waits.
func longRow(attempts, limit int) func(*testing.T) {
	return func(t *testing.T) {
		policy, n := steady(limit), 0
		policy.Schedule, policy.Jitter = backoff.Constant(0), backoff.FullJitter
		require.NoError(t, policy.Do(t.Context(), func(context.Context) error {
			if n++; n < attempts {
				return errDown
			}
			return nil
		}))
		require.Equal(t, attempts, n)
	}
}

// kinds is tried, with a limit for throttled attempts.
func kinds(limit, throttled, attempts int, fails ...error) func(*testing.T) {
	policy := steady(limit)
	policy.ByClass = map[backoff.Class]backoff.ClassLimits{backoff.ClassThrottled: {MaxAttempts: throttled}}
	return tried(policy, attempts, fails...)
}

// sleepsFor makes a call that fails, and holds if its waits take so long in all.
func sleepsFor(policy backoff.Policy, whole time.Duration) func(*testing.T) {
	return func(t *testing.T) {
		began := time.Now()
		require.ErrorIs(t, policy.Do(t.Context(), failing(new(int))), backoff.ErrExhausted)
		require.Equal(t, whole, time.Since(began))
	}
}

// costs makes a call that fails, and holds if so many retries are charged.
func costs(retries uint64, change func(*backoff.Policy)) func(*testing.T) {
	return func(t *testing.T) {
		budget, policy := paid(t, 100), steady(4)
		policy.Budget = budget
		change(&policy)
		_ = policy.Do(t.Context(), failing(new(int)))
		require.Equal(t, retries, budget.Stats().Retries)
	}
}

// retriesAtOnce makes calls that fail together under a budget.
func retriesAtOnce(t *testing.T) {
	budget, policy := paid(t, 100), steady(4)
	policy.Budget = budget
	allowed := budget.Stats().Allowed
	var all sync.WaitGroup
	var attempts atomic.Uint64
	for range 200 {
		all.Go(func() {
			_ = policy.Do(t.Context(), func(context.Context) error { attempts.Add(1); return errDown })
		})
	}
	all.Wait()
	require.LessOrEqual(t, attempts.Load()-200, allowed)
	require.NotEqual(t, uint64(200), attempts.Load())
}
