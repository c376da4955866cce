package poll_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/poll"
)

// A deployment is pending for a while.
func ExampleUntil() {
	deployment := backoff.Policy{
		Name:       "deployment",
		Schedule:   backoff.Constant(5 * time.Millisecond), // 5 s in earnest
		MaxElapsed: 10 * time.Minute,
	}
	answers := []string{"pending", "pending", "running"}
	err := poll.Until(context.Background(), deployment, func(context.Context) (done bool, err error) {
		status := answers[0]
		answers = answers[1:]
		fmt.Println("status:", status)
		return status == "running", nil
	})
	fmt.Println("error:", err)
	// Output:
	// status: pending
	// status: pending
	// status: running
	// error: <nil>
}

// The value is that of the last check, even if the poll failed.
func ExampleValue() {
	export := backoff.Policy{
		Name:       "export",
		Schedule:   backoff.Constant(10 * time.Millisecond),
		MaxElapsed: 5 * time.Millisecond,
	}
	percent := 0
	reached, err := poll.Value(context.Background(), export, func(context.Context) (int, bool, error) {
		percent += 20
		return percent, percent == 100, nil
	})
	fmt.Println("reached:", reached, "%")
	fmt.Println("took too long:", errors.Is(err, poll.ErrNotYet))
	fmt.Println(err)
	// Output:
	// reached: 40 %
	// took too long: true
	// backoff: export: gave up after 2 attempts: out of time (MaxElapsed): not yet
}

// A server said when to check again, as HTTP 202 with Retry-After does.
func ExampleErrNotYet() {
	job := backoff.Policy{Name: "job", Schedule: backoff.Constant(time.Millisecond), MaxElapsed: time.Second}
	checks := 0
	began := time.Now()
	err := poll.Until(context.Background(), job, func(context.Context) (done bool, err error) {
		if checks++; checks == 1 {
			return false, backoff.RetryAfter(poll.ErrNotYet, 50*time.Millisecond)
		}
		return true, nil
	})
	fmt.Println(checks, "checks, error:", err)
	fmt.Println("obeyed:", time.Since(began) >= 50*time.Millisecond)
	// Output:
	// 2 checks, error: <nil>
	// obeyed: true
}
