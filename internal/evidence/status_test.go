package evidence

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStatus(t *testing.T) {
	for code, want := range map[int]Class{
		-1: Unknown, 0: Unknown, 200: Unknown, 399: Unknown, 600: Unknown, 999: Unknown,
		400: Permanent, 404: Permanent, 409: Permanent, 499: Permanent, 501: Permanent, 505: Permanent, 511: Permanent,
		408: Retryable, 425: Retryable, 500: Retryable, 502: Retryable, 503: Retryable, 504: Retryable, 599: Retryable,
		429: Throttled,
	} {
		require.Equal(t, want, Status(code), "%d", code)
	}
}
