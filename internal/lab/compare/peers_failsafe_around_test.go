package compare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/hedge"
)

// Events come as often as something happened.
var failsafeEvents = []promise{
	{test: "test/listeners_test.go TestListenersOnSuccess", name: "a call that succeeds in the third attempt has two retries and a success", holds: observed("retry retry success", errDown, errDown, nil)},
	{test: "test/listeners_test.go TestListenersForUnhandledFailure", name: "a call that meets a final failure after two others says so", holds: observed("retry retry give up:permanent", errDown, errDown, backoff.Permanent(io.EOF))},
	{test: "test/listeners_test.go TestListenersForRetriesExceeded", name: "a call that is given up has its retries and says why", holds: observed("retry retry retry give up:attempts", errDown)},
	{test: "test/listeners_test.go TestListenersForAbort", name: "a final failure in the last attempt is final, and not one attempt too many", holds: observed("retry retry retry give up:permanent", errDown, errDown, errDown, backoff.Permanent(io.EOF))},
	{test: "test/listeners_test.go TestListenersForFailingRetryPolicy", name: "a breaker inside that takes a failure for a success leaves the retries alone", holds: observedAround(&backoff.Breaker{
		Classify: func(error) backoff.Class { return backoff.ClassPermanent }}, 4, 0)},
	{test: "test/listeners_test.go TestListenersForFailingCircuitBreaker", name: "a breaker counts a failure that the policy inside it finds final", holds: breakerCountsWhatIsFinal},
	{test: "test/listeners_test.go TestListenersOnPanic", name: "a panic in the third attempt reaches the caller, after the events of the first two", holds: panicAfterTwo},
	{test: "test/listeners_test.go TestGetElapsedTime", name: "an event says how long the call has taken", holds: func(t *testing.T) {
		policy, seen := steady(3), []time.Duration{}
		policy.Observer = func(_ context.Context, e backoff.Event) { seen = append(seen, e.Elapsed) }
		_ = policy.Do(t.Context(), func(context.Context) error { time.Sleep(2 * time.Second); return errDown })
		require.Equal(t, []time.Duration{2 * time.Second, 5 * time.Second, 8 * time.Second}, seen)
	}},
	{test: "test/listeners_test.go TestRetryPolicyOnScheduledRetry", name: "an event says which attempt has ended, and comes before the wait", holds: func(t *testing.T) {
		policy, seen, n := steady(2), []string{}, 0
		policy.Observer = func(_ context.Context, e backoff.Event) { seen = append(seen, fmt.Sprint(e.Attempt, n, e.Wait)) }
		_ = policy.Do(t.Context(), failing(&n))
		require.Equal(t, []string{"1 1 1s", "2 2 0s"}, seen)
	}},
	{test: "test/listeners_test.go TestListenersForHedgePolicy", name: "a call with two hedges has an event for each, and one for its end", holds: func(t *testing.T) {
		var kinds []string
		h := &hedge.Hedge{Delay: time.Second, MaxAttempts: 3, MaxExtraLoad: -1,
			Observer: func(_ context.Context, e backoff.Event) { kinds = append(kinds, e.Kind.String()) }}
		_, err := hedge.Value(t.Context(), h, func(context.Context) (bool, error) { time.Sleep(10 * time.Second); return true, nil }, nil)
		require.NoError(t, err)
		require.Len(t, kinds, 3)
		time.Sleep(time.Minute)
	}},
}

// observed makes a call of up to 4 attempts that fail in turn, and holds if the
// kinds of its events, and the reason of the last, are those.
func observed(want string, fails ...error) func(*testing.T) {
	return func(t *testing.T) {
		seen := ""
		policy := steady(4)
		policy.Observer = func(_ context.Context, e backoff.Event) {
			seen += " " + e.Kind.String()
			if e.Kind == backoff.EventGiveUp {
				seen += ":" + e.Reason.String()
			}
		}
		n := 0
		_ = policy.Do(t.Context(), func(context.Context) error { n++; return fails[min(n, len(fails))-1] })
		require.Equal(t, " "+want, seen)
	}
}

// observedAround makes a call of 4 attempts through a breaker, and holds if so many reach the
// operation, and so many count as failures.
func observedAround(b *backoff.Breaker, attempts int, failures uint64) func(*testing.T) {
	return func(t *testing.T) {
		n := 0
		_ = steady(4).Do(t.Context(), b.Wrap(failing(&n)))
		require.Equal(t, attempts, n)
		require.Equal(t, failures, b.Stats().Failures)
	}
}

