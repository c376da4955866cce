package presets_test

import (
	"fmt"

	"github.com/gobackoff/backoff/presets"
)

// Istio's usual retryOn, for a policy of one's own.
func ExampleEnvoyRetryOn() {
	classify, err := presets.EnvoyRetryOn("5xx,reset,connect-failure")
	if err != nil {
		fmt.Println(err)
		return
	}
	policy := presets.Istio()
	policy.Classify = classify
	fmt.Println(policy.Retryable(answered{code: 500}), policy.Retryable(answered{code: 429}))
	// Output: true false
}

func ExampleCloudStorageStatus() {
	classify := presets.CloudStorageStatus()
	for _, code := range []int{429, 501, 503} {
		fmt.Println(code, classify(answered{code: code}))
	}
	// Output:
	// 429 throttled
	// 501 permanent
	// 503 retryable
}

func ExampleCloudStorageOperations() {
	table := presets.CloudStorageOperations()
	fmt.Println(table["POST /storage/v1/b"])
	fmt.Println(table["DELETE /storage/v1/b/{bucket}/o/{object}"])
	fmt.Println(table["DELETE /storage/v1/b/{bucket}/o/{object}/acl/{entity}"])
	// Output:
	// always
	// ?ifGenerationMatch, ?generation
	// never
}
