package recipes

import (
	"context"
	"errors"
	"fmt"
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
