package recipes

import (
	"context"
	"fmt"
	"io"

	"github.com/gobackoff/backoff"
)

// The operation fails twice. The loop logs in its own words.
func Example_loop() {
	ctx, log, calls := context.Background(), fmt.Printf, 0
	load := func(context.Context) (string, error) {
		if calls++; calls < 3 {
			return "", io.ErrUnexpectedEOF
		}
		return "seven", nil
	}
	policy := backoff.Policy{Name: "load"}

	find := func() (string, error) {
		r := policy.Start(ctx)
		for ctx := range r.Attempts() {
			v, err := load(ctx)
			if err == nil {
				return v, nil // to leave the loop means success
			}
			log("attempt %d: %v\n", r.Attempt(), err)
			r.Fail(err) // at the end of its body the loop waits, or ends
		}
		return "", r.Err()
	}

	fmt.Println(find())
	// Output:
	// attempt 1: unexpected EOF
	// attempt 2: unexpected EOF
	// seven <nil>
}
