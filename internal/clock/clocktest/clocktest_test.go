package clocktest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/clock/clocktest"
)

func TestSetChangesTheTimeOfDayAlone(t *testing.T) {
	now := time.Now()
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		set := clocktest.Set(now, step)
		require.Equal(t, now.Unix()+int64(step/time.Second), set.Unix())
		require.Zero(t, set.Sub(now), "the monotonic readings are the same")
	}
	wall := now.Round(0)
	require.Equal(t, wall, clocktest.Set(wall, time.Hour), "without a monotonic reading nothing changes")
}
