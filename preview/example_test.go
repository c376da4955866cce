package preview_test

import (
	"fmt"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/preview"
)

func ExampleOf() {
	policy := backoff.Policy{MaxAttempts: 3, Jitter: backoff.NoJitter, AttemptTimeout: time.Second}
	view := preview.Of(policy, 0)
	fmt.Println(view.Waits[0].Max, view.Waits[1].Max, view.Mean, view.Worst)
	// Output: 100ms 200ms 300ms 3.3s
}

func ExampleForClass() {
	policy := backoff.Policy{
		MaxAttempts: 2,
		ByClass: map[backoff.Class]backoff.ClassLimits{
			backoff.ClassThrottled: {MaxAttempts: 4, Schedule: backoff.Exponential{Initial: time.Second}},
		},
		Jitter: backoff.NoJitter,
	}
	for _, class := range []backoff.Class{backoff.ClassRetryable, backoff.ClassThrottled} {
		view := preview.Of(preview.ForClass(policy, class), 0)
		fmt.Println(class, len(view.Waits), "retries within", view.Worst)
	}
	// Output:
	// retryable 1 retries within 100ms
	// throttled 3 retries within 7s
}

func ExamplePreview() {
	policy := backoff.Policy{Jitter: backoff.EqualJitter}
	for _, w := range preview.Of(policy, 3).Waits {
		fmt.Println(w.Min, w.Mean.Round(time.Millisecond), w.Max.Round(time.Millisecond))
	}
	// Output:
	// 50ms 75ms 100ms
	// 100ms 150ms 200ms
	// 200ms 300ms 400ms
}

func ExampleWait() {
	w := preview.Of(backoff.Policy{}, 1).Waits[0]
	fmt.Println(w.Delay, w.Min, w.Mean)
	// Output: 100ms 0s 50ms
}
