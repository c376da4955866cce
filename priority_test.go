package backoff_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/limit"
)

// Contract row 84: an emergency call waits less under the same policy.
func TestRow84AnUrgentCallWaitsLess(t *testing.T) {
	policy := &backoff.Policy{Jitter: backoff.NoJitter, MaxDelay: time.Second}
	for factor, want := range map[float64]time.Duration{
		1: 700 * time.Millisecond, 2: 1400 * time.Millisecond, 0.25: 175 * time.Millisecond, 5: 2500 * time.Millisecond,
		0: 700 * time.Millisecond, -1: 700 * time.Millisecond, math.Inf(1): 3 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			err := policy.Do(backoff.WithPatience(t.Context(), factor), returning(errBoom).do)
			require.ErrorIs(t, err, backoff.ErrExhausted)
			require.Equal(t, want, time.Since(start), "factor %v", factor)
		})
	}
}

func TestNoPatienceShortensAServersHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		policy := &backoff.Policy{MaxAttempts: 2}
		_ = policy.Do(backoff.WithPatience(t.Context(), 0.01), returning(backoff.RetryAfter(errBoom, time.Minute)).do)
		require.GreaterOrEqual(t, time.Since(start), time.Minute)
	})
}

// Where a throttle must refuse some calls, it refuses those that can wait.
func TestRow84AThrottleSparesTheUrgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := backoff.Policy{MaxAttempts: 1, Budget: &limit.Throttle{}}
		refused := map[float64]int{}
		for i := range 6000 {
			factor := []float64{0.1, 1, 10}[i%3]
			op := returning(backoff.WithClass(errBoom, backoff.ClassThrottled))
			if i%4 == 0 {
				op = returning(nil)
			}
			err := policy.Do(backoff.WithPatience(t.Context(), factor), op.do)
			if len(op.at) == 0 {
				require.ErrorIs(t, err, backoff.ErrBudget)
				refused[factor]++
			}
			time.Sleep(10 * time.Millisecond)
		}
		require.Less(t, 2*refused[0.1], refused[1])
		require.Less(t, refused[1], refused[10])
	})
}

func ExampleWithPatience() {
	policy := backoff.Policy{Jitter: backoff.NoJitter, Schedule: backoff.Constant(8 * time.Millisecond), Observer: func(_ context.Context, e backoff.Event) {
		fmt.Println(e.Kind, e.Wait)
	}}
	policy.MaxAttempts = 2
	emergency := backoff.WithPatience(context.Background(), 0.25)
	_ = policy.Do(emergency, func(context.Context) error { return fmt.Errorf("busy") })
	// Output:
	// retry 2ms
	// give up 0s
}
