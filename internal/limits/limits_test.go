package limits_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/limits"
)

func TestZeroMeansTheDefaultAndANegativeNumberStaysNoLimit(t *testing.T) {
	require.Equal(t, 4, limits.Or(0, 4))
	require.Equal(t, 7, limits.Or(7, 4))
	require.Equal(t, -1, limits.Or(-1, 4), "a negative number is for the caller to read")
	require.Equal(t, time.Second, limits.Or(0, time.Second))
	require.Equal(t, int64(9), limits.Or(int64(0), 9))
	require.InDelta(t, 0.5, limits.Or(0, 0.5), 0)
	require.Equal(t, 7, limits.OrMost(7, 4, 9))
	require.Equal(t, 4, limits.OrMost(0, 4, 9))
	require.Equal(t, 9, limits.OrMost(-1, 4, 9))
}

func TestAddSaturates(t *testing.T) {
	const most = time.Duration(math.MaxInt64)
	require.Equal(t, 3*time.Second, limits.Add(time.Second, 2*time.Second))
	require.Equal(t, most, limits.Add(most, 1))
	require.Equal(t, most, limits.Add(1, most))
	require.Equal(t, most, limits.Add(most, most))
	require.Equal(t, time.Duration(0), limits.Add(-1, 1))
}
