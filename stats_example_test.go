package backoff_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gobackoff/backoff"
)

func ExampleBreakerStats() {
	breaker := &backoff.Breaker{TripIf: func(s backoff.BreakerStats) bool {
		return s.Failures > 2 && s.Successes == 0
	}}
	for range 3 {
		_ = breaker.Do(context.Background(), func(context.Context) error { return errDown })
	}
	stats := breaker.Stats()
	fmt.Println(stats.State, stats.Openings, stats.RetryAfter > 0)
	// Output: open 1 true
}

func ExampleState() {
	breaker := new(backoff.Breaker)
	before := breaker.State()
	breaker.Trip()
	fmt.Println(before, breaker.State())
	// Output: closed open
}

func ExampleMode() {
	breaker := new(backoff.Breaker)
	breaker.Force(backoff.ModeForcedOpen) // a switch for maintenance
	err := breaker.Do(context.Background(), func(context.Context) error { return nil })
	fmt.Println(breaker.Stats().Mode, errors.Is(err, backoff.ErrOpen))
	// Output: forced open true
}

func ExampleTransition() {
	breaker := &backoff.Breaker{Name: "search", Observer: func(_ context.Context, e backoff.Event) {
		if t := e.Transition; t != nil {
			fmt.Println(e.Name, t.From, t.To, t.Trigger)
		}
	}}
	breaker.Trip()
	breaker.Reset()
	// Output:
	// search closed open manual
	// search open closed manual
}

// A breaker that an operator opened is not one that found a service to be down.
func ExampleTrigger() {
	alarming := func(why backoff.Trigger) bool { return why != backoff.TriggerManual && why != backoff.TriggerTime }
	fmt.Println(alarming(backoff.TriggerRate), alarming(backoff.TriggerManual))
	// Output: true false
}

func ExampleOpenError() {
	breaker := &backoff.Breaker{Name: "search", OpenFor: backoff.Constant(time.Minute), ConsecutiveFailures: 1, ConsecutiveSpan: -1}
	_ = breaker.Do(context.Background(), func(context.Context) error { return errDown })

	err := breaker.Do(context.Background(), func(context.Context) error { return nil })
	if open, ok := errors.AsType[*backoff.OpenError](err); ok {
		fmt.Println(open.Name, open.State, open.Last, open.RetryAfter() > 30*time.Second)
	}
	// Output: search open down true
}

func ExampleHedgeStats() {
	hedge := new(backoff.Hedge)
	for range 100 {
		_, _ = backoff.HedgeValue(context.Background(), hedge, func(context.Context) (int, error) { return 1, nil }, nil)
	}
	stats := hedge.Stats()
	fmt.Printf("%d calls, extra load %.0f %%\n", stats.Calls, 100*float64(stats.Hedges)/float64(stats.Calls))
	// Output: 100 calls, extra load 0 %
}

func ExampleRetryBudgetStats() {
	budget := new(backoff.RetryBudget)
	policy := backoff.Policy{Budget: budget, Schedule: backoff.Constant(0)}
	for range 100 {
		_ = policy.Do(context.Background(), func(context.Context) error { return nil })
	}
	_ = policy.Do(context.Background(), func(context.Context) error { return errDown })
	stats := budget.Stats()
	fmt.Println(stats.Retries, "of", stats.Allowed)
	// Output: 3 of 15
}