func breakerCountsWhatIsFinal(t *testing.T) {
	b, n := new(backoff.Breaker), 0
	b.Classify = func(error) backoff.Class { return backoff.ClassRetryable }
	err := b.Do(t.Context(), ruled(steady(4), io.EOF).Wrap(failing(&n)))
	require.ErrorIs(t, err, errDown)
	require.Equal(t, 1, n)
	require.EqualValues(t, 1, b.Stats().Failures)
}

func panicAfterTwo(t *testing.T) {
	policy, b, n, kinds := steady(9), new(backoff.Breaker), 0, []string{}
	policy.Observer = func(_ context.Context, e backoff.Event) { kinds = append(kinds, e.Kind.String()) }
	require.PanicsWithValue(t, "lost", func() {
		_ = policy.Do(t.Context(), b.Wrap(func(context.Context) error {
			if n++; n == 3 {
				panic("lost")
			}
			return errDown
		}))
	})
	require.Equal(t, []string{"retry", "retry"}, kinds)
	require.EqualValues(t, 3, b.Stats().Failures)
}

var failsafeBudgets = []promise{
	{test: "test/budget_test.go TestBudget", name: "a budget that has something left lets a retry through", holds: func(t *testing.T) {
		budget := paid(t, 100)
		policy, n := steady(4), 0
		policy.Budget = budget
		require.NoError(t, policy.Do(t.Context(), func(context.Context) error {
			if n++; n == 1 {
				return errDown
			}
			return nil
		}))
		require.Equal(t, 2, n)
		require.EqualValues(t, 1, budget.Stats().Retries)
	}},
	{test: "test/budget_test.go TestBudget", name: "a budget that is spent ends the call after its attempt, with its failure", holds: func(t *testing.T) {
		policy := steady(4)
		policy.Budget = spent(t)
		n, began := 0, time.Now()
		err := policy.Do(t.Context(), failing(&n))
		require.ErrorIs(t, err, backoff.ErrBudget)
		require.ErrorIs(t, err, errDown)
		require.Equal(t, 1, n)
		require.Zero(t, time.Since(began))
	}},
	{test: "test/budget_test.go TestBudget", name: "a budget that is spent refuses no first attempt", holds: func(t *testing.T) {
		policy := steady(4)
		policy.Budget = spent(t)
		for range 100 {
			require.NoError(t, policy.Do(t.Context(), func(context.Context) error { return nil }))
		}
	}},
	{test: "test/budget_test.go TestBudget", name: "a retry that was granted and not made is given back", holds: func(t *testing.T) {
		budget := paid(t, 100)
		policy := steady(4)
		policy.Budget = budget
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second/2, cancel)
		require.ErrorIs(t, policy.Do(ctx, failing(new(int))), context.Canceled)
		require.Zero(t, budget.Stats().Retries)
	}},
	{test: "test/budget_test.go TestBudget", name: "a client with few calls may retry beyond the share", holds: func(t *testing.T) {
		policy, n := steady(2), 0
		policy.Budget = &backoff.RetryBudget{Ratio: 0.01, Floor: 3}
		for range 9 {
			require.NoError(t, policy.Do(t.Context(), func(context.Context) error { return nil }))
		}
		_ = policy.Do(t.Context(), failing(&n))
		require.Equal(t, 2, n)
	}},
	{test: "test/budget_test.go TestBudget", name: "a hedge that the budget grants is sent", holds: hedgedUnder(func(t *testing.T) backoff.Budget { return paid(t, 100) }, 3)},
	{test: "test/budget_test.go TestBudget", name: "a hedge that the budget refuses is not sent, and the first attempt has the result", holds: hedgedUnder(spent, 1)},
	{test: "test/issues/issue141_test.go TestIssue141", name: "attempts under way go on after the budget refuses the next hedge", holds: hedgedUnder(func(*testing.T) backoff.Budget { return new(oneMore) }, 2)},
}

// paid returns a budget after so many successes.
func paid(t *testing.T, successes int) *backoff.RetryBudget {
	budget := new(backoff.RetryBudget)
	for range successes {
		require.NoError(t, backoff.Policy{Budget: budget}.Do(t.Context(), func(context.Context) error { time.Sleep(time.Millisecond); return nil }))
	}
	return budget
}

// spent returns a budget that refuses retries.
func spent(t *testing.T) backoff.Budget {
	budget := new(backoff.RetryBudget)
	policy := steady(4)
	policy.Budget = budget
	for range 50 {
		_ = policy.Do(t.Context(), failing(new(int)))
	}
	return budget
}

