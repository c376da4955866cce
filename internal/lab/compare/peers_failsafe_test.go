package compare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/plug"
)

// What the tests of failsafe-go promise. Those of clients and of what is around
// a policy are in the two files beside this one.
var failsafePromises = slices.Concat(failsafeErrors, failsafeRetries, failsafeRules, failsafeContexts, failsafeEvents,
	failsafeBudgets, failsafeBreakers, failsafeHedges, failsafeHedged, failsafeLimits, failsafeClients)

var failsafeErrors = []promise{
	{test: "retrypolicy/retry_test.go TestRetriesExceededError", name: "two calls that are given up have errors that match the same sentinel", holds: func(t *testing.T) {
		require.ErrorIs(t, givenUp(t), backoff.ErrExhausted)
		require.ErrorIs(t, givenUp(t), errDown)
	}},
	{test: "retrypolicy/retry_test.go TestErrExceeded", name: "it does so inside another error, and beside one", holds: func(t *testing.T) {
		require.ErrorIs(t, fmt.Errorf("load: %w", givenUp(t)), backoff.ErrExhausted)
		require.ErrorIs(t, errors.Join(io.EOF, givenUp(t)), backoff.ErrExhausted)
	}},
	{test: "retrypolicy/retry_test.go TestIsExceededError", name: "an error with the same text is another one", holds: func(t *testing.T) {
		require.NotErrorIs(t, errors.New(givenUp(t).Error()), backoff.ErrExhausted)
		require.NotErrorIs(t, errors.New(backoff.ErrExhausted.Error()), backoff.ErrExhausted)
	}},
	{test: "retrypolicy/retry_test.go TestAsExceededError", name: "errors.As finds the number of attempts, and nothing in another error", holds: func(t *testing.T) {
		gave, ok := errors.AsType[*backoff.Error](fmt.Errorf("load: %w", givenUp(t)))
		require.True(t, ok)
		require.Equal(t, 3, gave.Attempts)
		_, ok = errors.AsType[*backoff.Error](errDown)
		require.False(t, ok)
	}},
	{test: "test/retrypolicy_test.go TestRetryPolicy", name: "the error of a call that is given up holds the last failure and the last value", holds: func(t *testing.T) {
		n := 0
		value, err := backoff.DoValue(t.Context(), steady(3), func(context.Context) (int, error) {
			n++
			return n, fmt.Errorf("failure %d", n)
		})
		gave, ok := errors.AsType[*backoff.Error](err)
		require.True(t, ok)
		require.EqualError(t, gave.Last, "failure 3")
		require.Equal(t, 3, value)
	}},
	{test: "test/retrypolicy_test.go TestRetryPolicy", name: "the last failure is there for ==", holds: func(t *testing.T) {
		require.True(t, backoff.Cause(givenUp(t)) == errDown)
	}},
	{test: "executor_test.go TestRunWithSuccess", name: "a success has no error", holds: func(t *testing.T) {
		require.NoError(t, steady(3).Do(t.Context(), func(context.Context) error { return nil }))
	}},
	{test: "executor_test.go TestGetWithSuccess", name: "and its value", holds: returned("rows", nil, "rows", 1)},
	{test: "executor_test.go TestGetWithFailure", name: "a failure has the error of the operation", holds: returned("", errDown, "", 3)},
	{test: "executor_test.go TestGetWithExecution", name: "a loop of the caller's own knows the number of the attempt, and the last failure", holds: loopKnows},
	{test: "executor_test.go TestExecutionWithNoPolicies", name: "a value comes back beside an error, also if there are no retries", holds: func(t *testing.T) {
		value, err := backoff.DoValue(t.Context(), steady(1), func(context.Context) (string, error) { return "half", errDown })
		require.Equal(t, "half", value)
		require.ErrorIs(t, err, errDown)
	}},
}

// givenUp returns the error of a call whose three attempts fail.
func givenUp(t *testing.T) error {
	return steady(3).Do(t.Context(), failing(new(int)))
}

