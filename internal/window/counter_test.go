package window

import (
	"runtime"
	"sync"
	"testing"
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
