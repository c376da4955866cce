package recipes

import (
	"context"
	"fmt"
	"io"

	"github.com/gobackoff/backoff"
)

// The operation fails twice, so the policy makes three attempts.
func Example_first() {
	ctx := context.Background()
	attempts := 0
	save := func(context.Context) error {
		if attempts++; attempts < 3 {
			return io.ErrUnexpectedEOF // the connection broke
		}
		return nil
	}

	policy := backoff.Policy{Name: "save"}

	err := policy.Do(ctx, func(ctx context.Context) error {
		return save(ctx)
	})

	fmt.Println(attempts, "attempts:", err)
	// Output: 3 attempts: <nil>
}
