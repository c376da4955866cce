package window

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// sharing returns pairs of addresses that have the same cell among n.
func sharing(n int) (pairs [][2]address) {
	for a := address(1); a < 700; a++ {
		for b := address(1); b < a; b++ {
			if a.cell(n) == b.cell(n) {
				pairs = append(pairs, [2]address{a, b})
			}
		}
	}
	return pairs
}

func TestGoroutinesThatMeetPart(t *testing.T) {
	together := 0
	for _, n := range []int{4, 8, 256, 1024} {
		moves := 0
		pairs := sharing(n)
		for _, p := range pairs {
			if p[0].shuffle() == p[1].shuffle() {
				together++
			}
			for this := 0; p[0].cell(n) == p[1].cell(n); this++ {
				require.Less(t, this, 100, "%v among %d", p, n)
				p[0].move()
				moves++
			}
		}
		require.Less(t, moves, 2*len(pairs), "mostly with one move")
	}
	require.Positive(t, together, "also of those that move together")
}

// A stack begins at a multiple of its size.
func TestCellsAreUsedEvenly(t *testing.T) {
	for size := address(1); size <= 1<<12; size *= 2 {
		used := make([]int, 8)
		for i := range address(800) {
			used[(0xc000000000>>11+i*size).cell(len(used))]++
		}
		for _, n := range used {
			require.InDelta(t, 100, n, 50, "stacks of %d KiB: %v", 2*size, used)
		}
	}
}

func TestAddressIsThatOfTheGoroutine(t *testing.T) {
	mine := make(chan address)
	go func() {
		mine <- here()
		<-mine // it keeps its stack until then
	}()
	require.NotEqual(t, here(), <-mine)
	mine <- 0
}
