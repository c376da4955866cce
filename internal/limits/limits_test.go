package limits

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestZeroIsTheStandardAndANegativeNumberStays(t *testing.T) {
	require.Equal(t, 7, Or(0, 7))
	require.Equal(t, 3, Or(3, 7))
	require.Equal(t, -1, Or(-1, 7))
	require.Equal(t, int64(7), Or[int64](0, 7))
	require.Equal(t, time.Second, Or(0, time.Second))
	require.Equal(t, time.Duration(-1), Or(-1, time.Second))
	require.Equal(t, 0.5, Or(0, 0.5))
}
