package window

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestCounterCountsFromManyGoroutines(t *testing.T) {
	const goroutines, each = 8, 10_000
	for _, apart := range []bool{false, true} {
		var c Counter
		if apart {
			c.Split()
		}
		var group sync.WaitGroup
		for range goroutines {
			group.Go(func() {
				for range each {
					c.Add()
				}
			})
		}
		group.Wait()
		require.EqualValues(t, goroutines*each, c.Total())
	}
}

// Of two processors that have seen the same count, one counts in the cell, and
// the other one elsewhere.
func TestProcessorsThatMeetInACellDoNotStay(t *testing.T) {
	var c Counter
	cells := *c.Split()
	for _, p := range sharing(len(cells)) {
		for p[0].cell(len(cells)) == p[1].cell(len(cells)) {
			cell := &cells[p[0].cell(len(cells))]
			n, moved := cell.n.Load(), p[1].shuffle().Load()
			require.True(t, cell.tryAdd(n, p[0]))
			require.Equal(t, moved, p[1].shuffle().Load())
			require.False(t, cell.tryAdd(n, p[1]))
			require.NotEqual(t, moved, p[1].shuffle().Load())
			require.Equal(t, n+1, cell.n.Load(), "it counts when it has moved")
		}
	}
}

func TestCounterKeepsCountWhenItSplits(t *testing.T) {
	var c Counter
	require.Zero(t, c.Total())
	for range 10 {
		c.Add()
	}
	require.Nil(t, c.cells.Load(), "one word as long as nobody else is there")

	c.AddApart() // as after a compare-and-swap that failed
	require.EqualValues(t, 11, c.Total())
	require.Len(t, *c.cells.Load(), 4*runtime.GOMAXPROCS(0))
	require.Zero(t, unsafe.Sizeof(cell{})%64, "two cells are never in one cache line")

	c.Split() // two at once
	c.Add()
	require.EqualValues(t, 12, c.Total())
	require.EqualValues(t, 10, c.word.Load()&^split, "left alone from then on")
}

func TestCounterNeverRunsBackwards(t *testing.T) {
	var c Counter
	stop := make(chan struct{})
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					c.Add()
				}
			}
		})
	}
	for last := uint64(0); last < 20_000; {
		now := c.Total()
		require.GreaterOrEqual(t, now, last)
		last = now
		runtime.Gosched()
	}
	close(stop)
	group.Wait()
}

func TestCounterDoesNotAllocate(t *testing.T) {
	var c Counter
	require.Zero(t, testing.AllocsPerRun(100, c.Add))
	c.Split()
	require.Zero(t, testing.AllocsPerRun(1000, c.Add))
}

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

func TestTallyKnowsWhenItWasFirstUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tally Tally
		require.Zero(t, tally.Total())
		require.True(t, tally.Born().IsZero())

		time.Sleep(time.Minute)
		first := time.Now()
		tally.Add()
		time.Sleep(time.Minute)
		tally.Add()
		require.Equal(t, first, tally.Born())
		require.EqualValues(t, 2, tally.Total())
	})
}

func TestTallyDoesNotAllocateButAtFirst(t *testing.T) {
	var tally Tally
	tally.Add()
	require.Zero(t, testing.AllocsPerRun(100, tally.Add))
}

func TestTallyTellsAGoroutineWhereItCounts(t *testing.T) {
	var tally Tally
	for _, apart := range []bool{false, true} {
		if apart {
			tally.Split()
		}
		before := tally.Here()
		for n := range uint64(10) {
			require.Equal(t, before+n, tally.Here())
			tally.Add()
		}
	}
	require.EqualValues(t, 20, tally.Total())
}