func returned(value string, fails error, want string, attempts int) func(*testing.T) {
	return func(t *testing.T) {
		n := 0
		got, err := backoff.DoValue(t.Context(), steady(3), func(context.Context) (string, error) {
			n++
			return value, fails
		})
		require.Equal(t, want, got)
		require.ErrorIs(t, err, fails)
		require.Equal(t, attempts, n)
	}
}

func loopKnows(t *testing.T) {
	run, numbers := steady(3).Start(t.Context()), []int{}
	for range run.Attempts() {
		numbers = append(numbers, run.Attempt())
		run.Fail(errDown)
	}
	require.Equal(t, []int{1, 2, 3}, numbers)
	require.ErrorIs(t, run.Err(), errDown)
	require.Equal(t, 3, run.Attempt())
}

var failsafeRetries = []promise{
	{test: "test/retrypolicy_test.go TestRetryPolicy", name: "a call that fails is tried again, as often as the policy says", holds: tried(steady(3), 3, errDown)},
	{test: "test/retrypolicy_test.go TestRetryPolicy", name: "a call that succeeds is not tried again", holds: tried(steady(3), 1, nil)},
	{test: "test/retrypolicy_test.go TestRetryPolicy", name: "a call without a limit goes on until it succeeds", holds: tried(steady(-1), 9,
		errDown, errDown, errDown, errDown, errDown, errDown, errDown, errDown, nil)},
	{test: "test/retrypolicy_test.go TestRetryPolicy", name: "what the rule does not name is not tried again", holds: tried(ruled(steady(-1), errDown), 2, errDown, io.EOF)},
	{test: "test/retrypolicy_test.go TestRetryPolicy", name: "no attempt begins after the longest time of the call", holds: func(t *testing.T) {
		policy, n := steady(9), 0
		policy.MaxElapsed = 10 * time.Second
		err := policy.Do(t.Context(), func(context.Context) error {
			if n++; n == 2 {
				time.Sleep(12 * time.Second)
			}
			return errDown
		})
		require.ErrorIs(t, err, backoff.ErrExhausted)
		require.ErrorIs(t, err, errDown)
		require.Equal(t, 2, n)
	}},
	{test: "test/retrypolicy_test.go TestRetryPolicy", name: "waits double up to the maximum, and an observer sees them", holds: func(t *testing.T) {
		var seen, slept []time.Duration
		policy := backoff.Policy{MaxAttempts: 6, Schedule: backoff.Exponential{Initial: 3 * time.Second, Max: 20 * time.Second}, Jitter: backoff.NoJitter,
			Observer: func(_ context.Context, e backoff.Event) {
				if e.Kind == backoff.EventRetry {
					seen = append(seen, e.Delay)
				}
			}}
		last := time.Now()
		_ = policy.Do(t.Context(), func(context.Context) error {
			slept, last = append(slept, time.Since(last)), time.Now()
			return errDown
		})
		require.Equal(t, []time.Duration{3e9, 6e9, 12e9, 20e9, 20e9}, seen)
		require.Equal(t, seen, slept[1:])
	}},
	{test: "retrypolicy/retryexecutor_test.go TestGetFixedOrRandomDelay", name: "a wait that would pass the maximum is the maximum", holds: func(t *testing.T) {
		policy := backoff.Policy{MaxAttempts: -1, Schedule: backoff.Exponential{Initial: 3 * time.Second, Max: 25 * time.Second, Multiplier: 3}, Jitter: backoff.NoJitter}
		for i, wait := range []time.Duration{3e9, 9e9, 25e9, 25e9} {
			require.Equal(t, wait, policy.Decide(i+1, errDown).Wait)
		}
	}},
	{test: "test/nested_retrypolicy_test.go TestRetryPolicy_Nested", name: "what an inner policy gave up on is not tried again by one around it", holds: func(t *testing.T) {
		n := 0
		require.ErrorIs(t, steady(9).Do(t.Context(), steady(2).Wrap(failing(&n))), errDown)
		require.Equal(t, 2, n)
	}, theirs: "the outer policy goes on, and tries the inner one again each time", why: "attempts multiply, and an overloaded service gets them all; `OfClass(err, ClassRetryable)` around the inner error allows it"},
	{test: "test/nested_retrypolicy_test.go TestRetryPolicy_Nested", name: "an outer policy tries again what an inner one marked as `OfClass(err, ClassRetryable)`", holds: func(t *testing.T) {
		n := 0
		inner := steady(2).Wrap(failing(&n))
		_ = steady(3).Do(t.Context(), func(ctx context.Context) error { return backoff.OfClass(inner(ctx), backoff.ClassRetryable) })
		require.Equal(t, 6, n)
	}},
	{test: "test/nested_retrypolicy_test.go TestRetryPolicy_Nested", name: "what an inner policy's rule refuses is final for an outer policy with another rule, too", holds: twoRules(2,
		func(err error) error { return err }),
		theirs: "each policy retries its own kind of error", why: "a rule says what is final; `Cause` takes that back, and `ByClass` gives kinds of errors limits of their own in one policy"},
	{test: "test/nested_retrypolicy_test.go TestRetryPolicy_Nested", name: "between two policies `Cause` leaves each its own kind of error", holds: twoRules(3, backoff.Cause)},
	{test: "test/delayablepolicy_test.go TestPanicInRetryPolicyDelayFunction", name: "a panic in a schedule reaches the caller, and the policy works on", holds: panicInSchedule},
	{test: "test/delayablepolicy_test.go TestShouldDelayRetryPolicy", name: "a schedule is asked after a failure only", holds: func(t *testing.T) {
		asked := 0
		policy := steady(3)
		policy.Schedule = backoff.ScheduleFunc(func(int) time.Duration { asked++; return time.Second })
		require.NoError(t, policy.Do(t.Context(), func(context.Context) error { return nil }))
		require.Zero(t, asked)
		_ = policy.Do(t.Context(), failing(new(int)))
		require.Equal(t, 2, asked)
	}},
}

