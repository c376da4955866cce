package draw_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/draw"
)

// largest is the number just below 1.
var largest = math.Nextafter(1, 0)

func TestUnitTakesWhatAGeneratorDraws(t *testing.T) {
	for drawn, want := range map[float64]float64{
		0: 0, 0.25: 0.25, largest: largest,
		1: largest, 7: largest, math.Inf(1): largest,
		-0.5: 0, math.Inf(-1): 0, math.NaN(): 0,
	} {
		require.InDelta(t, want, draw.Unit(func() float64 { return drawn }), 0, "%v", drawn)
		require.InDelta(t, want, draw.Clamp(drawn), 0, "%v", drawn)
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
