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

	fmt.Println("deadline exceeded:", errors.Is(err, context.DeadlineExceeded))
	fmt.Println("too late:", time.Since(began) > 10*time.Second)
	// Output:
	// deadline exceeded: true
	// too late: false
}