// twoRules makes a call under two policies, each with a rule for one error, and
// holds if so many attempts are made.
func twoRules(attempts int, between func(error) error) func(*testing.T) {
	return func(t *testing.T) {
		n := 0
		inner := ruled(steady(3), errDown).Wrap(func(context.Context) error {
			n++
			return []error{errDown, io.EOF, nil}[n-1]
		})
		err := ruled(steady(4), io.EOF).Do(t.Context(), func(ctx context.Context) error { return between(inner(ctx)) })
		require.Equal(t, attempts < 3, errors.Is(err, io.EOF))
		require.Equal(t, attempts, n)
	}
}

// ruled retries one error.
func ruled(policy backoff.Policy, only error) backoff.Policy {
	policy.Classify = backoff.RetryIf(func(err error) bool { return errors.Is(err, only) })
	return policy
}

// tried makes a call whose attempts fail in turn, with the last error again and again.
func tried(policy backoff.Policy, attempts int, fails ...error) func(*testing.T) {
	return func(t *testing.T) {
		n := 0
		err := policy.Do(t.Context(), func(context.Context) error {
			n++
			return fails[min(n, len(fails))-1]
		})
		require.ErrorIs(t, err, fails[len(fails)-1])
		require.Equal(t, attempts, n)
	}
}

func panicInSchedule(t *testing.T) {
	budget, panics := new(backoff.RetryBudget), true
	policy := steady(3)
	policy.Budget = budget
	policy.Schedule = backoff.ScheduleFunc(func(int) time.Duration {
		if panics {
			panic("no table")
		}
		return time.Second
	})
	require.PanicsWithValue(t, "no table", func() { _ = policy.Do(t.Context(), failing(new(int))) })
	require.Zero(t, budget.Stats().Retries)
	panics = false
	n := 0
	_ = policy.Do(t.Context(), failing(&n))
	require.Equal(t, 3, n)
}

