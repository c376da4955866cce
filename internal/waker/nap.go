package waker

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
)

// mostSpread is the longest time over which naps that are woken together end.
const mostSpread = time.Second

// Nap is nil until there is a context with a signal, so that programs without one need not
// link what it does: it begins the wait for a timer that was just set to fire after wait,
// of which sure must pass. If a signal of ctx is given, the timer fires within spread, at
// random. rise ends the wait, and reports whether it was woken. It is nil if ctx has no
// signal; otherwise the timer must not be used again.
var Nap atomic.Pointer[func(ctx context.Context, timer *time.Timer, wait, sure, spread time.Duration) (rise func() (woken bool))]

// A nap is a wait for a timer.
type nap struct {
	timer  *time.Timer
	fires  time.Time     // when the timer fires
	sure   time.Time     // before which it does not fire
	spread time.Duration // after a wake within which it fires, at random
	rise   func()

	mu          sync.Mutex
	woken, over bool
}

// begin is what Nap does.
func begin(ctx context.Context, timer *time.Timer, wait, sure, spread time.Duration) (rise func() (woken bool)) {
	if scopeOf(ctx) == nil {
		return nil
	}
	now := clock.Now()
	n := &nap{timer: timer, fires: now.Add(wait), sure: now.Add(sure), spread: min(spread, mostSpread)}
	n.rise = Sleep(ctx, n)
	return n.end
}

// Wake implements Sleeper.
func (n *nap) Wake() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.over || n.woken { // once is enough: many signals in a row would leave no spread
		return
	}
	n.woken = true
	now := clock.Now()
	left := max(time.Duration(rand.Float64()*float64(n.spread)), n.sure.Sub(now))
	if left < n.fires.Sub(now) {
		n.timer.Reset(left)
	}
}

// end ends the nap.
func (n *nap) end() (woken bool) {
	n.rise()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.over = true
	n.timer.Stop()
	return n.woken
}
