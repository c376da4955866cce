package presets_test

import (
	"fmt"
	"time"

	"github.com/gobackoff/backoff/presets"
)

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

func ExampleCollectorRetry() {
	_, err := presets.CollectorRetry{
		Enabled:         true,
		InitialInterval: 5 * time.Second,
		Multiplier:      0.5,
		MaxInterval:     30 * time.Second,
	}.Policy()
	fmt.Println(err)
	// Output:
	// backoff: presets.CollectorRetry.Multiplier is 0.5, want 0 (for no growth) or at least 1
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
