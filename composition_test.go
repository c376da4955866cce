package backoff_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
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

// impatient opens at the second failure in a row, for exactly a minute, and
// closes at the first success.
func impatient() *backoff.Breaker {
	return &backoff.Breaker{ConsecutiveFailures: 2, ConsecutiveSpan: -1, OpenFor: backoff.Constant(time.Minute), Jitter: backoff.NoJitter, ProbeSuccesses: 1}
}

// The other way round: inside the loop the breaker hears every
// attempt, and its refusal ends the call with the service's last error and its
// own.
func TestAnOpenBreakerInsideEndsTheCallWithBothErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		policy := &backoff.Policy{Name: "fetch", MaxAttempts: 10, Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter}
		err := backoff.Stack(policy, impatient()).Do(t.Context(), downFor(time.Hour, &calls))

		require.Equal(t, 2, calls, "the third was refused")
		require.ErrorIs(t, err, backoff.ErrOpen)
		require.ErrorIs(t, err, errDown)
		gave := gaveUp(t, err)
		require.Equal(t, backoff.ReasonOpen, gave.Reason)
		require.Equal(t, 2, gave.Attempts)
		open := refusedBy(t, err)
		require.Equal(t, 59*time.Second, open.RetryAfter())

		outer := 0
		err = (&backoff.Policy{}).Do(t.Context(), func(context.Context) error { outer++; return err })
		require.ErrorIs(t, err, backoff.ErrOpen)
		require.Equal(t, 1, outer, "it is final to the loops around")
	})
}

// waitingFor is an operation under a breaker, whose refusals the policy around
// it waits for.
func waitingFor(breaker *backoff.Breaker, op func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := breaker.Do(ctx, op)
		if errors.Is(err, backoff.ErrOpen) {
			return backoff.OfClass(err, backoff.ClassRetryable)
		}
		return err
	}
}

func TestAPolicyWaitsExactlyUntilTheCircuitMayBeTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, start := 0, time.Now()
		clerk := new(clerk)
		policy := &backoff.Policy{MaxAttempts: 3, Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter, Budget: clerk}
		err := policy.Do(t.Context(), waitingFor(impatient(), downFor(30*time.Second, &calls)))

		require.NoError(t, err)
		require.Equal(t, 3, calls, "the refusal was no attempt")
		require.Equal(t, time.Minute+time.Second, time.Since(start), "a second's wait, and a minute after the second failure")
		const failed, unsent = backoff.OutcomeTransient, backoff.OutcomeNotSent
		require.Equal(t, []backoff.Outcome{failed, failed, unsent, backoff.OutcomeSuccess}, clerk.told, "and took no token")
	})
}

// The first refusal says when to ask again. That time is over when the last one
// ends the call.
func TestACallThatWaitedForACircuitReturnsTheLastRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		breaker := &backoff.Breaker{OpenFor: backoff.Constant(time.Minute), Jitter: backoff.NoJitter}
		breaker.Trip()
		time.AfterFunc(59*time.Second, func() { breaker.Reset(); breaker.Trip() })
		policy := &backoff.Policy{MaxRetryAfter: 90 * time.Second}
		err := policy.Do(t.Context(), waitingFor(breaker, downFor(time.Hour, new(int))))
		open := refusedBy(t, err)
		require.Equal(t, 59*time.Second, open.RetryAfter())
	})
}

// The usual pair is fused into one call, which must be as careful as the two of
// them.
func TestAPanicInAStackCountsAndPassesThrough(t *testing.T) {
	breaker := &backoff.Breaker{ConsecutiveFailures: 1, ConsecutiveSpan: -1}
	service := backoff.Stack(breaker, &backoff.Policy{})
	require.NoError(t, service.Do(t.Context(), func(context.Context) error { return nil }))
	require.PanicsWithValue(t, "bug", func() {
		_ = service.Do(t.Context(), func(context.Context) error { panic("bug") })
	})
	require.Equal(t, backoff.BreakerOpen, breaker.State())
	require.ErrorIs(t, service.Do(t.Context(), func(context.Context) error { return nil }), backoff.ErrOpen)
}

// An attempt timeout that ends a call of an inner policy is the outer policy's,
// which goes on: it was its own doing.
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
	clerk := new(clerk)
	outer := &backoff.Policy{Budget: clerk}
	inner := &backoff.Policy{Schedule: backoff.Constant(0)}
	calls := 0
	require.Error(t, backoff.Stack(outer, inner).Do(t.Context(), downFor(time.Hour, &calls)))
	require.Equal(t, []backoff.Outcome{backoff.OutcomeTransient}, clerk.told)
}

