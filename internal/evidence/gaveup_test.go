package evidence

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// internal/lab/plugtest asks about the real errors.
func TestLoopsAreKnownByTheirErrors(t *testing.T) {
	for _, of := range [][2]string{
		{"github.com/aws/aws-sdk-go-v2/aws/retry", "MaxAttemptsError"},
		{"github.com/aws/aws-sdk-go-v2/aws/ratelimit", "QuotaExceededError"},
		{"github.com/failsafe-go/failsafe-go/retrypolicy", "ExceededError"},
		{"github.com/cenkalti/backoff/v6", "RetryError"},
		{"github.com/avast/retry-go/v4", "Error"},
		{"github.com/avast/retry-go", "Error"},
		{"k8s.io/apimachinery/pkg/util/wait", "errInterrupted"},
	} {
		require.True(t, isEnd(of[0], of[1]), of)
		require.False(t, isEnd("example.com/"+of[0], of[1]), of)
		require.False(t, isEnd(of[0], "Another"), of)
		require.False(t, isMark(of[0], of[1]), of)
	}
	for _, of := range [][2]string{
		{"github.com/cenkalti/backoff/v4", "PermanentError"},
		{"github.com/cenkalti/backoff/v7", "permanent"},
		{"github.com/avast/retry-go/v5", "unrecoverableError"},
	} {
		require.True(t, isMark(of[0], of[1]), of)
		require.False(t, isMark("example.com/"+of[0], of[1]), of)
		require.False(t, isEnd(of[0], of[1]), of)
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
