package limits_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/limits"
)

func TestAddSaturates(t *testing.T) {
	const most = time.Duration(math.MaxInt64)
	require.Equal(t, 3*time.Second, limits.Add(time.Second, 2*time.Second))
	require.Equal(t, most, limits.Add(most, 1))
	require.Equal(t, most, limits.Add(1, most))
	require.Equal(t, most, limits.Add(most, most))
	require.Zero(t, limits.Add(-1, 1))
}
