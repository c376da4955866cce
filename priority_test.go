package backoff_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

// Contract row 84: an emergency call waits less under the same policy.
func TestRow84AnUrgentCallWaitsLess(t *testing.T) {
	policy := backoff.Policy{Jitter: backoff.NoJitter, MaxDelay: time.Second}
	for priority, want := range map[backoff.Priority]time.Duration{
		backoff.Critical: 175 * time.Millisecond, backoff.High: 350 * time.Millisecond, backoff.Normal: 700 * time.Millisecond,
		backoff.Background:   400*time.Millisecond + 800*time.Millisecond + time.Second,
		backoff.Critical + 1: 175 * time.Millisecond, backoff.Background - 1: 2200 * time.Millisecond,
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			err := policy.Do(backoff.WithPriority(t.Context(), priority), returning(errBoom).do)
			require.ErrorIs(t, err, backoff.ErrExhausted)
			require.Equal(t, want, time.Since(start), "priority %v", priority)
		})
	}
}

func TestNoPriorityShortensTheWaitThatAServerAsksFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		policy := backoff.Policy{MaxAttempts: 2}
		_ = policy.Do(backoff.WithPriority(t.Context(), backoff.Critical), returning(backoff.RetryAfter(errBoom, time.Minute)).do)
		require.GreaterOrEqual(t, time.Since(start), time.Minute)
	})
}

// Every attempt shows the budget the priority of its call.
func TestABudgetSeesThePriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []backoff.Priority
		budget := budgetFunc(func(a backoff.Attempt) { asked = append(asked, a.Priority) })
		ctx := backoff.WithPriority(t.Context(), backoff.High)
		_ = backoff.Policy{MaxAttempts: 2, Budget: budget}.Do(ctx, returning(errBoom).do)
		_, _ = backoff.HedgeValue(ctx, &backoff.Hedge{Budget: budget}, func(context.Context) (int, error) { return 0, nil }, nil)
		_ = backoff.Policy{Budget: budget}.Do(t.Context(), returning(nil).do)
		require.Equal(t, []backoff.Priority{backoff.High, backoff.High, backoff.High, backoff.Normal}, asked)
	})
}

// budgetFunc is a budget that grants everything, and shows what it was asked
// for.
type budgetFunc func(backoff.Attempt)

func (f budgetFunc) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	f(a)
	return backoff.Ticket{}, 0, true
}

func (budgetFunc) Done(backoff.Ticket, backoff.Result) {}

func TestPriorityNamesAreTexts(t *testing.T) {
	names := map[backoff.Priority]string{
		backoff.Background: "background", backoff.Normal: "normal", backoff.High: "high", backoff.Critical: "critical",
		backoff.Background - 1: "invalid", backoff.Critical + 1: "invalid",
	}
	for p, want := range names {
		require.Equal(t, want, p.String())
	}
}

func ExampleWithPriority() {
	policy := backoff.Policy{Jitter: backoff.NoJitter, Schedule: backoff.Constant(8 * time.Millisecond), Observer: func(_ context.Context, e backoff.Event) {
		fmt.Println(e.Kind, e.Wait)
	}}
	policy.MaxAttempts = 2
	emergency := backoff.WithPriority(context.Background(), backoff.Critical)
	_ = policy.Do(emergency, func(context.Context) error { return fmt.Errorf("busy") })
	// Output:
	// retry 2ms
	// give up 0s
}

func ExamplePriority() {
	fmt.Println(backoff.Critical > backoff.High, backoff.High > backoff.Normal, backoff.Normal)
	// Output: true true normal
}
