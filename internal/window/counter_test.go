package window

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCounterCountsFromManyGoroutines(t *testing.T) {
	const goroutines, each = 8, 10_000
	var c Counter
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

func TestCounterKeepsCountWhenItSplits(t *testing.T) {
	var c Counter
	require.Zero(t, c.Total())
	for range 10 {
		c.Add()
	}
	require.Nil(t, c.cells.Load(), "one word as long as nobody else is there")

	c.addToCell() // as after a compare-and-swap that failed
	require.EqualValues(t, 11, c.Total())
	require.GreaterOrEqual(t, len(*c.cells.Load()), runtime.GOMAXPROCS(0))

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
	require.Less(t, testing.AllocsPerRun(1000, c.Add), 0.1) // a collection may empty the pool
}
