package backoffslog

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Of goroutines that fail at once the first to look at the clock is seldom the
// first to write.
func TestACallerThatComesLateDoesNotBeginTheSecondAnew(t *testing.T) {
	s := sampler{report: func(sampleKey, slog.Level, uint64) {}}
	now, written := time.Now(), 0
	for i := range time.Duration(100) {
		if _, ok := s.allow(sampleKey{}, now.Add(-i*time.Microsecond), slog.LevelInfo, 1); ok {
			written++
		}
	}
	require.Equal(t, 1, written)
}
