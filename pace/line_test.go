package pace

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/nightly"
)

// A line against a model of it that keeps the numbers themselves.
func TestALineLosesNoTurnAndGivesNoneTwice(t *testing.T) {
	for seed := range nightly.Size[uint64](50, 200) {
		walkLine(t, rand.New(rand.NewPCG(seed, 1)), 0)
	}
}

func TestALineGoesOnWhenItsNumbersBeginAgain(t *testing.T) {
	for seed := range uint64(20) {
		walkLine(t, rand.New(rand.NewPCG(seed, 2)), 1<<numberBits-100)
	}
}

func walkLine(t *testing.T, r *rand.Rand, given uint64) {
	const perSecond = 5
	l := line{given: given}
	var waiting, turned []uint64 // the numbers of those who wait, and whose turn came
	earned := 0.                 // turns, of which none is saved beyond the first
	for range 500 {
		switch r.IntN(5) {
		case 0, 1:
			number := l.join(0, perSecond)
			require.NotContains(t, waiting, number)
			waiting = append(waiting, number)
		case 2:
			more := r.Float64() * 3
			l.turns, earned = l.turns+more, earned+more
			l.serve(perSecond)
		case 3: // leaves the line
			if n := len(waiting); n > 0 {
				i := r.IntN(n)
				l.leave(waiting[i], perSecond)
				waiting = slices.Delete(waiting, i, i+1)
			}
		case 4: // gives its turn back
			if n := len(turned); n > 0 {
				l.leave(turned[n-1], perSecond)
				turned, earned = turned[:n-1], earned+1
			}
		}
		for len(waiting) > 0 && l.position(waiting[0]) < 0 {
			turned, waiting = append(turned, waiting[0]), waiting[1:]
			earned--
		}
		require.Equal(t, len(waiting), l.waiting())
		require.GreaterOrEqual(t, earned, -1e-9, "more turns than there were")
		if len(waiting) > 0 {
			require.Less(t, l.turns, 1., "a turn that nobody gets")
			require.InDelta(t, earned, l.turns, 1e-9, "turns are lost")
		} else {
			earned = min(earned, saved(perSecond))
		}
		for i, number := range waiting {
			require.GreaterOrEqual(t, l.position(number), i, "nobody overtakes")
		}
	}
}

func TestANumberThatWasNeverGivenHasNoPlace(t *testing.T) {
	l := line{given: 10, arrived: make([]time.Duration, 3)}
	for _, number := range []uint64{11, 1 << 31, 1 << 32, 1<<32 + 9, 1<<numberBits - 1} {
		require.Negative(t, l.position(number), "%d", number)
	}
	require.Equal(t, 2, l.position(10))
}
