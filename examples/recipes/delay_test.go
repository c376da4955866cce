package recipes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/synctest"
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

// The wait is the longer one of two, and nothing is added.
func TestAWaitIsExactlyTheLongerOfTwo(t *testing.T) {
	exact := backoff.Policy{Name: "ask", Jitter: backoff.NoJitter, Rand: func() float64 { return 0 }}

	for asked, want := range map[time.Duration][]time.Duration{
		300 * time.Millisecond: {300 * time.Millisecond, 300 * time.Millisecond, 400 * time.Millisecond},
		0:                      {100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond},
		time.Minute:            {time.Minute, time.Minute, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			var waits []time.Duration
			last := time.Now()
			exact.Do(t.Context(), func(context.Context) error {
				waits, last = append(waits, time.Since(last)), time.Now()
				return backoff.RetryAfter(errBusy, asked)
			})
			if !slices.Equal(waits[1:], want) {
				t.Errorf("asked for %v: %v, want %v", asked, waits[1:], want)
			}
		})
	}
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
