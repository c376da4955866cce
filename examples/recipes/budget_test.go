package recipes

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/gobackoff/backoff"
)

// Both services call a database that is down. The first call may use all of its
// attempts, and then the budget is used up for both.
func Example_budget() {
	ctx := context.Background()
	attempts := 0
	call := func(context.Context) error {
		attempts++
		return io.ErrUnexpectedEOF
	}

	budget := &backoff.RetryBudget{}
	orders := backoff.Policy{Name: "orders", Budget: budget}
	users := backoff.Policy{Name: "users", Budget: budget}

	err := orders.Do(ctx, call)
	fmt.Println(attempts, "attempts; exhausted:", errors.Is(err, backoff.ErrExhausted))
	attempts = 0
	err = users.Do(ctx, call)
	fmt.Println(attempts, "attempts; budget refused:", errors.Is(err, backoff.ErrBudget))
	// Output:
	// 4 attempts; exhausted: true
	// 1 attempts; budget refused: true
}