// oneMore grants one attempt besides the first ones.
type oneMore struct {
	backoff.BudgetDefaults
	granted atomic.Bool
}

func (b *oneMore) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	return backoff.Ticket{}, 0, a.First() && !a.Hedge || b.granted.CompareAndSwap(false, true)
}

// hedgedUnder makes a slow call with up to 3 attempts, and holds if so many are made.
func hedgedUnder(budget func(*testing.T) backoff.Budget, attempts int) func(*testing.T) {
	return func(t *testing.T) {
		var numbers sync.Map
		h := &hedge.Hedge{Delay: time.Second, MaxAttempts: 3, MaxExtraLoad: -1, Budget: budget(t)}
		value, err := hedge.Value(t.Context(), h, func(ctx context.Context) (string, error) {
			numbers.Store(hedge.Number(ctx), true)
			time.Sleep(10 * time.Second)
			return "rows", nil
		}, nil)
		require.NoError(t, err)
		require.Equal(t, "rows", value)
		n := 0
		numbers.Range(func(any, any) bool { n++; return true })
		require.Equal(t, attempts, n)
		time.Sleep(time.Minute)
	}
}

// quick opens after so many failures in a row.
func quick(failures int) *backoff.Breaker {
	return &backoff.Breaker{ConsecutiveFailures: failures, ConsecutiveSpan: -1, MinCalls: 1000, OpenFor: backoff.Constant(time.Minute), Jitter: backoff.NoJitter}
}

var failsafeBreakers = []promise{
	{test: "test/circuitbreaker_test.go TestCircuitBreaker", name: "an open circuit refuses a call before its first attempt", holds: func(t *testing.T) {
		b, n := quick(3), 0
		b.Trip()
		require.ErrorIs(t, steady(4).Do(t.Context(), b.Wrap(failing(&n))), backoff.ErrOpen)
		require.Zero(t, n)
	}},
	{test: "test/circuitbreaker_test.go TestCircuitBreaker", name: "a half-open circuit admits as many probes as it says, and no more", holds: probesOfTheBreaker},
	{test: "test/circuitbreaker_test.go TestCircuitBreaker", name: "a circuit that opens between two attempts ends the call, with the failure", holds: func(t *testing.T) {
		b, n, began := quick(3), 0, time.Now()
		err := steady(9).Do(t.Context(), b.Wrap(failing(&n)))
		require.ErrorIs(t, err, backoff.ErrOpen)
		require.ErrorIs(t, err, errDown)
		require.Equal(t, 3, n)
		require.Equal(t, 3*time.Second, time.Since(began))
	}, theirs: "the loop asks the open circuit with all its attempts", why: "the circuit says for how long it will refuse"},
	{test: "test/circuitbreaker_test.go TestCircuitBreaker", name: "a listener learns of the opening, with its cause and the caller's context", holds: openingIsReported},
	{test: "test/policy_composition_test.go TestRetryPolicy_Composition", name: "a breaker inside counts each attempt", holds: func(t *testing.T) {
		b, n := quick(3), 0
		require.NoError(t, steady(-1).Do(t.Context(), b.Wrap(func(context.Context) error {
			if n++; n < 3 {
				return errDown
			}
			return nil
		})))
		require.EqualValues(t, 2, b.Stats().Failures)
		require.EqualValues(t, 1, b.Stats().Successes)
	}},
	{test: "test/policy_composition_test.go TestCircuitBreaker_Composition", name: "a breaker around a policy counts one failure for a call", holds: func(t *testing.T) {
		b, n := quick(3), 0
		require.ErrorIs(t, b.Do(t.Context(), steady(3).Wrap(failing(&n))), errDown)
		require.Equal(t, 3, n)
		require.EqualValues(t, 1, b.Stats().Failures)
		require.Equal(t, backoff.BreakerClosed, b.State())
	}},
	{test: "test/policy_composition_test.go TestCircuitBreaker_Composition", name: "a breaker counts an attempt that timed out", holds: func(t *testing.T) {
		b, policy := quick(1), steady(1)
		policy.AttemptTimeout = time.Second
		err := b.Do(t.Context(), policy.Wrap(func(ctx context.Context) error { return asleep(ctx, time.Hour) }))
		require.ErrorIs(t, err, backoff.ErrAttemptTimeout)
		require.Equal(t, backoff.BreakerOpen, b.State())
	}},
	{test: "test/policy_composition_test.go TestMultiPolicy_Composition", name: "a value of the caller's own takes the place of a call that is given up", holds: func(t *testing.T) {
		b := quick(5)
		value, err := backoff.DoValue(t.Context(), steady(3), func(ctx context.Context) (string, error) {
			return backoff.DoValue(ctx, b, func(context.Context) (string, error) { return "", errDown })
		})
		if errors.Is(err, backoff.ErrExhausted) {
			value = "stale"
		}
		require.Equal(t, "stale", value)
		require.EqualValues(t, 3, b.Stats().Failures)
		require.Equal(t, backoff.BreakerClosed, b.State())
	}},
	{test: "test/policy_composition_test.go TestFallback_Composition", name: "the caller tells a call that was given up from one that the circuit refused", holds: func(t *testing.T) {
		require.ErrorIs(t, givenUp(t), backoff.ErrExhausted)
		require.NotErrorIs(t, givenUp(t), backoff.ErrOpen)
		b := quick(1)
		b.Trip()
		err := b.Do(t.Context(), failing(new(int)))
		require.ErrorIs(t, err, backoff.ErrOpen)
		require.NotErrorIs(t, err, backoff.ErrExhausted)
	}},
	{test: "test/nested_circuitbreaker_test.go TestCircuitBreker_Nested", name: "of two breakers around a call each counts its own kind of failure, in either order", holds: twoBreakers},
	{test: "test/delayablepolicy_test.go TestPanicInCircuitBreakerDelayFunction", name: "a panic in the schedule of a breaker reaches the caller, and the breaker works on", holds: panicInOpenFor},
	{test: "test/delayablepolicy_test.go TestShouldDelayCircuitBreaker", name: "a breaker asks its schedule when it opens, and not before", holds: func(t *testing.T) {
		b, asked := quick(2), 0
		b.OpenFor = backoff.ScheduleFunc(func(int) time.Duration { asked++; return time.Minute })
		_ = b.Do(t.Context(), func(context.Context) error { return nil })
		_ = b.Do(t.Context(), failing(new(int)))
		before := asked
		_ = b.Do(t.Context(), failing(new(int)))
		require.Equal(t, backoff.BreakerOpen, b.State())
		require.Greater(t, asked, before)
	}},
	{test: "test/issues/issue100_test.go TestAnyComposition", name: "one breaker and one policy serve calls of different types", holds: func(t *testing.T) {
		b := new(backoff.Breaker)
		text, err := backoff.DoValue(t.Context(), b, func(context.Context) (string, error) { return "rows", nil })
		require.NoError(t, err)
		require.Equal(t, "rows", text)
		number, err := backoff.DoValue(t.Context(), b, func(context.Context) (int, error) { return 7, nil })
		require.NoError(t, err)
		require.Equal(t, 7, number)
	}},
	{test: "test/issues/issue136_test.go TestIssue136_concurrentCalls", name: "calls at the same time, each with its own context, share a policy and a breaker", holds: callsAtOnce},
}

