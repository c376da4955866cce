package backoff_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gobackoff/backoff"
)

// maintenance is a [backoff.Shared] that operators write: services, and for how
// long they are down. The one of package fleet learns from the breakers of all
// processes instead.
type maintenance map[string]time.Duration

func (m maintenance) Consult(_ context.Context, name string, _ func()) backoff.SharedState {
	if d := m[name]; d > 0 {
		return backoff.SharedState{State: backoff.StateOpen, For: d, Err: errors.New("maintenance")}
	}
	return backoff.SharedState{}
}

func (maintenance) Probe(context.Context, string, time.Duration) backoff.SharedState {
	return backoff.SharedState{}
}

func (maintenance) Opened(string, time.Duration, int) {}
func (maintenance) Closed(string)                     {}

func ExampleShared() {
	breaker := &backoff.Breaker{Name: "billing", Shared: maintenance{"billing": time.Minute}}
	err := breaker.Do(context.Background(), func(context.Context) error {
		fmt.Println("not reached")
		return nil
	})
	fmt.Println(errors.Is(err, backoff.ErrOpen))
	// Output: true
}

// The zero value says nothing about a service: the breaker goes by what it
// sees.
func ExampleSharedState() {
	fleet := maintenance{"billing": time.Minute}
	for _, name := range []string{"billing", "search"} {
		state := fleet.Consult(context.Background(), name, func() {})
		fmt.Println(name, state.State, state.For, state.Err)
	}
	// Output:
	// billing open 1m0s maintenance
	// search closed 0s <nil>
}
