package recipes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gobackoff/backoff"
)

var errBusy = errors.New("busy")

// The operation is busy at first. The policy would wait for 100 ms at most.
func Example_delay() {
	ctx := context.Background()
	attempts, began := 0, time.Now()
	ask := func(context.Context) error {
		if attempts++; attempts == 1 {
			return errBusy
		}
		return nil
	}

	policy := backoff.Policy{Name: "ask"}

	err := policy.Do(ctx, func(ctx context.Context) error {
		err := ask(ctx)
		if errors.Is(err, errBusy) {
			return backoff.RetryAfter(err, 300*time.Millisecond) // not before; later if the policy's own delay is longer
		}
		return err // after another error the policy's own wait
	})

	fmt.Println(err, "after 300ms:", time.Since(began) >= 300*time.Millisecond)
	// Output: <nil> after 300ms: true
}

// Decide says what a policy would do after an error.
func Example_delayByClass() {
	policy := backoff.Policy{
		ByClass: map[backoff.Class]backoff.ClassLimits{
			backoff.ClassThrottled: {Schedule: backoff.Constant(5 * time.Second), MaxAttempts: 10},
		},
	}

	policy.Jitter = backoff.NoJitter
	for _, err := range []error{io.ErrUnexpectedEOF, backoff.OfClass(errBusy, backoff.ClassThrottled)} {
		next := policy.Decide(1, err)
		fmt.Printf("%v: again in %v\n", next.Class, next.Wait)
	}
	// Output:
	// retryable: again in 100ms
	// throttled: again in 5s
}
