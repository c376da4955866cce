package guard_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
)

// blips makes calls of 50 ms by 40 workers for 5 s. The first attempt of one call in ten
// fails, that of all workers at the same moment. It returns the errors of calls that had
// one attempt.
func blips(t *testing.T, d backoff.Doer) (lost []*backoff.Error) {
	var mu sync.Mutex
	began := time.Now()
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			for n := 0; time.Since(began) < 5*time.Second; n++ {
				attempts := 0
				err := doWithin(t, d, 20*time.Second, func(context.Context) error {
					time.Sleep(50 * time.Millisecond)
					if attempts++; attempts == 1 && n%10 == 5 {
						return backoff.OfClass(errBoom, backoff.ClassRetryable)
					}
					return nil
				})
				if gave, ok := err.(*backoff.Error); ok && attempts == 1 {
					mu.Lock()
					lost = append(lost, gave)
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	return lost
}

func TestACallWhoseTurnFailsIsRetriedAsItsPolicySays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		require.Empty(t, blips(t, new(guard.Service).With(backoff.Policy{})))
	})
}

// An asked is a budget that takes note of the retries that it is asked for, and refuses
// those that are the first attempts of their policies, if it refuses.
type asked struct {
	backoff.BudgetDefaults
	refuses bool

	mu      sync.Mutex
	retries []backoff.Attempt
}

func (a *asked) Reserve(attempt backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	if attempt.First() {
		return backoff.Ticket{}, 0, true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.retries = append(a.retries, attempt)
	return backoff.Ticket{}, 0, !a.refuses
}

func TestTheBudgetIsAskedForARetryAfterATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := new(asked)
		lost := blips(t, (&guard.Service{Budget: budget}).With(backoff.Policy{MaxAttempts: 3}))
		require.Empty(t, lost)
		for _, a := range budget.retries {
			require.Equal(t, []any{2, 3, backoff.ClassRetryable}, []any{a.Number, a.MaxAttempts, a.Class})
		}
	})
}

// A call that waited for room would be made as a first attempt then.
func TestARetryAfterATurnDoesNotWaitForRoomInTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := blips(t, (&guard.Service{Budget: &asked{refuses: true}}).With(backoff.Policy{}))
		require.NotEmpty(t, lost)
		for _, gave := range lost {
			require.Equal(t, backoff.ReasonBudget, gave.Reason, gave.Error())
			require.ErrorIs(t, gave, errBoom)
		}
	})
}

func TestARetryAfterATurnNeedsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := backoff.Policy{Schedule: backoff.Constant(time.Minute), Jitter: backoff.NoJitter}
		lost := blips(t, new(guard.Service).With(late))
		require.NotEmpty(t, lost)
		for _, gave := range lost {
			require.Equal(t, backoff.ReasonDeadline, gave.Reason, gave.Error())
			require.ErrorIs(t, gave, errBoom)
		}
	})
}
