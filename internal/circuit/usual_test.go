package circuit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/clock/clocktest"
)

// A machine that was suspended has its time of day ahead of what the monotonic clock says,
// and one that was set back has it behind.
func TestWhatAServiceUsuallyTakesIsNotMovedByAClockThatIsSet(t *testing.T) {
	for _, step := range []time.Duration{0, time.Second, 8 * time.Hour, -time.Hour} {
		var u Usual
		now := time.Now()
		u.Learn(10*time.Millisecond, now)
		require.True(t, u.takes(15*time.Millisecond, clocktest.Set(now.Add(5*time.Millisecond), step)), "another call was answered meanwhile: %v", step)
		require.False(t, u.takes(15*time.Millisecond, clocktest.Set(now.Add(time.Minute), step)), "none was: %v", step)
	}
}
