package presets_test

import (
	"fmt"
	"maps"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/presets"
)

func Example() {
	policy := presets.RetryableHTTP()
	policy.Name = "fetch"  // the fields are as of any policy
	policy.MaxAttempts = 3 // the original has 5

	for retry := 1; retry < policy.MaxAttempts; retry++ {
		fmt.Printf("retry %d after %v\n", retry, policy.Delay(retry))
	}
	// Output:
	// retry 1 after 1s
	// retry 2 after 2s
}

func ExampleAll() {
	policy, ok := maps.Collect(presets.All())["sip-timer-e"]
	fmt.Println(ok, policy.MaxElapsed, policy.Delay(4))
	// Output: true 32s 4s
}

// At the maximum no jitter is left: clients that failed together stay together.
func ExampleIoTCore() {
	policy := presets.IoTCore(32 * time.Second)

	for retry := 4; retry <= 7; retry++ {
		policy.Rand = func() float64 { return 0 }
		least := policy.Delay(retry)
		policy.Rand = func() float64 { return 1 }
		fmt.Println(least, "to", policy.Delay(retry).Round(time.Millisecond))
	}
	// Output:
	// 8s to 9s
	// 16s to 17s
	// 32s to 32s
	// 32s to 32s
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
		fmt.Println(invite.Delay(retry), other.Delay(retry))
	}
	// Output:
	// 4s 4s
	// 8s 4s
	// 16s 4s
}
