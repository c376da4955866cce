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
	// backoff: save: gave up after 3 attempts: budget refused (Policy.Budget): down
}

// The first hook refuses the wait of a second. The second one would not, but
// the context has no time for it.
func Example_hookWithTheError() {
	save := func(context.Context) error { return errors.New("down") }
	waits := backoff.Sequence(10*time.Millisecond, time.Second)
	policy := backoff.Policy{Name: "save", Schedule: waits, Jitter: backoff.NoJitter}

	saveWith := func(ctx context.Context, mayRetry func(retry int, wait time.Duration, err error) bool) error {
		run := policy.Start(ctx)
		for wait, ok := run.Admit(); ok && run.Begin(wait); {
			err := save(run.Context())
			wait, ok = run.Retry(err)
			if ok && !mayRetry(run.Attempt(), wait, err) {
				return err
			}
		}
		return run.Err() // and not ctx.Err(), which is nil if the call ended early
	}

	ctx := context.Background()
	fmt.Println(saveWith(ctx, func(_ int, wait time.Duration, err error) bool { return wait < time.Second }))
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	fmt.Println(saveWith(ctx, func(int, time.Duration, error) bool { return true }))
	// Output:
	// down
	// backoff: save: gave up after 2 attempts: the next wait would pass the deadline: down
}
