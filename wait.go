package backoff

import (
	"sync"
	"time"
)

// timers are reused, because a new one costs three allocations and more time than
// the rest of a retry.
var timers sync.Pool

// pause sleeps for d, or until done is closed, and reports which. now is a recent
// reading of the clock.
func pause(done <-chan struct{}, d time.Duration, now time.Time) bool {
	// A timer belongs to the bubble of testing/synctest it was made in, and must not
	// leave it. Bubbles are known by their clock, which has no monotonic reading.
	reusable := now != now.Round(0)
	timer := timerFor(d, reusable)
	select {
	case <-timer.C:
		if reusable {
			timers.Put(timer)
		}
		return true
	case <-done:
		// Not put back: after a mass cancellation the pool would hold them all.
		timer.Stop()
		return false
	}
}

func timerFor(d time.Duration, reusable bool) *time.Timer {
	if reusable {
		if timer, ok := timers.Get().(*time.Timer); ok {
			timer.Reset(d)
			return timer
		}
	}
	return time.NewTimer(d)
}
