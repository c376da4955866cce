package recipes

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/poll"
)

var errFailed = errors.New("the job failed")

var afterFailure = backoff.ClassLimits{
	Schedule:    backoff.Exponential{Initial: 2 * time.Second, Max: 20 * time.Second},
	MaxAttempts: -1, // failed calls in a row; the default is 4
}

var job = backoff.Policy{
	Name:           "job",
	Schedule:       backoff.Constant(2 * time.Second), // after "not yet"
	Jitter:         backoff.NoJitter,                  // else a wait is between 1 s and 2 s
	MaxElapsed:     time.Minute,
	AttemptTimeout: 10 * time.Second, // of a call, which MaxElapsed does not end
	ByClass: map[backoff.Class]backoff.ClassLimits{ // after a call that failed in any way
		backoff.ClassUnknown:   afterFailure,
		backoff.ClassNotSent:   afterFailure,
		backoff.ClassRetryable: afterFailure,
		backoff.ClassThrottled: afterFailure,
	},
}

// The looks after 4, 6 and 10 seconds fail, and the waits grow until one succeeds.
func TestAPollBacksOffOnlyWhileItFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, at := time.Now(), []time.Duration{}
		status := func(context.Context) (string, error) {
			at = append(at, time.Since(began))
			if n := len(at); 3 <= n && n <= 5 {
				return "", errors.New("no connection")
			} else if n == 8 {
				return "failed", nil
			}
			return "running", nil
		}
		ctx := t.Context()

		err := poll.Until(ctx, job, func(ctx context.Context) (done bool, err error) {
			s, err := status(ctx)
			if s == "failed" {
				return true, errFailed // ends the poll, and is its error
			}
			return s == "done", err
		})

		want := []time.Duration{0, 2, 4, 6, 10, 18, 20, 22}
		if err != errFailed || len(at) != len(want) {
			t.Fatal(err, at)
		}
		for i, seconds := range want {
			if at[i] != seconds*time.Second {
				t.Errorf("look %d after %v, want %d s", i+1, at[i], seconds)
			}
		}
	})
}
