package recipes

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/gobackoff/backoff"
)

// Each of the first three attempts fails: the one at the second replica for a
// reason that would be permanent if there were no other replica.
func Example_replicas() {
	ctx, tried := context.Background(), []string{}
	read := func(_ context.Context, replica string) (string, error) {
		switch tried = append(tried, replica); len(tried) {
		case 1, 3:
			return "", io.ErrUnexpectedEOF
		case 2:
			return "", context.Canceled
		}
		return "seven", nil
	}
	replicas := []string{"a", "b"}

	policy := backoff.Policy{
		Name:           "read",
		MaxAttempts:    6,
		AttemptTimeout: 300 * time.Millisecond,
		// The other replica at once, and a wait after both have failed.
		Schedule: backoff.Sequence(0, 100*time.Millisecond, 0, 200*time.Millisecond, 0),
		Classify: func(error) backoff.Class { return backoff.ClassRetryable }, // what one replica says is not permanent
	}
	attempts := 0
	value, err := backoff.DoValue(ctx, policy, func(ctx context.Context) (string, error) {
		replica := replicas[attempts%len(replicas)]
		attempts++
		return read(ctx, replica)
	})

	fmt.Println(value, err, tried)
	// Output: seven <nil> [a b a b]
}
