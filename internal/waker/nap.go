package waker

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
)

// mostSpread is the longest time over which naps that are woken together end.
const mostSpread = time.Second

// A Nap is a wait for a timer. If it is woken, its timer fires earlier.
type Nap struct {
	ctx    context.Context
	timer  *time.Timer
	end    time.Time     // when the timer fires
	sure   time.Time     // before which it does not fire
	spread time.Duration // after a wake within which it fires, at random

	mu    sync.Mutex
	woken bool
	over  bool
}

// NewNap begins a nap for a timer that was just set to fire after wait, of which sure
// must pass. The timer must not be used for anything else.
func NewNap(ctx context.Context, timer *time.Timer, wait, sure, spread time.Duration) *Nap {
	now := clock.Now()
	n := &Nap{ctx: ctx, timer: timer, end: now.Add(wait), sure: now.Add(sure), spread: min(spread, mostSpread)}
	Sleep(ctx, n)
	return n
}

// Wake implements Sleeper.
func (n *Nap) Wake() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.over || n.woken { // once is enough: many signals in a row would leave no spread
		return
	}
	n.woken = true
	now := clock.Now()
	at := now.Add(time.Duration(rand.Float64() * float64(n.spread)))
	if at.Before(n.sure) {
		at = n.sure
	}
	if at.Before(n.end) {
		n.timer.Reset(at.Sub(now))
	}
}

// End ends a nap whose timer has fired, or is of no use any more. It reports whether it
// was woken. A nil nap was not.
func (n *Nap) End() (woken bool) {
	if n == nil {
		return false
	}
	Rise(n.ctx, n)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.over = true
	if n.woken {
		n.timer.Stop()
	}
	return n.woken
}
