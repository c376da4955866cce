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
	reusable := monotonic(&now)
	timer := timerFor(d, reusable)
	select {
	case <-timer.C:
		if reusable {
			timers.Put(timer)
		}
		return true
	case <-done:
		timer.Stop()
		return false
	}
}

// monotonic reports whether now has a monotonic reading. A timer belongs to the bubble of
// testing/synctest it was made in, and must not leave it; bubbles are known by their
// clock, which has none.
//
//go:noinline
func monotonic(now *time.Time) bool { return *now != now.Round(0) }

func timerFor(d time.Duration, reusable bool) *time.Timer {
	if reusable {
		if timer, ok := timers.Get().(*time.Timer); ok {
			timer.Reset(d)
			return timer
		}
	}
	return time.NewTimer(d)
}
