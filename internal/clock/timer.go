package clock

import (
	"sync"
	"time"
)

// timers are reused, because a new one costs three allocations and more time
// than the rest of a retry.
var timers sync.Pool

// Monotonic reports whether now has a monotonic reading. A timer belongs to the
// bubble of testing/synctest that made it, and must not leave the bubble. The
// clock of a bubble has no monotonic reading.
//
//go:noinline
func Monotonic(now *time.Time) bool { return *now != now.Round(0) }

// NewTimer returns a timer that fires after d, see [Wait]. It takes a used one if reuse is
// true, which is right only where [Monotonic] is.
func NewTimer(d time.Duration, reuse bool) *time.Timer {
	d = Wait(d)
	if reuse {
		if timer, ok := timers.Get().(*time.Timer); ok {
			timer.Reset(d)
			return timer
		}
	}
	return time.NewTimer(d)
}

// PutTimer keeps a timer that has fired for the next NewTimer.
func PutTimer(timer *time.Timer) { timers.Put(timer) }
