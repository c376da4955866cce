package spec_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
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

// A program loads the file that the simulator was run with, and adds what is
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
	service, policy, err := s.Service()
	if err != nil {
		fmt.Println(err)
		return
	}
	policy.Observer = func(_ context.Context, e backoff.Event) { fmt.Println(e.Kind, e.Attempt) }

	calls := 0
	err = service.Do(context.Background(), policy, func(context.Context) error {
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

// Each host has a budget and a breaker of its own.
func ExampleSpec_Service_perHost() {
	s, _ := spec.Parse([]byte(`{"budget": {"all": [{"retry": {}}, {"concurrency": {"max": 20}}]}, "breaker": {}}`))
	_, policy, err := s.Service()
	if err != nil {
		fmt.Println(err)
		return
	}
	hosts := guard.Services{New: func(host string) *guard.Service {
		service, its, _ := s.Service() // no error, since there was none above
		service.Name, service.Budget, service.NoBudget = host, its.Budget, false
		return service
	}}
	policy.Budget = nil // or it would go before that of the host
	err = hosts.For("example.com").Do(context.Background(), policy, func(context.Context) error { return nil })
	fmt.Println(err)
	// Output:
	// <nil>
}

// The program may be started with -retry '{"maxAttempts": 5}'.
func ExampleSpec_UnmarshalText() {
	var s spec.Spec
	flags := flag.NewFlagSet("program", flag.ContinueOnError)
	flags.TextVar(&s, "retry", s, "the policy, as `JSON`")

	_, err := s.Policy()
	fmt.Println(err)
	err = flags.Parse([]string{"-retry", `{"maxAttempts": 5}`})
	fmt.Println(err)
	policy, err := s.Policy()
	fmt.Println(policy.MaxAttempts, err)
	// Output:
	// backoff: spec: no policy was decoded; write {} for the defaults
	// <nil>
	// 5 <nil>
}

func ExampleSpec_Service() {
	s, _ := spec.Parse([]byte(`{"maxAttempts": 2, "breaker": {"consecutiveFailures": 10}}`))
	_, err := s.Policy()
	fmt.Println(err)
	service, policy, err := s.Service()
	if err != nil {
		fmt.Println(err)
		return
	}
	err = service.Do(context.Background(), policy, func(context.Context) error { return nil })
	fmt.Println(err)
	// Output:
	// backoff: spec: this Spec has a breaker, which a Policy cannot hold: use Service
	// <nil>
}

func ExampleSpec_MarshalJSON() {
	s, _ := spec.Parse([]byte(`{"maxAttempts": 0, "attemptTimeout": "1500ms", "maxRetryAfter": -1}`))
	text, _ := json.Marshal(s)
	fmt.Println(string(text))
	// Output:
	// {"attemptTimeout":"1.5s","maxRetryAfter":-1}
}
