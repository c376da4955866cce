package evidence

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// internal/lab/plugtest asks about the real errors.
func TestLoopsAreKnownByTheirErrors(t *testing.T) {
	for of, want := range map[[2]string]said{
		{"github.com/aws/aws-sdk-go-v2/aws/retry", "MaxAttemptsError"}:       gaveUp,
		{"github.com/aws/aws-sdk-go-v2/aws/ratelimit", "QuotaExceededError"}: gaveUp,
		{"github.com/failsafe-go/failsafe-go/retrypolicy", "ExceededError"}:  gaveUp,
		{"github.com/cenkalti/backoff/v6", "RetryError"}:                     gaveUp,
		{"github.com/avast/retry-go/v4", "Error"}:                            gaveUp,
		{"github.com/avast/retry-go", "Error"}:                               gaveUp,
		{"k8s.io/apimachinery/pkg/util/wait", "errInterrupted"}:              gaveUp,
		{"github.com/cenkalti/backoff/v4", "PermanentError"}:                 final,
		{"github.com/cenkalti/backoff/v7", "permanent"}:                      final,
		{"github.com/avast/retry-go/v5", "unrecoverableError"}:               final,
	} {
		require.Equal(t, want, saidBy(of[0], of[1]), of)
		require.Equal(t, nothing, saidBy("example.com/"+of[0], of[1]), of)
		require.Equal(t, nothing, saidBy(of[0], "Another"), of)
	}
}

type slice []error

func (slice) Error() string { return "GET a giving up after 4 attempt(s)" }

func TestTheTextOfALoopCountsOnlyInErrorsThatHaveNoMore(t *testing.T) {
	text := errors.New("GET a giving up after 4 attempt(s)")
	require.True(t, GaveUp(text))
	require.True(t, GaveUp(fmt.Errorf("GET a giving up after 4 attempt(s): %w", errors.New("down"))))
	require.False(t, GaveUp(slice{text}))
	require.False(t, GaveUp(errors.Join(text)), "the branch says so, not the tree")
}