func probesOfTheBreaker(t *testing.T) {
	b := quick(1)
	b.MaxProbes = 3
	b.Trip()
	time.Sleep(time.Minute)
	for range 3 {
		go func() { _ = b.Do(t.Context(), func(ctx context.Context) error { return asleep(ctx, 20*time.Second) }) }()
	}
	synctest.Wait()
	require.Equal(t, 3, b.Stats().Probes)
	for range 9 {
		require.ErrorIs(t, b.Do(t.Context(), func(context.Context) error { return nil }), backoff.ErrOpen)
	}
	time.Sleep(time.Minute)
}

func openingIsReported(t *testing.T) {
	type key struct{}
	b, seen := quick(2), []string{}
	b.Observer = func(ctx context.Context, e backoff.Event) {
		if e.Kind == backoff.EventTransition {
			seen = append(seen, fmt.Sprintln(e.Transition.To, e.Transition.Trigger, e.Transition.Err, ctx.Value(key{})))
		}
	}
	for range 2 {
		_ = b.Do(context.WithValue(t.Context(), key{}, "v"), failing(new(int)))
	}
	synctest.Wait()
	require.Equal(t, []string{"open consecutive down v\n"}, seen)
}

func twoBreakers(t *testing.T) {
	for _, swapped := range []bool{false, true} {
		inner, outer := quick(1), quick(1)
		inner.Classify, outer.Classify = finalUnless(io.EOF), finalUnless(errDown)
		if swapped {
			inner, outer = outer, inner
		}
		err := outer.Do(t.Context(), inner.Wrap(failing(new(int))))
		require.ErrorIs(t, err, errDown)
		require.Equal(t, []bool{swapped, !swapped}, []bool{inner.State() == backoff.BreakerOpen, outer.State() == backoff.BreakerOpen})
	}
}

