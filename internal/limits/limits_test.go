package limits_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/limits"
)

func TestZeroMeansTheDefaultAndANegativeNumberStaysNoLimit(t *testing.T) {
	require.Equal(t, 4, limits.Or(0, 4))
	require.Equal(t, 7, limits.Or(7, 4))
	require.Equal(t, -1, limits.Or(-1, 4))
	require.Equal(t, int64(4), limits.Or(int64(0), 4))
	require.Equal(t, time.Second, limits.Or(0, time.Second))
	require.Equal(t, -time.Minute, limits.Or(-time.Minute, time.Second))
	require.Equal(t, 0.5, limits.Or(0, 0.5))
	require.Equal(t, -0.1, limits.Or(-0.1, 0.5))
}
