package line

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// answers lets a flow have an answer every 10 ms for a time, while so many calls wait that
// have a minute.
func (f *flow) answers(now *time.Time, length int, d time.Duration) {
	for range d / (10 * time.Millisecond) {
		*now = now.Add(10 * time.Millisecond)
		f.grow(*now, length, time.Minute)
	}
}

// The service may take longer than before, and so need more calls in flight to answer
// as many in a second.
func TestTheNumberInFlightDoublesWhileTheLineBecomesNoShorter(t *testing.T) {
	now, f := time.Now(), flow{takes: 50 * time.Millisecond}
	f.learn(1)
	f.restart(now, 100)
	for _, want := range []int{2, 4, 8, 16} {
		f.answers(&now, 100, leastLook)
		require.Equal(t, want, f.limit)
	}
}

func TestTheNumberInFlightStaysWhileTheLineBecomesShorter(t *testing.T) {
	now, f := time.Now(), flow{takes: 50 * time.Millisecond}
	f.learn(1)
	f.restart(now, 100)
	for length := 99; length > 0; length -= 5 {
		f.answers(&now, length, leastLook)
		require.Equal(t, 2, f.limit)
	}
}

// Twenty looks are five more than what the calls have.
func TestTheNumberInFlightDoublesIfTheLineBecomesShorterTooSlowly(t *testing.T) {
	now, f := time.Now(), flow{takes: 50 * time.Millisecond}
	f.learn(1)
	f.restart(now, 100)
	now = now.Add(leastLook)
	f.limit = f.bound()
	f.grow(now, 95, 21*leastLook)
	require.Equal(t, 2, f.bound())
	f.limit = f.bound()
	now = now.Add(leastLook)
	f.grow(now, 90, 15*leastLook)
	require.Equal(t, 4, f.bound())
}

func TestAfterAFailureTheNumberInFlightStaysWhileTheLineBecomesShorter(t *testing.T) {
	now, f := time.Now(), flow{takes: 50 * time.Millisecond, failed: true}
	f.learn(1)
	f.restart(now, 100)
	for length := 99; length > 80; length-- {
		f.limit = f.bound()
		now = now.Add(leastLook)
		f.grow(now, length, time.Second)
		require.Equal(t, 2, f.bound())
	}
	f.answers(&now, 81, 2*longLook)
	require.Equal(t, 4, f.bound(), "the line becomes no shorter")
	f.grow(now, 0, time.Second)
	require.False(t, f.failed)
}

// The service has no more room.
func TestTheNumberInFlightStaysWhereCallsTakeLongerWithMore(t *testing.T) {
	now, f := time.Now(), flow{takes: 50 * time.Millisecond}
	f.learn(1)
	f.restart(now, 100)
	f.answers(&now, 100, 2*leastLook)
	require.Equal(t, 4, f.limit)
	f.takes *= mostSlower
	f.answers(&now, 100, 10*leastLook)
	require.Equal(t, 8, f.bound())
}

func TestAFailureLeavesWhatTheLineHasFoundOut(t *testing.T) {
	now, f := time.Now(), flow{takes: 50 * time.Millisecond, inFlight: 100}
	f.learn(1)
	f.restart(now, 100)
	f.answers(&now, 100, 4*leastLook)
	f.shrink()
	require.Equal(t, 16, f.limit)
	f.restart(now, 100)
	require.Equal(t, 2, f.bound(), "the next outage")
}

func TestTheNumberInFlightStaysWithinBoundsHoweverLongTheLineIs(t *testing.T) {
	for _, usual := range []float64{0, 1} {
		now, f := time.Now(), flow{takes: 50 * time.Millisecond}
		f.learn(usual)
		f.restart(now, 100)
		f.answers(&now, 100, 200*leastLook)
		f.learn(1)
		require.Positive(t, f.bound())
		require.Greater(t, f.limit, 100)
	}
}
