package presets_test

import (
	"fmt"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/presets"
)

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
			budget.Done(ticket, backoff.Result{Outcome: backoff.OutcomeTransient})
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

// It knows no limit until the service throttles.
func ExampleNewAWSRate() {
	rate := presets.NewAWSRate()
	outage(rate, 10, 1000)
	ticket, _, _ := rate.Reserve(backoff.Attempt{Number: 1})
	rate.Done(ticket, backoff.Result{Outcome: backoff.OutcomeThrottled})
	_, first, _ := rate.Reserve(backoff.Attempt{Number: 1})
	_, second, _ := rate.Reserve(backoff.Attempt{Number: 1})
	fmt.Println("each waits for the one before:", second > first)
	// Output:
	// 1000 of 1000
	// each waits for the one before: true
}

// Calls pay when they begin, also in an outage, or when they succeed.
func ExampleFinagleBudget() {
	for _, bySuccess := range []bool{false, true} {
		budget := presets.NewFinagleBudget()
		budget.PaidBySuccess = bySuccess
		for range 100 { // that all fail
			ticket, _, _ := budget.Reserve(backoff.Attempt{Number: 1})
			budget.Done(ticket, backoff.Result{Outcome: backoff.OutcomeTransient})
		}
		outage(budget, 0, 1000) // with a reserve of 10 a second for 10 s
	}
	// Output:
	// 120 of 1000
	// 100 of 1000
}

// It counts what is under way at the same time, so calls that fail at once meet
// no limit.
func ExampleEnvoyBudget() {
	budget := presets.NewEnvoyBudget()
	outage(budget, 0, 1000)
	granted := 0
	for range 1000 { // none of which ends
		if _, _, ok := budget.Reserve(backoff.Attempt{Number: 2}); ok {
			granted++
		}
	}
	fmt.Println(granted)
	// Output:
	// 1000 of 1000
	// 3
}

func ExampleGRPCThrottling() {
	outage(presets.NewGRPCThrottling(), 1000, 1000) // until half of the 10 tokens are lost
	// Output: 5 of 1000
}

func ExampleSREBudget() {
	budget := presets.NewSREBudget()
	outage(budget, 1000, 1000)
	fmt.Println(budget.Stats())
	// Output:
	// 100 of 1000
	// 1000 100
}

func ExampleDotNetBudget() {
	outage(presets.NewDotNetBudget(), 1000, 1000)
	// Output: 100 of 1000
}

func ExampleKubernetesBudget() {
	outage(presets.NewKubernetesBudget(), 1000, 1000) // 20 % of all requests, retries among them
	// Output: 250 of 1000
}
