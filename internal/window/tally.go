// Package window counts what happened lately: successes without a lock or a clock,
// because they are nearly all there is to count, and the rest exactly.
package window

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
)

// A Tally is a counter that many processors add to at once, each to a cache line of
// its own. The zero value is ready; it must not be copied.
type Tally struct {
	cells atomic.Pointer[cells]
}

type cells struct {
	born time.Time // before the first count
	each []cell
}

type cell struct {
	n atomic.Uint64
	_ [56]byte // to the end of the cache line
}

// Add counts one. It takes no lock, and allocates only at first use.
func (t *Tally) Add() {
	p := places.Get().(*place)
	if cells := t.cells.Load(); cells != nil {
		cells.each[p.number&(len(cells.each)-1)].n.Add(1)
	} else {
		t.first()
	}
	places.Put(p)
}

// first makes the cells and counts one.
func (t *Tally) first() {
	size := 1
	for size < runtime.GOMAXPROCS(0) {
		size *= 2
	}
	t.cells.CompareAndSwap(nil, &cells{born: clock.Now(), each: make([]cell, size)})
	t.cells.Load().each[0].n.Add(1)
}

// Born returns when the first count was made, the only one for which the clock is
// read; zero if there was none.
func (t *Tally) Born() time.Time {
	if cells := t.cells.Load(); cells != nil {
		return cells.born
	}
	return time.Time{}
}

// Total returns how many were counted so far. Of two calls one after the other, the
// later is never smaller.
func (t *Tally) Total() uint64 {
	cells := t.cells.Load()
	if cells == nil {
		return 0
	}
	var sum uint64
	for i := range cells.each {
		sum += cells.each[i].n.Load()
	}
	return sum
}

// A place stands for a processor. A sync.Pool keeps what was put back where it was
// put, so a goroutine gets the place of the processor it runs on; that it
// sometimes gets another costs time, not correctness.
type place struct{ number int }

var (
	lastPlace atomic.Int64
	places    = sync.Pool{New: func() any { return &place{number: int(lastPlace.Add(1))} }}
)
