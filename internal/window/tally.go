// Package window counts recent events. It counts successes, which are nearly all
// events, without a lock and without reading the clock, and all others exactly.
package window

import (
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
)

// A Tally is a [Counter] that knows when its first count was made. The zero
// value is ready for use. A Tally must not be copied.
type Tally struct {
	Counter
	born atomic.Pointer[time.Time]
}

// Add counts one. It takes no lock. It allocates at first use, and when two
// processors meet for the first time.
func (t *Tally) Add() {
	n := t.word.Load()
	if n == 0 && t.born.Load() == nil { // before the first count
		now := clock.Now()
		t.born.CompareAndSwap(nil, &now)
	}
	if n >= split || !t.word.CompareAndSwap(n, n+1) {
		t.AddApart()
	}
}

// Born returns when the first count was made, or the zero time if there was
// none. It is the only count for which the clock is read.
func (t *Tally) Born() time.Time {
	if born := t.born.Load(); born != nil {
		return *born
	}
	return time.Time{}
}
