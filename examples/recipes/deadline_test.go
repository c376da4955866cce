package recipes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gobackoff/backoff"
)

// The search hangs. Each attempt ends after half a second, and the call after
// two seconds.
func Example_deadline() {
	ctx := context.Background()
	search := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	began := time.Now()

	policy := backoff.Policy{Name: "search", AttemptTimeout: 500 * time.Millisecond} // of one attempt

	ctx, cancel := context.WithTimeout(ctx, 2*time.Second) // of all attempts and waits
	defer cancel()
	err := policy.Do(ctx, search)

	var gaveUp *backoff.Error
	switch {
	case err == nil:
		fmt.Println("found")
	case errors.As(err, &gaveUp) && gaveUp.ContextError() != nil:
		fmt.Println("not found in time")
	default:
		fmt.Println("failed:", backoff.Cause(err)) // the error of search itself
	}

	fmt.Println("too late:", time.Since(began) > 10*time.Second)
	// Output:
	// not found in time
	// too late: false
}
