package backoffpostgres

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAStoreNeedsADatabase(t *testing.T) {
	_, err := New(nil)
	require.ErrorContains(t, err, "db is nil")
}

func TestNamesFitIntoTextAndStayDifferent(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"a", "a\x00", `a\0`, `a\`, `a\\`, "ключ", "a\xff"} {
		got := text(name)
		require.NotContains(t, got, "\x00")
		require.Empty(t, seen[got], "%q and %q are the same", name, seen[got])
		seen[got] = name
	}
}

func TestDurationsAreRoundedUpToMicroseconds(t *testing.T) {
	for d, want := range map[time.Duration]int64{-time.Second: -1e6, 0: 0, 1: 1, time.Microsecond: 1, 1001: 2, math.MaxInt64: math.MaxInt64/1000 + 1} {
		require.Equal(t, want, interval(d).Microseconds, "%d", d)
	}
	require.Equal(t, 1500*time.Microsecond, duration(0.0015))
	require.Equal(t, time.Microsecond, duration(0.0000001))
	require.Zero(t, duration(0))
}

func TestNumbersFitIntoFourBytes(t *testing.T) {
	require.EqualValues(t, math.MaxInt32, small(math.MaxInt))
	require.EqualValues(t, math.MinInt32, small(math.MinInt))
	require.EqualValues(t, 7, small(7))
}