// finalUnless takes every error but one for the fault of the call.
func finalUnless(failure error) backoff.Classifier {
	return func(err error) backoff.Class {
		if errors.Is(err, failure) {
			return backoff.ClassRetryable
		}
		return backoff.ClassPermanent
	}
}

func panicInOpenFor(t *testing.T) {
	b, panics := quick(1), true
	b.OpenFor = backoff.ScheduleFunc(func(int) time.Duration {
		if panics {
			panic("no table")
		}
		return time.Minute
	})
	require.Panics(t, func() { _ = b.Do(t.Context(), failing(new(int))) })
	panics = false
	_ = b.State()
	_ = b.Stats()
	_ = b.Do(t.Context(), failing(new(int)))
	require.Equal(t, backoff.BreakerOpen, b.State())
}

func callsAtOnce(t *testing.T) {
	type key struct{}
	b, policy := new(backoff.Breaker), steady(3)
	policy.Budget = new(backoff.RetryBudget)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			ctx := context.WithValue(t.Context(), key{}, i)
			if err := b.Do(ctx, policy.Wrap(func(ctx context.Context) error {
				runtime.Gosched()
				if ctx.Value(key{}) != i {
					return errors.New("the context of another call")
				}
				return nil
			})); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

var failsafeHedges = []promise{
	{test: "test/policy_composition_test.go TestRetryPolicy_Composition", name: "a policy around a hedge does not try again what the hedge gave up on", holds: func(t *testing.T) {
		h, n := &hedge.Hedge{Delay: time.Second, MaxExtraLoad: -1}, 0
		err := steady(4).Do(t.Context(), func(ctx context.Context) error {
			_, err := hedge.Value(ctx, h, func(context.Context) (int, error) { n++; return 0, errDown }, nil)
			return err
		})
		require.ErrorIs(t, err, errDown)
		require.Equal(t, 2, n)
	}, theirs: "the policy tries again, each time with the hedges", why: "the service has refused the call and its hedge already; `OfClass(err, ClassRetryable)` allows it"},
	{test: "test/cancellation_test.go TestHedgePolicy_Cancellation", name: "a call that is cancelled before its hedge sends none", holds: cancelledHedge(time.Second, 10*time.Second, 1)},
	{test: "test/cancellation_test.go TestHedgePolicy_Cancellation", name: "a call that is cancelled ends with all its hedges", holds: cancelledHedge(10*time.Second, time.Second, 3)},
	{test: "test/issues/issue134_test.go TestIssue134Hedge", name: "the context of a hedged attempt has ended when the call is over", holds: func(t *testing.T) {
		var inner context.Context
		_, err := hedge.Value(t.Context(), &hedge.Hedge{Delay: time.Second}, func(ctx context.Context) (int, error) { inner = ctx; return 1, nil }, nil)
		require.NoError(t, err)
		require.Error(t, inner.Err())
	}},
	{test: "test/policy_composition_test.go TestHedgePolicy_Composition", name: "hedges whose attempts time out end with the timeout", holds: func(t *testing.T) {
		h, once, n := &hedge.Hedge{Delay: time.Second, MaxAttempts: 3, MaxExtraLoad: -1}, steady(1), make(chan int, 3)
		once.AttemptTimeout = 10 * time.Second
		_, err := hedge.Value(t.Context(), h, func(ctx context.Context) (int, error) {
			n <- hedge.Number(ctx)
			return 0, once.Do(ctx, func(ctx context.Context) error { return asleep(ctx, time.Hour) })
		}, nil)
		require.ErrorIs(t, err, backoff.ErrAttemptTimeout)
		require.Len(t, n, 3)
	}},
}

// cancelledHedge cancels a call of up to three attempts, with the delay between them.
func cancelledHedge(after, delay time.Duration, attempts int) func(*testing.T) {
	return func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(after, cancel)
		began, ended := time.Now(), make(chan error, 9)
		h := &hedge.Hedge{Delay: delay, MaxAttempts: 3, MaxExtraLoad: -1}
		_, err := hedge.Value(ctx, h, func(ctx context.Context) (int, error) {
			<-ctx.Done()
			ended <- ctx.Err()
			return 0, ctx.Err()
		}, nil)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, after, time.Since(began))
		synctest.Wait()
		require.Len(t, ended, attempts)
	}
}
