package shape_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/shape"
)

const (
	s       = time.Second
	forever = time.Duration(math.MaxInt64)
)

func TestTruncatedBoundsAnySchedule(t *testing.T) {
	unruly := backoff.ScheduleFunc(func(n int) time.Duration { return time.Duration(n-2) * time.Minute })
	for _, c := range []struct {
		schedule backoff.Schedule
		retry    int
		want     time.Duration
	}{
		{shape.Truncated(nil, s), 1, 100 * time.Millisecond},
		{shape.Truncated(nil, s), 5, s},
		{shape.Truncated(nil, 0), 1e6, 30 * s},
		{shape.Truncated(unruly, 0), 9, 30 * s},
		{shape.Truncated(unruly, -1), 9, 7 * time.Minute},
		{shape.Truncated(unruly, time.Hour), 1, 0},
		{shape.Truncated(shape.Truncated(backoff.Constant(time.Hour), s), time.Minute), 1, s},
		{shape.Truncated(nil, s), 0, 0},
	} {
		require.NoError(t, backoff.Policy{Schedule: c.schedule}.Validate())
		require.Equal(t, c.want, c.schedule.Delay(c.retry))
	}
	invalid := backoff.Policy{Schedule: shape.Truncated(backoff.Linear{Step: -2 * s}, s)}
	require.EqualError(t, invalid.Validate(), "backoff: Policy.Schedule: Linear.Step is -2s, want 0 or more")
}

func TestJittersMapTheDrawOntoTheirRange(t *testing.T) {
	for name, c := range map[string]struct {
		jitter            backoff.Jitter
		delay             time.Duration
		low, middle, high time.Duration
	}{
		"added":             {shape.Added(s), 10 * s, 10 * s, 10*s + s/2, 11*s - 1},
		"added, none":       {shape.Added(0), 10 * s, 10 * s, 10 * s, 10 * s},
		"added, saturating": {shape.Added(forever), forever, forever, forever, forever},
		"slotted":           {shape.Slotted(s), 4*s + s/2, 0, 2 * s, 4 * s},
		"none fits":         {shape.Slotted(s), s - 1, 0, 0, 0},
		"2^63 slots":        {shape.Slotted(1), forever, 0, forever/2 + 1, forever - 1023},
	} {
		require.NoError(t, backoff.Policy{Jitter: c.jitter}.Validate())
		require.InDelta(t, c.low, c.jitter(c.delay, 0, 0), 1, name)
		require.InDelta(t, c.middle, c.jitter(c.delay, 0, 0.5), 1, name)
		require.InDelta(t, c.high, c.jitter(c.delay, 0, 1-0x1p-53), 1, name)
	}
	for _, wrong := range []backoff.Jitter{shape.Added(-1), shape.Slotted(0), shape.Slotted(-1)} {
		require.ErrorContains(t, backoff.Policy{Jitter: wrong}.Validate(), "Policy.Jitter has impossible bounds")
	}
}

// Each of the 11 slots, both ends included, comes up as often: chi-square with 10
// degrees of freedom, at a significance of 0.1 %.
func TestSlottedDrawsAllSlotsAlike(t *testing.T) {
	const n, slot = 22_000, 51200 * time.Nanosecond
	jitter := shape.Slotted(slot)
	rng := rand.New(rand.NewPCG(5, 6))
	var counts [11]float64
	for range n {
		wait := jitter(10*slot+slot/2, 0, rng.Float64())
		require.Zero(t, wait%slot, "a wait between two slots")
		counts[wait/slot]++
	}
	chi2 := 0.0
	for _, c := range counts {
		chi2 += (c - n/11) * (c - n/11) / (n / 11)
	}
	require.Less(t, chi2, 29.59)
}
