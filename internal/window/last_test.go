package window

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLastAgreesWithAList compares with a list of all outcomes.
func TestLastAgreesWithAList(t *testing.T) {
	type outcome struct{ bad, other bool }
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 0))
		size := 1 + random.IntN(150)
		l := NewLast(size)
		var all []outcome
		total := uint64(0)
		for range 300 {
			switch random.IntN(4) {
			case 0:
				l.Bad()
				all = append(all, outcome{bad: true})
			case 1:
				l.Bad()
				l.Other()
				all = append(all, outcome{bad: true, other: true})
			case 2:
				n := uint64(random.IntN(40))
				total += n
				require.Equal(t, n, l.Advance(total))
				all = append(all, make([]outcome, n)...)
			case 3:
				total++
				l.Advance(total)
				l.Other()
				all = append(all, outcome{other: true})
			}
			good, bad, other := uint64(0), uint64(0), uint64(0)
			for _, o := range all[max(0, len(all)-size):] {
				good, bad, other = good+one(!o.bad), bad+one(o.bad), other+one(o.other)
			}
			require.Equal(t, []uint64{good, bad, other}, []uint64{l.Count(Good), l.Count(Bad), l.Count(Other)}, "seed %d", seed)
			require.Equal(t, len(all) >= size, l.Full())
		}
	}
}

func one(yes bool) uint64 {
	if yes {
		return 1
	}
	return 0
}

func TestLastTakesInMoreThanItHolds(t *testing.T) {
	l := NewLast(100)
	l.Bad()
	require.EqualValues(t, 1_000_000, l.Advance(1_000_000))
	require.Zero(t, l.Advance(5), "a total that is smaller is none")
	require.EqualValues(t, 100, l.Count(Good))
	require.Zero(t, l.Count(Bad))
}
