// Package window counts what happened lately: successes without a lock or a clock,
// because they are nearly all there is to count, and the rest exactly.
package window

import (
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
)

// A Tally is a [Counter] that knows when it began. The zero value is ready; it must not
// be copied.
type Tally struct {
	counter Counter
	born    atomic.Pointer[time.Time]
}

// Add counts one. It takes no lock, and allocates only at first use and when it is
// first contended.
func (t *Tally) Add() {
	switch {
	case t.TryAdd():
	case t.counter.alone.Load() == 0:
		t.begin()
		t.counter.Add()
	default:
		t.counter.local()
	}
}

// TryAdd is Counter.TryAdd. The first one it leaves to Add.
func (t *Tally) TryAdd() bool {
	n := t.counter.alone.Load()
	return n-1 < split-1 && t.counter.alone.CompareAndSwap(n, n+1)
}

// begin is called before there is a count.
func (t *Tally) begin() {
	if t.born.Load() == nil {
		now := clock.Now()
		t.born.CompareAndSwap(nil, &now)
	}
}

// Born returns when the first count was made, the only one for which the clock is read;
// zero if there was none.
func (t *Tally) Born() time.Time {
	if born := t.born.Load(); born != nil {
		return *born
	}
	return time.Time{}
}

// Total returns how many were counted so far. Of two calls one after the other, the
// later is never smaller.
func (t *Tally) Total() uint64 { return t.counter.Total() }
