package backoff_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gobackoff/backoff"
)

func ExampleBreaker() {
	breaker := &backoff.Breaker{Name: "search"}
	search := backoff.Stack(breaker, &backoff.Policy{Name: "search", MaxAttempts: 1})

	down := errors.New("connection refused")
	for range 30 {
		_ = search.Do(context.Background(), func(context.Context) error { return down })
	}

	err := search.Do(context.Background(), func(context.Context) error {
		fmt.Println("not reached")
		return nil
	})
	fmt.Println(breaker.State(), errors.Is(err, backoff.ErrOpen), errors.Is(err, down))
	// Output: open true true
}

// A breaker on trial: it goes through its states and tells, but refuses nothing.
func ExampleBreaker_Force() {
	breaker := &backoff.Breaker{
		Name: "search",
		Observer: func(_ context.Context, e backoff.Event) {
			if t := e.Transition; t != nil {
				fmt.Printf("%s: %v -> %v (%v)\n", t.Name, t.From, t.To, t.Trigger)
			}
		},
	}
	breaker.Force(backoff.ModeObserve)

	calls := 0
	for range 30 {
		_ = breaker.Do(context.Background(), func(context.Context) error { calls++; return errors.New("down") })
	}
	fmt.Println(calls, "calls")
	// Output:
	// search: closed -> open (rate)
	// 30 calls
}

// Allow is for callers that cannot give their call away as a function.
func ExampleBreaker_Allow() {
	breaker := &backoff.Breaker{Name: "search"}

	send := func() error {
		done, err := breaker.Allow()
		if err != nil {
			return err
		}
		err = errors.New("connection refused") // the call
		done(err)
		return err
	}

	fmt.Println(send())
	breaker.Trip()
	var open *backoff.OpenError
	if errors.As(send(), &open) {
		fmt.Println(open.Name, "is", open.State, "for some", open.RetryAfter().Round(5*time.Second))
	}
	// Output:
	// connection refused
	// search is open for some 5s
}

func ExampleBreakers() {
	hosts := backoff.Breakers{New: func(host string) *backoff.Breaker {
		return &backoff.Breaker{Name: host, OpenFor: backoff.Linear{Initial: 30 * time.Second, Max: 5 * time.Minute}}
	}}
	hosts.For("a.example").Trip()

	for _, host := range []string{"a.example", "b.example"} {
		err := hosts.For(host).Do(context.Background(), func(context.Context) error { return nil })
		fmt.Println(host, hosts.For(host).State(), errors.Is(err, backoff.ErrOpen))
	}
	// Output:
	// a.example open true
	// b.example closed false
}
