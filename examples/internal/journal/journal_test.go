package journal

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
)

func TestEveryEventIsALineAndTheSumIsThatOfTheEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := New(&out)
		policy := backoff.Policy{
			MaxAttempts: 3,
			Schedule:    backoff.Constant(2 * time.Second),
			Rand:        func() float64 { return 0.5 },
			Observer:    log.Observe,
		}
		failing := func(context.Context) error {
			time.Sleep(250 * time.Millisecond)
			return errors.New("no luck")
		}
		_ = policy.Do(t.Context(), failing)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		policy.Classify = func(error) backoff.Class { time.Sleep(300 * time.Millisecond); return backoff.ClassRetryable }
		_ = policy.Do(ctx, failing)
		log.Sum()
		want := ` 0.250s  attempt 1 of 3 failed: no luck (unknown); again in 1s
 1.500s  attempt 2 of 3 failed: no luck (unknown); again in 1s
 2.750s  attempt 3 of 3 failed: no luck (unknown); gave up: attempts
 3.300s  attempt 1 of 3 failed: no luck (retryable); gave up: deadline
 3.300s  in all: 4 attempts in 3.3s, with waits of 2s
`
		if out.String() != want {
			t.Errorf("got\n%s\nwant\n%s", &out, want)
		}
	})
}

func TestACallThatEndsInItsWaitMadeNoOtherAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := New(&out)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		policy := backoff.Policy{Schedule: backoff.Constant(time.Minute), Jitter: backoff.NoJitter, Observer: log.Observe}
		_ = policy.Do(ctx, func(context.Context) error { return errors.New("no luck") })
		log.Sum()
		want := ` 0.000s  attempt 1 of 4 failed: no luck (unknown); again in 1m0s
 1.000s  no attempt 2, gave up: canceled
 1.000s  in all: 1 attempt in 1s, with waits of 1s
`
		if out.String() != want {
			t.Errorf("got\n%s\nwant\n%s", &out, want)
		}
	})
}

func TestNormalTakesOutWhatDiffersFromRunToRun(t *testing.T) {
	got := Normal(" 0.103s  dial 127.0.0.1:4222 (retryable); again in 36ms\n12.345s  in all: 3 attempts in 1m0.2s, with waits of 0s\na wait of 1s\n")
	want := "dial HOST (retryable); again in TIME\nin all: 3 attempts in TIME, with waits of TIME\na wait of 1s\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