// typed is an error that carries another one.
type typed struct{ cause error }

func (e typed) Error() string { return "typed: " + e.cause.Error() }
func (e typed) Unwrap() error { return e.cause }

var (
	onlyDown  = backoff.RetryIf(func(err error) bool { return errors.Is(err, errDown) })
	onlyTyped = backoff.RetryIf(func(err error) bool { _, ok := errors.AsType[typed](err); return ok })
	finalDown = plug.PermanentErrors(errDown)
)

// Which errors a policy retries.
var failsafeRules = []promise{
	decides("policy/policy_test.go TestIsFailureForNil", "no error is no failure", nil, nil, false),
	decides("policy/policy_test.go TestIsFailureForError", "an error is a failure by default", nil, errDown, true),
	decides("policy/policy_test.go TestIsFailureForError", "a rule that names an error accepts it", onlyDown, errDown, true),
	decides("policy/policy_test.go TestIsFailureForError", "a rule that names an error refuses others", onlyDown, io.EOF, false),
	decides("policy/policy_test.go TestIsFailureForPredicate", "a rule sees the error that another one wraps", onlyDown, fmt.Errorf("load: %w", errDown), true),
	decides("policy/policy_test.go TestIsFailureForPredicate", "a rule sees an error below a wait that a server asked for", onlyDown, backoff.RetryAfter(errDown, 1), true),
	decides("test/failurepolicy_test.go TestHandleErrors", "a rule finds an error that is joined with another", onlyDown, errors.Join(io.EOF, errDown), true),
	decides("test/failurepolicy_test.go TestHandleErrorsAs", "a rule may name a type", onlyTyped, fmt.Errorf("load: %w", typed{io.EOF}), true),
	decides("test/failurepolicy_test.go TestHandleErrorsAs", "a rule that names a type refuses others", onlyTyped, io.EOF, false),
	decides("policy/policy_test.go TestIsAbortableNil", "no error ends no call", finalDown, nil, false),
	decides("policy/policy_test.go TestIsAbortableForError", "an error on a list of final errors is final", finalDown, errDown, false),
	decides("policy/policy_test.go TestIsAbortableForError", "an error that wraps one of them is final", finalDown, typed{errDown}, false),
	decides("policy/policy_test.go TestIsAbortableForError", "any other error is not", finalDown, io.ErrUnexpectedEOF, true),
	decides("policy/policy_test.go TestIsAbortableForPredicate", "a mark of the operation ends the call", nil, fmt.Errorf("load: %w", backoff.Permanent(errDown)), false),
	{test: "policy/policy_test.go TestShouldComputeDelay", name: "an error may say how long to wait, exactly, and without it the schedule does", holds: func(t *testing.T) {
		require.Equal(t, 7*time.Minute/2, steady(3).Decide(1, backoff.Pushback(errDown, 7*time.Minute/2)).Wait)
		require.Equal(t, time.Second, steady(3).Decide(1, errDown).Wait)
	}},
}

// decides holds if a policy with the rule retries err, or does not, and a call under it as well.
func decides(test, name string, rule backoff.Classifier, err error, again bool) promise {
	return promise{test: test, name: name, holds: func(t *testing.T) {
		policy, n := steady(3), 0
		policy.Classify = rule
		require.Equal(t, again, policy.Retryable(err))
		got := policy.Do(t.Context(), func(context.Context) error { n++; return err })
		require.ErrorIs(t, got, err)
		require.Equal(t, again, n == 3)
	}}
}

