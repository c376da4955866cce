package recipes

import (
	"context"
	"fmt"
	"io"

	"github.com/gobackoff/backoff"
)

// The operation fails twice. The loop logs in its own words, and the observer
// logs the waits.
func Example_loop() {
	ctx, calls := context.Background(), 0
	load := func(context.Context) (string, error) {
		if calls++; calls < 3 {
			return "", io.ErrUnexpectedEOF
		}
		return "seven", nil
	}
	observe := func(_ context.Context, e backoff.Event) {
		if e.Kind == backoff.EventRetry {
			fmt.Println("again in", e.Wait)
		}
	}
	policy := backoff.Policy{Name: "load", Observer: observe}
	policy.Jitter = backoff.NoJitter // so that the output below is always the same

	find := func() (string, error) {
		r := policy.Start(ctx)
		for ctx := range r.Attempts() {
			v, err := load(ctx)
			if err == nil {
				return v, nil // leaving the loop without Fail means success
			}
			fmt.Printf("attempt %d: %v\n", r.Attempt(), err)
			r.Fail(err) // at the end of its body the loop waits, or ends as Do would
		}
		return "", r.Err()
	}

	fmt.Println(find())
	// Output:
	// attempt 1: unexpected EOF
	// again in 100ms
	// attempt 2: unexpected EOF
	// again in 200ms
	// seven <nil>
}
