package window

import (
	"runtime"
	"sync/atomic"
)

// A Counter is a number that many processors add to at the same time. It is a
// single word until two processors meet there. After that it has four cells per
// processor, each in a cache line of its own: 512 bytes on two processors, and
// 16 KiB on 64. A goroutine finds its cell by its address, which costs a fifth
// of adding to it. If two processors meet in a cell, one of them moves to
// another one. The zero value is ready for use. A Counter must not be copied.
type Counter struct {
	word  atomic.Uint64 // the count until the split, and the bit split
	cells atomic.Pointer[[]cell]
}

// cell is a part of the count.
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
		c.AddApart()
	}
}

// TryAdd counts one if no other processor counts at the same time, and reports
// whether it did. If it did not, the caller calls AddApart. TryAdd is the part
// of Add that is small enough to be inlined.
func (c *Counter) TryAdd() bool {
	n := c.word.Load()
	return n < split && c.word.CompareAndSwap(n, n+1)
}

// Split makes the cells. Add does this itself when two processors meet.
func (c *Counter) Split() *[]cell {
	cells := make([]cell, 4*runtime.GOMAXPROCS(0))
	c.cells.CompareAndSwap(nil, &cells)
	c.word.Or(split)
	return c.cells.Load()
}

// AddApart counts one in the cell of the goroutine that calls it, after another
// processor counted at the same time.
func (c *Counter) AddApart() {
	cells := c.cells.Load()
	if cells == nil {
		cells = c.Split()
	}
	for a := here(); ; {
		cell := &(*cells)[a.cell(len(*cells))]
		if cell.tryAdd(cell.n.Load(), a) {
			return
		}
	}
}

// tryAdd counts one if the cell still holds n. If it does not, another
// processor counts there at the same time, and the goroutine at a moves.
func (c *cell) tryAdd(n uint64, a address) bool {
	if c.n.CompareAndSwap(n, n+1) {
		return true
	}
	a.move()
	return false
}

// Here returns what the goroutine that calls it has added to: all of the count,
// or its cell. It costs much less than Total.
func (c *Counter) Here() uint64 {
	if n := c.word.Load(); n < split {
		return n
	}
	cells := *c.cells.Load()
	return cells[here().cell(len(cells))].n.Load()
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