var failsafeContexts = []promise{
	{test: "test/cancellation_test.go TestExecution_Cancellation", name: "an attempt that its caller cancels ends the call", holds: endsDuring(context.Canceled)},
	{test: "test/cancellation_test.go TestExecution_Cancellation", name: "so does the caller's deadline", holds: endsDuring(context.DeadlineExceeded)},
	{test: "test/cancellation_test.go TestExecution_Cancellation", name: "an attempt that succeeds is a success, though its caller cancelled meanwhile", holds: func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.NoError(t, steady(3).Do(ctx, func(ctx context.Context) error { <-ctx.Done(); return nil }))
	}, theirs: "the success is dropped, and the caller gets the error of the context", why: "the effect has happened, and its value must not be lost or leak"},
	{test: "test/cancellation_test.go TestRetryPolicy_Cancellation", name: "a wait ends with the caller, at once, and the error has the failure, too", holds: func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(300*time.Millisecond, cancel)
		n, began := 0, time.Now()
		err := steady(3).Do(ctx, failing(&n))
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, errDown)
		require.Equal(t, 300*time.Millisecond, time.Since(began))
		require.Equal(t, 1, n)
	}},
	{test: "test/cancellation_test.go TestTimeout_Cancellation", name: "the context of an attempt ends with its timeout, and says why", holds: timedOut(3, 3*4*time.Second+2*time.Second)},
	{test: "test/cancellation_test.go TestCloseCanceledChannelBeforeAccessingIt", name: "an attempt may ask for the end of its context after that", holds: func(t *testing.T) {
		policy := steady(1)
		policy.AttemptTimeout = time.Second
		err := policy.Do(t.Context(), func(ctx context.Context) error {
			time.Sleep(5 * time.Second)
			<-ctx.Done()
			return ctx.Err()
		})
		require.ErrorIs(t, err, backoff.ErrAttemptTimeout)
	}},
	{test: "test/timeout_test.go TestTimeout", name: "an attempt that is quick enough is not interrupted", holds: func(t *testing.T) {
		policy, n := steady(3), 0
		policy.AttemptTimeout = 4 * time.Second
		require.NoError(t, policy.Do(t.Context(), func(context.Context) error { n++; time.Sleep(3 * time.Second); return nil }))
		require.Equal(t, 1, n)
	}},
	{test: "test/timeout_test.go TestTimeout", name: "attempts that time out are tried again, until one is quick enough", holds: slowTwice},
	{test: "test/policy_composition_test.go TestRetryPolicy_Composition", name: "the attempt after one that timed out has a new context", holds: slowTwice},
	{test: "test/timeout_test.go TestTimeout", name: "the timeout of an attempt does not end the wait after it", holds: func(t *testing.T) {
		policy, n, began := steady(3), 0, time.Now()
		policy.AttemptTimeout, policy.Schedule = time.Second, backoff.Constant(5*time.Second)
		err := policy.Do(t.Context(), failing(&n))
		require.ErrorIs(t, err, errDown)
		require.NotErrorIs(t, err, backoff.ErrAttemptTimeout)
		require.Equal(t, 3, n)
		require.Equal(t, 10*time.Second, time.Since(began))
	}},
	{test: "test/timeout_test.go TestTimeout", name: "the deadline of the call ends an attempt", holds: func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		n, began := 0, time.Now()
		err := steady(9).Do(ctx, func(ctx context.Context) error { n++; return asleep(ctx, 2*time.Second) })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, errDown)
		require.Equal(t, 2, n)
		require.LessOrEqual(t, time.Since(began), 5*time.Second)
	}},
	{test: "test/timeout_test.go TestTimeout", name: "a wait that would pass the deadline of the call is not begun", holds: func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		n, began := 0, time.Now()
		err := steady(9).Do(ctx, failing(&n))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 1, n)
		require.Zero(t, time.Since(began))
	}, theirs: "the call sleeps until its deadline", why: "no attempt can follow; the caller may have another use for the time"},
	{test: "test/nested_timeout_test.go TestTimeout_Nested", name: "timeouts of attempts inside the deadline of the call end with that", holds: func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
		defer cancel()
		policy, n := steady(9), 0
		policy.AttemptTimeout = 2 * time.Second
		err := policy.Do(ctx, func(ctx context.Context) error { n++; <-ctx.Done(); return ctx.Err() })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 3, n)
	}},
	{test: "executor_test.go TestWithContext", name: "operation and observer get what the caller's context carries", holds: valuesOfTheContext(0)},
	{test: "test/issues/issue122_test.go TestIssue122_bug1", name: "they do so with a timeout for attempts, too", holds: valuesOfTheContext(time.Minute)},
	{test: "test/issues/issue122_test.go TestIssue122_bug2", name: "a value of the operation's own stays beside those of the caller", holds: func(t *testing.T) {
		type own struct{}
		policy := steady(3)
		policy.Idempotency = backoff.Keyed
		ctx := context.WithValue(backoff.WithPriority(t.Context(), backoff.PriorityHigh), own{}, "kept")
		require.NoError(t, policy.Do(ctx, func(ctx context.Context) error {
			require.Equal(t, "kept", ctx.Value(own{}))
			require.Equal(t, backoff.PriorityHigh, backoff.PriorityOf(ctx))
			require.NotEmpty(t, backoff.IdempotencyKey(ctx))
			return nil
		}))
	}},
	{test: "test/issues/issue134_test.go TestIssue134", name: "the context of an attempt with a timeout has ended when the call is over", holds: func(t *testing.T) {
		policy := steady(3)
		policy.AttemptTimeout = time.Minute
		var inner context.Context
		require.NoError(t, policy.Do(t.Context(), func(ctx context.Context) error { inner = ctx; return nil }))
		require.ErrorIs(t, inner.Err(), context.Canceled)
	}},
}

