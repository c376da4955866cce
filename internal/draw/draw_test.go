package draw_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/draw"
)

func TestUnitTakesWhatAGeneratorDraws(t *testing.T) {
	for drawn, want := range map[float64]float64{
		0: 0, 0.25: 0.25, draw.Largest: draw.Largest,
		1: draw.Largest, 7: draw.Largest, math.Inf(1): draw.Largest,
		-0.5: 0, math.Inf(-1): 0, math.NaN(): 0,
	} {
		require.InDelta(t, want, draw.Unit(func() float64 { return drawn }), 0, "%v", drawn)
	}
}

func TestUnitDrawsByItselfWithoutAGenerator(t *testing.T) {
	sum := 0.0
	for range 10_000 {
		u := draw.Unit(nil)
		require.True(t, u >= 0 && u < 1, "%v", u)
		sum += u
	}
	require.InDelta(t, 5000, sum, 200)
}

func TestLargestIsJustBelowOne(t *testing.T) {
	require.Equal(t, 1.0, math.Nextafter(draw.Largest, 2))
}
