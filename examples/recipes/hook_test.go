package recipes

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
)

// A retryHook may refuse a retry. It is a Budget, so it joins with others.
type retryHook struct {
	backoff.BudgetDefaults
	allow func(retry int, wait time.Duration) bool
}

func (h retryHook) Reserve(a backoff.Attempt) (t backoff.Ticket, wait time.Duration, ok bool) {
	return t, 0, a.First() || h.allow(a.Number-1, a.Wait)
}

// onceAtLeast returns a policy for one call, which retries until limit, and once in
// any case.
func onceAtLeast(policy backoff.Policy, limit time.Duration) backoff.Policy {
	began := time.Now()
	policy.MaxAttempts = -1
	policy.Budget = retryHook{allow: func(retry int, wait time.Duration) bool {
		return retry == 1 || time.Since(began)+wait <= limit
	}}
	return policy
}

// MaxElapsed alone would end a call whose first attempt takes too long.
func TestASlowFirstAttemptIsFollowedByARetry(t *testing.T) {
	for took, want := range map[time.Duration]int{time.Minute: 2, 20 * time.Second: 2, 9 * time.Second: 4, time.Second: 16} {
		synctest.Test(t, func(t *testing.T) {
			attempts := 0
			policy := backoff.Policy{Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter}
			err := onceAtLeast(policy, 30*time.Second).Do(t.Context(), func(context.Context) error {
				attempts++
				time.Sleep(took)
				return errors.New("down")
			})
			if attempts != want || !errors.Is(err, backoff.ErrBudget) {
				t.Errorf("%d attempts of %v, want %d: %v", attempts, took, want, err)
			}
		})
	}
}

// The caller does not wait for a second.
func Example_hook() {
	ctx := context.Background()
	save := func(context.Context) error { return errors.New("down") }
	waits := backoff.Sequence(10*time.Millisecond, 20*time.Millisecond, time.Second)

	policy := backoff.Policy{Name: "save", Schedule: waits, Jitter: backoff.NoJitter}
	policy.Budget = retryHook{allow: func(retry int, wait time.Duration) bool {
		fmt.Println("retry", retry, "in", wait)
		return wait < time.Second
	}}

	fmt.Println(policy.Do(ctx, save))
	// Output:
	// retry 1 in 10ms
	// retry 2 in 20ms
	// retry 3 in 1s
	// backoff: save: gave up after 3 attempts: budget refused (Budget): down
}