// asleep returns a failure after d, or the error of ctx if that ends before.
func asleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return errDown
	case <-ctx.Done():
		return ctx.Err()
	}
}

// endsDuring ends the caller's context while the first attempt runs.
func endsDuring(end error) func(*testing.T) {
	return func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		if end == context.DeadlineExceeded {
			ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		} else {
			time.AfterFunc(time.Second, cancel)
		}
		defer cancel()
		n, began := 0, time.Now()
		err := steady(3).Do(ctx, func(ctx context.Context) error { n++; return asleep(ctx, time.Hour) })
		require.ErrorIs(t, err, end)
		require.Equal(t, 1, n)
		require.Equal(t, time.Second, time.Since(began))
	}
}

func timedOut(attempts int, whole time.Duration) func(*testing.T) {
	return func(t *testing.T) {
		policy, n, began := steady(attempts), 0, time.Now()
		policy.AttemptTimeout = 4 * time.Second
		err := policy.Do(t.Context(), func(ctx context.Context) error {
			n++
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), backoff.ErrAttemptTimeout)
			return ctx.Err()
		})
		require.ErrorIs(t, err, backoff.ErrAttemptTimeout)
		require.Equal(t, attempts, n)
		require.Equal(t, whole, time.Since(began))
	}
}

func slowTwice(t *testing.T) {
	policy, n := steady(3), 0
	policy.AttemptTimeout = time.Second
	value, err := backoff.DoValue(t.Context(), policy, func(ctx context.Context) (string, error) {
		if n++; n <= 2 {
			return "", asleep(ctx, time.Hour)
		}
		require.NoError(t, ctx.Err())
		return "rows", nil
	})
	require.NoError(t, err)
	require.Equal(t, "rows", value)
	require.Equal(t, 3, n)
}

func valuesOfTheContext(timeout time.Duration) func(*testing.T) {
	return func(t *testing.T) {
		type key struct{}
		ctx, seen := context.WithValue(t.Context(), key{}, "v"), 0
		policy := steady(2)
		policy.AttemptTimeout = timeout
		policy.Observer = func(ctx context.Context, _ backoff.Event) {
			seen++
			require.Equal(t, "v", ctx.Value(key{}))
		}
		_ = policy.Do(ctx, func(ctx context.Context) error {
			require.Equal(t, "v", ctx.Value(key{}))
			return errDown
		})
		require.Equal(t, 2, seen)
	}
}
