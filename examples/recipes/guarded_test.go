package recipes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
)

var broker guard.Service // of github.com/gobackoff/backoff/guard, one for all calls to the broker, database or service

func sendOrder(ctx context.Context, order string) error {
	return broker.Do(ctx, backoff.Policy{Name: "orders"}, func(ctx context.Context) error { return produce(ctx, order) })
}

var produced int

// produce finds the broker down, but for the first order.
func produce(context.Context, string) error {
	if produced++; produced > 1 {
		return errors.New("no leader")
	}
	return nil
}

// While the broker is down, nothing is sent to it. These calls do not wait for it.
func Example_guarded() {
	ctx := guard.WithFailFast(context.Background())
	err := sendOrder(ctx, "tea")
	fmt.Println("tea:", err)
	for began := time.Now(); time.Since(began) < 10*time.Second && !errors.Is(err, backoff.ErrOpen); {
		err = sendOrder(ctx, "milk")
		time.Sleep(50 * time.Millisecond)
	}
	before := produced
	err = sendOrder(ctx, "coffee")
	fmt.Println("coffee:", errors.Is(err, backoff.ErrOpen), produced-before)
	// Output:
	// tea: <nil>
	// coffee: true 0
}
