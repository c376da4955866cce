package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"regexp"
	"testing"

	"github.com/gobackoff/backoff"
)

var lines = []string{
	`by status: requests 1, error: Not Found`,
	`by mark: requests 1, error: check licence: licence expired`,
	`by classifier: requests 1, error: Internal Server Error`,
	`nested: requests 4, error: backoff: read: gave up after 4 attempts: Service Unavailable`,
}

func TestNothingIsRetriedInVain(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		if !regexp.MustCompile(`(?m)^` + line + `$`).Match(out.Bytes()) {
			t.Errorf("no line %s in\n%s", line, &out)
		}
	}
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

func TestTheMarkDoesNotHideTheError(t *testing.T) {
	plain := errors.New("no such account")
	err := policy.Do(t.Context(), func(context.Context) error { return backoff.Permanent(plain) })
	if !errors.Is(err, plain) || err.Error() != plain.Error() {
		t.Errorf("got %v, want %v", err, plain)
	}
}
