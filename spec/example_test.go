package spec_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/spec"
)

func ExampleParse() {
	_, err := spec.Parse([]byte(`{
		"name": "fetch",
		"schedule": {"exponential": {"initial": "100ms", "multiplier": 0.5}}
	}`))
	fmt.Println(err)
	// Output:
	// backoff: spec: schedule.exponential.multiplier is 0.5, want 0 (for 2) or at least 1
}

// A service loads the file that the simulator was run with, and adds what is
// code.
func ExampleSpec() {
	file := []byte(`{
		"name": "fetch",
		"maxAttempts": 3,
		"schedule": {"exponential": {"initial": "1ms", "max": "1s"}},
		"jitter": "equal",
		"budget": {"retry": {"ratio": 0.1}},
		"breaker": {"consecutiveFailures": 10}
	}`)
	s, err := spec.Parse(file)
	if err != nil {
		fmt.Println(err)
		return
	}
	policy, breaker := s.Policy(), s.Breaker()
	policy.Observer = func(_ context.Context, e backoff.Event) { fmt.Println(e.Kind, e.Attempt) }
	service := backoff.Stack(breaker, &policy)

	calls := 0
	err = service.Do(context.Background(), func(context.Context) error {
		if calls++; calls < 3 {
			return errors.New("busy")
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// retry 1
	// retry 2
	// success 3
	// <nil>
}

func ExampleSpec_Budget() {
	s, _ := spec.Parse([]byte(`{"budget": {"all": [{"retry": {}}, {"concurrency": {"max": 20}}]}}`))
	toHost := backoff.Budgets{New: func(string) backoff.Budget { return s.Budget() }}
	policy := s.Policy()
	policy.Budget = toHost.For("example.com")
	fmt.Println(policy.Validate())
	// Output:
	// <nil>
}

func ExampleSpec_MarshalJSON() {
	s, _ := spec.Parse([]byte(`{"maxAttempts": 0, "attemptTimeout": "1500ms", "maxRetryAfter": -1}`))
	text, _ := json.Marshal(s)
	fmt.Println(string(text))
	// Output:
	// {"attemptTimeout":"1.5s","maxRetryAfter":-1}
}
