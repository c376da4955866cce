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

// The types of this package, and one that it has never seen, for DoValue to serve alike.
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

func TestTheOperationGetsTheContextOfTheDoerAroundIt(t *testing.T) {
	type key struct{}
	adds := doer(func(ctx context.Context, op func(context.Context) error) error {
		return op(context.WithValue(ctx, key{}, "added"))
	})
	_, err := backoff.DoValue(t.Context(), adds, func(ctx context.Context) (int, error) {
		require.Equal(t, "added", ctx.Value(key{}))
		return 0, nil
	})
	require.NoError(t, err)
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

func TestAForeignDoersGoexitIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leaves := doer(func(context.Context, func(context.Context) error) error { runtime.Goexit(); return nil })
		value, err := backoff.DoValue(t.Context(), leaves, func(context.Context) (int, error) { return 7, nil })
		require.EqualError(t, err, "backoff: operation abandoned")
		require.Zero(t, value)
	})
}

// A Doer that goes on after the operation has panicked is told so, as often as it asks.
func TestADoerIsToldThatItsOperationIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard []error
		done := make(chan struct{})
		stubborn := doer(func(ctx context.Context, op func(context.Context) error) error {
			defer close(done)
			for range 3 {
				heard = append(heard, op(ctx))
			}
			return nil
		})
		require.Panics(t, func() {
			_, _ = backoff.DoValue(t.Context(), stubborn, func(context.Context) (int, error) { panic("bug") })
		})
		<-done
		require.Len(t, heard, 3)
		for _, err := range heard {
			require.EqualError(t, err, "backoff: operation abandoned")
			require.False(t, (&backoff.Policy{}).Retryable(err))
		}
	})
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

// Such a Doer breaks the rules, but the caller's memory stays his own: nothing is
// written to it after DoValue has returned, and an operation that is under way is waited for.
func TestADoerThatGivesUpDoesNotLeaveTheOperationBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timeout := doer(func(ctx context.Context, op func(context.Context) error) error {
			result := make(chan error, 1)
			go func() { result <- op(ctx) }()
			select {
			case err := <-result:
				return err
			case <-time.After(time.Second):
				return context.DeadlineExceeded
			}
		})
		began := time.Now()
		value, err := backoff.DoValue(t.Context(), timeout, func(context.Context) (int, error) {
			time.Sleep(time.Minute)
			return 7, nil
		})
		require.Equal(t, context.DeadlineExceeded, err)
		require.Equal(t, 7, value)
		require.Equal(t, time.Minute, time.Since(began))
	})
}

func TestACallAfterTheEndIsNotMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := make(chan error, 1)
		early := doer(func(ctx context.Context, op func(context.Context) error) error {
			time.AfterFunc(time.Second, func() { late <- op(ctx) })
			return errFinal
		})
		_, err := backoff.DoValue(t.Context(), early, func(context.Context) (int, error) { panic("called") })
		require.Equal(t, errFinal, err)
		require.EqualError(t, <-late, "backoff: operation abandoned")
	})
}

// Stack.

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

// Contract row 105: one policy, two operations of different types, no state between.
func TestOnePolicyServesOperationsOfAnyType(t *testing.T) {
	policy := backoff.Policy{}
	n, err := backoff.DoValue(t.Context(), &policy, func(context.Context) (int, error) { return 7, nil })
	require.NoError(t, err)
	s, err := backoff.DoValue(t.Context(), &policy, func(context.Context) ([]string, error) { return []string{"a"}, nil })
	require.NoError(t, err)
	require.Equal(t, 7, n)
	require.Equal(t, []string{"a"}, s)
}
