package presets_test

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/presets"
)

func Example() {
	policy := presets.RetryableHTTP()
	policy.Name = "fetch"  // the fields are as of any policy
	policy.MaxAttempts = 3 // the original has 5

	for retry := 1; retry < policy.MaxAttempts; retry++ {
		fmt.Printf("retry %d after %v\n", retry, policy.WaitBefore(retry))
	}
	// Output:
	// retry 1 after 1s
	// retry 2 after 2s
}

func ExampleAll() {
	policy, ok := maps.Collect(presets.All())["sip-timer-e"]
	fmt.Println(ok, policy.MaxElapsed, policy.WaitBefore(4))
	// Output: true 32s 4s
}

// At the maximum no jitter is left: clients that failed together stay together.
func ExampleIoTCore() {
	policy := presets.IoTCore(32 * time.Second)
	policy.MaxAttempts = 9

	for retry := 6; retry <= 8; retry++ {
		fmt.Println(policy.WaitBefore(retry))
	}
	// Output:
	// 32s
	// 32s
	// 32s
}

// Several named configurations are several policies.
func ExampleGCloud() {
	nightly := presets.GCloud(2*time.Second, 3, 10, time.Minute)
	nightly.Name = "nightly"
	interactive := presets.GCloud(0, 0, 2, 0)
	interactive.Name = "interactive"

	for _, policy := range []backoff.Policy{nightly, interactive} {
		fmt.Println(policy.Name, policy.MaxAttempts, policy.Schedule.Delay(1), policy.Schedule.Delay(9))
	}
	// Output:
	// nightly 11 2s 1m0s
	// interactive 3 1s 32s
}

// Timer A does not stop at T2, whatever popular descriptions say.
func ExampleSIPTimerA() {
	invite, other := presets.SIPTimerA(0), presets.SIPTimerE(0, 0)
	for retry := 4; retry <= 6; retry++ {
		fmt.Println(invite.WaitBefore(retry), other.WaitBefore(retry))
	}
	// Output:
	// 4s 4s
	// 8s 4s
	// 16s 4s
}

// Each host has a breaker of its own.
func ExampleIstioOutlierDetection() {
	hosts := guard.Services{New: func(string) *guard.Service {
		return &guard.Service{Breaker: presets.IstioOutlierDetection()}
	}}
	err := hosts.For("10.0.0.1").Do(context.Background(), presets.Istio(), func(context.Context) error { return nil })
	fmt.Println(err)
	// Output: <nil>
}

// A value that is not set is 0, as in OpenTelemetry, and not the default of
// this library.
func ExampleOTLPRetry() {
	policy, err := presets.OTLPRetry{
		Enabled:         true,
		InitialInterval: 5 * time.Second,
		MaxInterval:     30 * time.Second,
		MaxElapsedTime:  time.Minute,
	}.Policy()
	fmt.Println(policy.MaxAttempts, policy.MaxElapsed, policy.Schedule.Delay(2), err)

	policy, err = presets.OTLPRetry{}.Policy() // not Enabled
	fmt.Println(policy.MaxAttempts, err)
	// Output:
	// -1 1m0s 7.5s <nil>
	// 1 <nil>
}

// The Collector does not start with this file.
func ExampleCollectorRetry() {
	_, err := presets.CollectorRetry{InitialInterval: 5 * time.Second, MaxElapsedTime: time.Second}.Policy()
	fmt.Println(err)
	// Output:
	// backoff: presets.CollectorRetry.MaxElapsedTime is 1s, want 0 (for no limit) or at least the longest interval, 5s
}

func ExampleCenkaltiBackoff() {
	policy, err := presets.CenkaltiBackoff{InitialInterval: 5 * time.Second, MaxElapsedTime: time.Second}.Policy()
	fmt.Println(policy.Schedule.Delay(1), policy.MaxElapsed, err)
	// Output:
	// 5s 1s <nil>
}

// Cap ends the loop. The delays would be 1 s, 2 s and 4 s. The last is above
// Cap, so no attempt follows the wait of 2 s, and there is no such wait here.
func ExampleKubernetesBackoff() {
	policy, err := presets.KubernetesBackoff{
		Duration: time.Second,
		Factor:   2,
		Jitter:   0.1,
		Steps:    10,
		Cap:      3 * time.Second,
	}.Policy()
	fmt.Println(policy.MaxAttempts, policy.Schedule.Delay(1), err)
	// Output: 2 1s <nil>
}

func ExampleAWSRetry() {
	for _, attempts := range []string{"", "0", "1", "-1", "many"} { // of os.Getenv("AWS_MAX_ATTEMPTS")
		policy, err := presets.AWSRetry{MaxAttempts: attempts}.Policy()
		fmt.Println(policy.MaxAttempts, err)
	}
	// Output:
	// 3 <nil>
	// 3 <nil>
	// 1 <nil>
	// -1 <nil>
	// 0 backoff: presets.AWSRetry.MaxAttempts is "many", want a whole number of at most 32 bits
}

// outage prints how many of so many retries a budget grants after so many calls
// have succeeded, when all at once nothing succeeds any more.
func outage(budget backoff.Budget, succeeded, retries int) {
	for range succeeded {
		ticket, _, _ := budget.Reserve(backoff.Attempt{Number: 1})
		budget.Done(ticket, backoff.Result{})
	}
	granted := 0
	for range retries {
		ticket, _, ok := budget.Reserve(backoff.Attempt{Number: 2, Class: backoff.ClassRetryable})
		if ok {
			granted++
			budget.Done(ticket, backoff.Result{Failed: true})
		}
	}
	fmt.Println(granted, "of", retries)
}

func ExampleAWSQuota() {
	outage(presets.NewAWSQuota(), 1000, 1000) // 500 tokens, whatever succeeded before
	outage(&presets.AWSQuota{Capacity: 30, Cost: 10}, 0, 1000)
	// Output:
	// 100 of 1000
	// 3 of 1000
}

func ExampleGRPCThrottling() {
	outage(presets.NewGRPCThrottling(), 1000, 1000) // until half of the 10 tokens are lost
	// Output: 5 of 1000
}
