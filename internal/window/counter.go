package window

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// A Counter is a number that many processors add to at the same time. It is a
// single word until two processors meet there. After that it is one cell per
// processor, each in a cache line of its own. Finding the right cell costs
// three times as much as adding to it, and fighting over one word costs more
// than both. The zero value is ready for use. A Counter must not be copied.
type Counter struct {
	word  atomic.Uint64 // the count until the split, and the bit split
	cells atomic.Pointer[[]cell]
}

// cell is the count of one processor.
type cell struct {
	n atomic.Uint64
	_ [56]byte // to the end of the cache line
}

// split is the bit of a Counter's word that is set once there are cells.
const split = 1 << 63

// Add counts one. It takes no lock. It allocates once, when two processors meet
// for the first time.
func (c *Counter) Add() {
	if !c.TryAdd() {
		c.addToCell()
	}
}

// TryAdd counts one if no other processor counts at the same time, and reports
// whether it did. If it did not, the caller calls Add. TryAdd is the part of
// Add that is small enough to be inlined.
func (c *Counter) TryAdd() bool {
	n := c.word.Load()
	return n < split && c.word.CompareAndSwap(n, n+1)
}

// Split makes the cells. Add does this itself when two processors meet.
func (c *Counter) Split() *[]cell {
	size := 1
	for size < runtime.GOMAXPROCS(0) {
		size *= 2
	}
	cells := make([]cell, size)
	c.cells.CompareAndSwap(nil, &cells)
	c.word.Or(split)
	return c.cells.Load()
}

// addToCell counts one in the cell of the processor that runs it.
func (c *Counter) addToCell() {
	cells := c.cells.Load()
	if cells == nil {
		cells = c.Split()
	}
	p := places.Get().(*place)
	(*cells)[p.number&(len(*cells)-1)].n.Add(1)
	places.Put(p)
}

// Total returns the count so far. Of two calls, one after the other, the later
// one never returns less. Its result was exact at some moment during the call:
// it lies between the counts at the beginning and at the end, and the count
// takes every value in between.
func (c *Counter) Total() uint64 {
	sum := c.word.Load() &^ split
	if cells := c.cells.Load(); cells != nil {
		for i := range *cells {
			sum += (*cells)[i].n.Load()
		}
	}
	return sum
}

// place stands for a processor. A sync.Pool returns what was put back on the
// same processor, so a goroutine gets the place of the processor it runs on. If
// it gets another one, that costs time, but the count stays right.
type place struct{ number int }

var (
	lastPlace atomic.Int64
	places    = sync.Pool{New: func() any { return &place{number: int(lastPlace.Add(1))} }}
)