// The types of this package, and one that it has never seen, for DoValue to
// serve alike.
func doers() map[string]backoff.Doer {
	policy := &backoff.Policy{Schedule: backoff.Constant(0)}
	foreign := doer(func(ctx context.Context, op func(context.Context) error) error {
		for range 3 {
			if op(ctx) == nil {
				return nil
			}
		}
		return op(ctx)
	})
	return map[string]backoff.Doer{
		"policy": policy, "foreign": foreign, "stack": backoff.Stack(policy),
		"foreign inside": backoff.Stack(&backoff.Policy{MaxAttempts: 1}, foreign), "foreign outside": backoff.Stack(foreign, &backoff.Policy{MaxAttempts: 1}),
		"stack of stacks": backoff.Stack(backoff.Stack(), backoff.Stack(backoff.Stack(policy))),
	}
}

func TestDoValueReturnsTheLastValue(t *testing.T) {
	for name, d := range doers() {
		for _, failures := range []int{0, 2, 9} {
			n := 0
			value, err := backoff.DoValue(t.Context(), d, func(context.Context) (string, error) {
				if n++; n <= failures {
					return fmt.Sprint("failure ", n), errBoom
				}
				return fmt.Sprint("success ", n), nil
			})
			switch failures {
			case 9:
				require.ErrorIs(t, err, errBoom, name)
				require.Equal(t, "failure 4", value, name)
			default:
				require.NoError(t, err, name)
				require.Equal(t, fmt.Sprint("success ", failures+1), value, name)
			}
		}
	}
}

func TestDoValueReturnsNothingWhereNothingWasCalled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	value, err := backoff.DoValue(ctx, &backoff.Policy{}, func(context.Context) (*int, error) { return new(int), nil })
	require.ErrorIs(t, err, context.Canceled)
	require.Nil(t, value)

	refuses := doer(func(context.Context, func(context.Context) error) error { return errFinal })
	value, err = backoff.DoValue(t.Context(), refuses, func(context.Context) (*int, error) { return new(int), nil })
	require.Equal(t, errFinal, err)
	require.Nil(t, value)
}

// A Doer may answer in its own words, and the value still comes back.
func TestAForeignDoersErrorIsReturnedAsItIs(t *testing.T) {
	swallows := doer(func(ctx context.Context, op func(context.Context) error) error { _ = op(ctx); return nil })
	value, err := backoff.DoValue(t.Context(), swallows, func(context.Context) (int, error) { return 7, errBoom })
	require.NoError(t, err)
	require.Equal(t, 7, value)
}

// What is local to a goroutine, such as a lock or a profiler's label, stays so.
func TestTheOperationRunsOnTheCallersGoroutine(t *testing.T) {
	for name, d := range doers() {
		caller := goroutine()
		_, err := backoff.DoValue(t.Context(), d, func(context.Context) (int, error) {
			require.Equal(t, caller, goroutine(), name)
			return 0, nil
		})
		require.NoError(t, err)
	}
}

// goroutine returns what is at the head of a stack trace: "goroutine 7".
func goroutine() string {
	var buf [64]byte
	head, _, _ := bytes.Cut(buf[:runtime.Stack(buf[:], false)], []byte(" ["))
	return string(head)
}

// A panic ends the call where it was made, whoever it comes from, and leaves no
// goroutine behind: the bubble would not end with one.
func TestAPanicPassesThroughDoValue(t *testing.T) {
	for name, d := range doers() {
		synctest.Test(t, func(t *testing.T) {
			require.PanicsWithValue(t, "bug", func() {
				_, _ = backoff.DoValue(t.Context(), d, func(context.Context) (int, error) { panic("bug") })
			}, name)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		broken := doer(func(context.Context, func(context.Context) error) error { panic("broken") })
		require.PanicsWithValue(t, "broken", func() {
			_, _ = backoff.DoValue(t.Context(), broken, func(context.Context) (int, error) { return 0, nil })
		})
		require.Panics(t, func() {
			_, _ = backoff.DoValue(t.Context(), nil, func(context.Context) (int, error) { return 0, nil })
		}, "no Doer at all")
	})
}

func TestAGoexitEndsTheCallersGoroutineAndNoOther(t *testing.T) {
	for name, d := range doers() {
		synctest.Test(t, func(t *testing.T) {
			returned := false
			var wg sync.WaitGroup
			wg.Go(func() {
				_, _ = backoff.DoValue(t.Context(), d, func(context.Context) (int, error) { runtime.Goexit(); return 0, nil })
				returned = true
			})
			wg.Wait()
			require.False(t, returned, name)
		})
	}
}

func TestADoerMayCallFromAnotherGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		elsewhere := doer(func(ctx context.Context, op func(context.Context) error) error {
			var err error
			for range 3 {
				var wg sync.WaitGroup
				wg.Go(func() { err = op(ctx) })
				wg.Wait()
			}
			return err
		})
		n := 0
		value, err := backoff.DoValue(t.Context(), elsewhere, func(context.Context) (int, error) { n++; return n, nil })
		require.NoError(t, err)
		require.Equal(t, 3, value)
	})
}

