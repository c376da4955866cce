package window

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var dawn = time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)

func TestRingBeginsAtTheFirstLook(t *testing.T) {
	var r Ring
	r.Advance(dawn.Add(time.Hour), span, 100)
	require.EqualValues(t, 100, r.Least(Good))
}

func TestRingBeginsWhereItIsTold(t *testing.T) {
	var r Ring
	r.Start(time.Time{})
	r.Start(dawn)
	r.Start(dawn.Add(time.Hour))
	r.Advance(dawn.Add(100*time.Second), span, 1000)
	require.EqualValues(t, 100, r.Least(Good))
}

func TestRingGoesOnWhereTheClockGoesBack(t *testing.T) {
	var r Ring
	r.Start(dawn)
	r.Advance(dawn.Add(5*time.Second), span, 0)
	r.Add(Bad, 1)
	r.Advance(dawn.Add(-time.Hour), span, 7)
	require.EqualValues(t, 5, r.Bucket())
	require.EqualValues(t, 7, r.Least(Good))
	r.Advance(dawn.Add(-time.Hour).Add(9*time.Second), span, 7)
	require.EqualValues(t, 1, r.Least(Bad))
	r.Advance(dawn.Add(-time.Hour).Add(10*time.Second), span, 7)
	require.EqualValues(t, 0, r.Least(Bad))
}

func TestRingKnowsWhetherItNeedsToSlide(t *testing.T) {
	var r Ring
	r.Advance(dawn, span, 0)
	r.Advance(dawn.Add(1500*time.Millisecond), span, 0)
	for at, want := range map[time.Duration]bool{
		-time.Hour: false, 0: false, time.Second - 1: false, time.Second: true, 2*time.Second - 1: true, 2 * time.Second: false, time.Hour: false,
		1 << 62: false, -1 << 62: false,
	} {
		require.Equal(t, want, r.Within(dawn.Add(at), span), "at %v", at)
	}
	r.Advance(dawn.Add(-time.Hour), span, 0)
	require.True(t, r.Within(dawn.Add(-time.Hour), span), "where the clock goes back")
}
