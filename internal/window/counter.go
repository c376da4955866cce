package window

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// A Counter is a number that many processors add to at once. It is one word until two
// of them meet there, and then a cache line for each: a word of one's own costs a third
// of what it costs to find out which one that is, and a shared one that is fought over
// costs more than both. The zero value is ready; it must not be copied.
type Counter struct {
	alone atomic.Uint64 // and whether it is alone no more
	cells atomic.Pointer[[]cell]
}

type cell struct {
	n atomic.Uint64
	_ [56]byte // to the end of the cache line
}

// split is the bit of a Counter's one word that says to leave it alone.
const split = 1 << 63

// Add counts one. It takes no lock, and allocates once, when it is first contended.
func (c *Counter) Add() {
	if !c.TryAdd() {
		c.local()
	}
}

// TryAdd counts one if there is nobody else, and reports whether it did. Where it did
// not, Add does. It is the part of Add that is small enough to be inlined.
func (c *Counter) TryAdd() bool {
	n := c.alone.Load()
	return n < split && c.alone.CompareAndSwap(n, n+1)
}

// Split makes the cells, as it happens by itself when two processors meet.
func (c *Counter) Split() *[]cell {
	size := 1
	for size < runtime.GOMAXPROCS(0) {
		size *= 2
	}
	cells := make([]cell, size)
	c.cells.CompareAndSwap(nil, &cells)
	c.alone.Or(split)
	return c.cells.Load()
}

// local counts one in the cell of the processor it runs on.
func (c *Counter) local() {
	cells := c.cells.Load()
	if cells == nil {
		cells = c.Split()
	}
	p := places.Get().(*place)
	(*cells)[p.number&(len(*cells)-1)].n.Add(1)
	places.Put(p)
}

// Total returns how many were counted so far. Of two calls one after the other, the
// later is never smaller, and at some moment during the call it was exact: the sum of
// what is read lies between the sums at its beginning and at its end, and on the way
// from one to the other the number takes every value.
func (c *Counter) Total() uint64 {
	sum := c.alone.Load() &^ split
	if cells := c.cells.Load(); cells != nil {
		for i := range *cells {
			sum += (*cells)[i].n.Load()
		}
	}
	return sum
}

// A place stands for a processor. A sync.Pool keeps what was put back where it was put,
// so a goroutine gets the place of the processor it runs on; that it sometimes gets
// another costs time, not correctness.
type place struct{ number int }

var (
	lastPlace atomic.Int64
	places    = sync.Pool{New: func() any { return &place{number: int(lastPlace.Add(1))} }}
)
