package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/fleet"
)

// Two of three processes find a service down, and the third one stops calling
// without having tried.
func ExampleClient() {
	ctx := context.Background()
	store := new(fleet.Memory) // in production, a redisstore.Store
	down := func(context.Context) error { return errors.New("connection refused") }

	for range 2 {
		hub := &fleet.Client{Store: store}
		breaker := backoff.Breaker{Name: "search", Shared: hub, ConsecutiveSpan: -1}
		for range 5 {
			_ = breaker.Do(ctx, down)
		}
		_ = hub.Flush(ctx)
	}

	third := backoff.Breaker{Name: "search", Shared: &fleet.Client{Store: store, Wait: time.Second}}
	err := third.Do(ctx, down)
	open, ok := errors.AsType[*backoff.OpenError](err)
	fmt.Println(ok && open.Last == fleet.ErrTripped)
	fmt.Println(err)
	// Output:
	// true
	// backoff: search: circuit open: fleet: other processes found the service down
}

// All processes share one retry in ten seconds. This process takes it, and gets
// no second one.
func ExampleBudget() {
	hub := &fleet.Client{Store: new(fleet.Memory)}
	policy := backoff.Policy{
		MaxAttempts: 10,
		Schedule:    backoff.Constant(20 * time.Millisecond),
		Jitter:      backoff.NoJitter,
		Budget: backoff.JoinBudgets(
			&backoff.RetryBudget{Floor: 10},
			&fleet.Budget{Client: hub, Name: "search", Allowance: 1, Block: 1},
		),
	}
	attempts := 0
	err := policy.Do(context.Background(), func(context.Context) error {
		attempts++
		return errors.New("connection refused")
	})
	fmt.Println(attempts, errors.Is(err, backoff.ErrBudget))
	// Output: 2 true
}

func ExampleServerless() {
	hub := fleet.Serverless(new(fleet.Memory))
	breaker := fleet.ServerlessBreaker("search", hub)

	// The whole life of a process:
	ctx := context.Background()
	err := backoff.Policy{Name: "search"}.Do(ctx, breaker.Wrap(func(context.Context) error { return nil }))
	_ = hub.Flush(ctx) // before it ends, or is frozen
	fmt.Println(err)
	// Output: <nil>
}

func ExampleMemory() {
	var store fleet.Memory
	ctx := context.Background()
	for _, process := range []string{"a", "b"} {
		c, _ := store.Trip(ctx, "search", fleet.Trip{By: process, Voter: process, Open: time.Minute, Quorum: 2})
		fmt.Println(c.State(), c.Generation)
	}
	// Output:
	// closed 0
	// open 1
}

func ExampleStore() {
	var store fleet.Store = new(fleet.Memory)
	ctx := context.Background()
	for _, process := range []string{"a", "b", "c"} {
		n, _ := store.Take(ctx, "search", fleet.Claim{Block: process, Tokens: 10, Allowance: 25, Window: 10 * time.Second})
		fmt.Println(process, n)
	}
	// Output:
	// a 10
	// b 10
	// c 5
}
