package backoff_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gobackoff/backoff"
)

// maintenance is what operators know of services, as a [backoff.Shared] of
// one's own. Those of package fleet learn from the breakers of all processes
// instead.
type maintenance map[string]time.Duration

func (m maintenance) Consult(_ context.Context, q backoff.SharedQuery) backoff.SharedHint {
	if d := m[q.Name]; d > 0 && q.State == backoff.StateClosed {
		return backoff.SharedHint{State: backoff.StateOpen, For: d, Err: errors.New("maintenance")}
	}
	return backoff.SharedHint{}
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

func ExampleSharedHint() {
	hint := maintenance{"billing": time.Minute}.Consult(context.Background(), backoff.SharedQuery{Name: "billing"})
	fmt.Println(hint.State, hint.For, hint.Err)
	// Output: open 1m0s maintenance
}

// Of a service that nobody knows anything of, the zero hint: the breaker goes
// by what it sees.
func ExampleSharedQuery() {
	query := backoff.SharedQuery{Name: "search", State: backoff.StateClosed}
	fmt.Println(maintenance{}.Consult(context.Background(), query) == backoff.SharedHint{})
	// Output: true
}
