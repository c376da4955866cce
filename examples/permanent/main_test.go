package main

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/examples/internal/journal/journaltest"
)

const want = `permanent by its status, 404:
attempt 1 of 4 failed: Not Found (permanent); gave up: permanent
    requests: 1, error: Not Found
permanent by a mark of the operation:
attempt 1 of 4 failed: check licence: licence expired (permanent); gave up: permanent
    requests: 1, error: check licence: licence expired
permanent by a classifier that retries only 503:
attempt 1 of 4 failed: Internal Server Error (permanent); gave up: permanent
    requests: 1, error: Internal Server Error
given up by an inner policy, and permanent for the outer one:
attempt 1 of 4 failed: Service Unavailable (retryable); again in TIME
attempt 2 of 4 failed: Service Unavailable (retryable); again in TIME
attempt 3 of 4 failed: Service Unavailable (retryable); again in TIME
attempt 4 of 4 failed: Service Unavailable (retryable); gave up: attempts
    requests: 4, error: backoff: read: gave up after 4 attempts: Service Unavailable
in all: 7 attempts in TIME, with waits of TIME
`

func TestNothingIsRetriedInVain(t *testing.T) {
	journaltest.Prints(t, run, want)
}

// Each of the three policies makes up to four attempts. If they multiplied
// there would be 64.
func TestNestedPoliciesDoNotMultiply(t *testing.T) {
	attempts := 0
	call := policy.Wrap(policy.Wrap(policy.Wrap(func(context.Context) error {
		attempts++
		return io.ErrUnexpectedEOF
	})))
	err := call(t.Context())
	if attempts != 4 || !errors.Is(err, backoff.ErrExhausted) || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%d attempts and %v, want 4 attempts and both errors", attempts, err)
	}
}