// Stack.

// A policy in a Stack reports the end of every call, also of one that a doer
// around it refused.
func TestAStackTellsThePolicyInsideOfARefusal(t *testing.T) {
	open := &backoff.Breaker{Name: "search"}
	open.Trip()
	defer open.Reset()
	refuses := doer(func(context.Context, func(context.Context) error) error {
		return fmt.Errorf("bulkhead: %w", backoff.ErrBudget)
	})
	for _, row := range []struct {
		name   string
		around backoff.Doer
		why    backoff.Reason
	}{
		{"a breaker", open, backoff.ReasonOpen},
		{"a budget of a policy", backoff.Policy{Budget: refusing(1)}, backoff.ReasonBudget},
		{"a doer of the program's own", refuses, backoff.ReasonBudget},
		{"another stack", backoff.Stack(open), backoff.ReasonOpen},
	} {
		policy := backoff.Policy{Name: "search"}
		events := watch(&policy)
		err := backoff.Stack(row.around, policy).Do(t.Context(), returning(nil).do)
		require.Error(t, err, row.name)
		require.Len(t, *events, 1, row.name)
		e := (*events)[0]
		require.Equal(t, []any{backoff.EventGiveUp, "search", 0, row.why, err}, []any{e.Kind, e.Name, e.Attempt, e.Reason, e.Err}, row.name)
		own := doer(func(ctx context.Context, op func(context.Context) error) error { return op(ctx) })
		for _, inside := range []backoff.Doer{backoff.Stack(policy), backoff.Stack(own, policy)} {
			require.Error(t, backoff.Stack(row.around, inside).Do(t.Context(), returning(nil).do))
		}
		require.Len(t, *events, 3, "%s, around a stack", row.name)
	}
}

// Whoever puts layers around a policy by hand calls Refused.
func TestRefusedSaysWhyThePolicyNeverRan(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, row := range []struct {
		ctx  context.Context
		err  error
		want backoff.Reason
	}{
		{t.Context(), &backoff.OpenError{}, backoff.ReasonOpen},
		{t.Context(), fmt.Errorf("bulkhead: %w", backoff.ErrBudget), backoff.ReasonBudget},
		{t.Context(), &backoff.Error{Reason: backoff.ReasonElapsed, Last: backoff.RetryAfter(errBoom, time.Minute)}, backoff.ReasonElapsed},
		{t.Context(), (&backoff.Breaker{WindowCalls: 1e6}).Validate(), backoff.ReasonInvalid},
		{ended, context.Canceled, backoff.ReasonCanceled},
		{t.Context(), errFinal, backoff.ReasonPermanent},
	} {
		policy := backoff.Policy{Name: "search"}
		events := watch(&policy)
		policy.Refused(row.ctx, row.err)
		policy.Refused(row.ctx, nil)
		require.Len(t, *events, 1)
		require.Equal(t, row.want, (*events)[0].Reason, "%v", row.err)
		if row.want == backoff.ReasonElapsed {
			require.Equal(t, time.Minute, (*events)[0].RetryAfter)
		}
	}
}

// A Stack in a Stack counts as its doers, with a policy in it or without.
func TestARefusalPassesStacksWithoutAPolicy(t *testing.T) {
	open := &backoff.Breaker{Name: "search"}
	open.Trip()
	defer open.Reset()
	own := doer(func(ctx context.Context, op func(context.Context) error) error { return op(ctx) })
	for _, between := range []backoff.Doer{backoff.Stack(), backoff.Stack(new(backoff.Breaker)), backoff.Stack(own)} {
		policy := backoff.Policy{Name: "search"}
		events := watch(&policy)
		require.ErrorIs(t, backoff.Stack(open, between, policy).Do(t.Context(), returning(nil).do), backoff.ErrOpen)
		require.Len(t, *events, 1)
	}
}

// Nor is a call lost to metrics that a Patience ended before it was made.
func TestAPatienceTellsThePolicyOfCallsThatWereNotMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := &backoff.Breaker{Name: "search"}
		open.Trip()
		defer open.Reset()
		policy := backoff.Policy{Name: "search"}
		events := watch(&policy)
		service := backoff.Stack(&backoff.Patience{}, open, policy)
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			require.ErrorIs(t, service.Do(ctx, returning(nil).do), backoff.ErrOpen)
			cancel()
		}
		require.Len(t, *events, 3)
	})
}

