package plug_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/plug"
)

// codeError is an error with a code.
type codeError int

func (codeError) Error() string { return "failed" }

func TestOnCodeClassifiesAnyComparableCode(t *testing.T) {
	status := func(err error) int {
		var s codeError
		errors.As(err, &s)
		return int(s)
	}
	classify := plug.OnCode(status, 502, 503)
	for code, want := range map[int]backoff.Class{502: backoff.ClassRetryable, 503: backoff.ClassRetryable, 500: backoff.ClassPermanent, 0: backoff.ClassPermanent} {
		require.Equal(t, want, classify(fmt.Errorf("op: %w", codeError(code))), "%d", code)
	}
	require.Equal(t, backoff.ClassPermanent, classify(nil), "though its code is the zero one")
	require.Equal(t, backoff.ClassPermanent, plug.OnCode(status, 0)(nil))
	require.Equal(t, backoff.ClassPermanent, plug.OnCode(status)(codeError(503)), "no codes, no retries")
}

// slice is an error that cannot be compared.
type slice []error

func (slice) Error() string   { return "several" }
func (s slice) Unwrap() error { return s[0] }

func TestDefinitiveErrorsEndACallAndAllOthersAreLeftToTheDefault(t *testing.T) {
	tooLarge, cyclic := errors.New("too large"), make(slice, 1)
	cyclic[0] = cyclic
	classify := plug.Definitive(nil, cyclic, tooLarge, codeError(400))
	for _, err := range []error{tooLarge, fmt.Errorf("send: %w", tooLarge), errors.Join(errors.New("x"), nil, codeError(400))} {
		require.Equal(t, backoff.ClassPermanent, classify(err))
	}
	for _, err := range []error{nil, errors.New("too large"), codeError(401), cyclic} {
		require.Equal(t, backoff.ClassUnknown, classify(err))
	}
	require.False(t, backoff.Policy{Classify: classify}.Retryable(nil))
}

// With gRPC this is OnCode(status.Code, codes.Unavailable, codes.Aborted).
func ExampleOnCode() {
	type code int
	codeOf := func(err error) (c code) { _, _ = fmt.Sscanf(err.Error(), "code %d", &c); return c }
	classify := plug.OnCode(codeOf, 14, 10)
	fmt.Println(classify(errors.New("code 14")), classify(errors.New("code 3")))
	// Output: retryable permanent
}