// The end of a call is reported once.
func TestAStackReportsNoRefusalOfACallThatThePolicyMade(t *testing.T) {
	policy := backoff.Policy{Name: "search", MaxAttempts: 1}
	events := watch(&policy)
	swallows := doer(func(ctx context.Context, op func(context.Context) error) error { return nil })
	require.Error(t, backoff.Stack(new(backoff.Breaker), policy).Do(t.Context(), returning(errBoom).do))
	require.Len(t, *events, 1)
	require.NoError(t, backoff.Stack(swallows, policy).Do(t.Context(), returning(errBoom).do), "a doer with a result of its own refuses nothing")
	require.Len(t, *events, 1)
}

func TestAStackNestsInTheOrderGiven(t *testing.T) {
	var trace []string
	named := func(name string) backoff.Doer {
		return doer(func(ctx context.Context, op func(context.Context) error) error {
			trace = append(trace, name)
			defer func() { trace = append(trace, "/"+name) }()
			return op(ctx)
		})
	}
	for _, d := range []backoff.Doer{
		backoff.Stack(named("a"), named("b"), named("c")),
		backoff.Stack(backoff.Stack(named("a"), named("b")), backoff.Stack(named("c"))),
		backoff.Stack(named("a"), backoff.Stack(backoff.Stack(), named("b"), named("c"))),
	} {
		trace = nil
		require.NoError(t, d.Do(t.Context(), func(context.Context) error { trace = append(trace, "op"); return nil }))
		require.Equal(t, []string{"a", "b", "c", "op", "/c", "/b", "/a"}, trace)
	}
}

func TestAnEmptyStackCallsTheOperation(t *testing.T) {
	op := returning(errBoom)
	require.Equal(t, errBoom, backoff.Stack().Do(t.Context(), op.do))
	require.Len(t, op.at, 1)
}

func TestAStackKeepsACopy(t *testing.T) {
	doers := []backoff.Doer{&backoff.Policy{MaxAttempts: 1}}
	s := backoff.Stack(doers...)
	doers[0] = nil
	require.ErrorIs(t, s.Do(t.Context(), returning(errBoom).do), errBoom)
}

// Policies nest in a stack as they do by hand: each with its own timeouts, and
// without multiplying.
func TestPoliciesInAStackDoNotMultiply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, outer := steady(time.Second), steady(time.Hour)
		inner.AttemptTimeout, outer.Idempotency = time.Minute, backoff.Keyed
		calls := 0
		err := backoff.Stack(outer, inner).Do(t.Context(), func(ctx context.Context) error {
			calls++
			_, ok := ctx.Deadline()
			require.True(t, ok)
			require.NotEmpty(t, backoff.IdempotencyKey(ctx))
			return errors.Join(errBoom)
		})
		require.Equal(t, 4, calls)
		require.ErrorIs(t, err, errBoom)
	})
}

// A policy is a Doer as a value and as a pointer.
func TestAPolicyIsADoerAsAValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := backoff.Policy{Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter}
		for name, d := range map[string]backoff.Doer{
			"value": policy, "pointer": &policy, "stack": backoff.Stack(policy),
			"in a breaker": backoff.Stack(&backoff.Breaker{}, policy), "around one": backoff.Stack(policy, &backoff.Breaker{ConsecutiveFailures: -1}),
		} {
			start := time.Now()
			err := d.Do(t.Context(), returning(errBoom).do)
			require.Equal(t, 4, gaveUp(t, err).Attempts, name)
			n, err := backoff.DoValue(t.Context(), d, func(context.Context) (int, error) { return 7, errBoom })
			require.Equal(t, 4, gaveUp(t, err).Attempts, name)
			require.Equal(t, 7, n, name)
			require.Equal(t, 6*time.Second, time.Since(start), name)
		}
		require.NoError(t, backoff.Policy{Name: "literal"}.Do(t.Context(), returning(nil).do))
	})
}

// A breaker around a user's own Doer is no pair that Stack knows.
func TestStackPutsABreakerAroundAnyDoer(t *testing.T) {
	breaker := &backoff.Breaker{ConsecutiveSpan: -1, ConsecutiveFailures: 2}
	stack := backoff.Stack(breaker, backoff.Stack())
	for range 2 {
		require.ErrorIs(t, stack.Do(t.Context(), returning(errBoom).do), errBoom)
	}
	require.ErrorIs(t, stack.Do(t.Context(), returning(nil).do), backoff.ErrOpen)
}
