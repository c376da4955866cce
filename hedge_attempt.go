package backoff

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
)

// An alarm sends the next hedge. Each hedge has an alarm of its own, so that an
// alarm that goes off while it is being replaced is recognized as an old one.
type alarm struct {
	race  *race
	timer *time.Timer
}

// alarms are reused if they did not go off, and most do not.
var alarms sync.Pool

// ring is called when the alarm goes off.
func (al *alarm) ring() { al.race.begin(al, nil) }

// wake returns the hedge that an alarm has to send, or nil.
func (r *race) wake(al *alarm) *hedgeAttempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.alarm != al { // replaced, or stopped too late
		return nil
	}
	r.alarm = nil
	a := r.prepare(clock.Now())
	r.finishIfIdle()
	return a
}

// arm sets the alarm for the next hedge.
func (r *race) arm(d time.Duration) {
	r.disarm()
	if s, ok := r.runner.(*steered); ok {
		al := &alarm{race: r}
		r.alarm = al
		s.driver.Arm(d, func() { al.ring(); s.tellOver() })
		return
	}
	if r.reusable() {
		r.alarm, _ = alarms.Get().(*alarm)
	}
	if r.alarm != nil {
		r.alarm.race = r
		r.alarm.timer.Reset(d)
		return
	}
	r.alarm = &alarm{race: r}
	r.alarm.timer = time.AfterFunc(d, r.alarm.ring)
}

// disarm stops the alarm.
func (r *race) disarm() {
	al := r.alarm
	if al == nil {
		return
	}
	r.alarm = nil
	if al.timer != nil && al.timer.Stop() && r.reusable() {
		al.race = nil
		alarms.Put(al)
	}
}

// reusable reports whether timers may outlive the call.
func (r *race) reusable() bool { return clock.Monotonic(&r.began) }

// hedgeAttempt is one attempt, and its context. The context is that of the call
// until the operation asks for Done, or the attempt loses. Fast operations do
// not ask, and a context that can be cancelled costs more than the rest of
// their call.
type hedgeAttempt struct {
	context.Context
	mu     sync.Mutex                 // held to change own
	own    atomic.Pointer[ownContext] // nil until somebody asks
	number int
	ticket Ticket
	over   bool // guarded by the race
}

// ownContext is the context that an attempt gets when it asks.
type ownContext struct {
	context.Context
	cancel context.CancelCauseFunc
}

// canceledUnused is the own context of attempts that ended before they asked.
var canceledUnused = func() *ownContext {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(nil)
	return &ownContext{ctx, cancel}
}()

// hedgeKey is the key by which a context finds its attempt.
type hedgeKey struct{}

// Done implements context.Context.
func (a *hedgeAttempt) Done() <-chan struct{} { return a.derive().Done() }

// Err implements context.Context.
func (a *hedgeAttempt) Err() error {
	if own := a.own.Load(); own != nil {
		return own.Err()
	}
	return a.Context.Err()
}

// Value implements context.Context. Package context looks up the nearest
// cancelable context by a key of its own. Value answers with the attempt's own
// context, so that the cause is found, and derived contexts need no goroutine.
func (a *hedgeAttempt) Value(key any) any {
	if key == (hedgeKey{}) {
		return a
	}
	if own := a.own.Load(); own != nil && own != canceledUnused {
		return own.Value(key)
	}
	return a.Context.Value(key)
}

// derive returns the attempt's own context, and makes it if there is none.
func (a *hedgeAttempt) derive() *ownContext {
	a.mu.Lock()
	defer a.mu.Unlock()
	own := a.own.Load()
	if own == nil {
		ctx, cancel := context.WithCancelCause(a.Context)
		own = &ownContext{ctx, cancel}
		a.own.Store(own)
	}
	return own
}

// lose ends the context of an attempt under way.
func (a *hedgeAttempt) lose() { a.derive().cancel(ErrHedgeLost) }

// end ends the context of an attempt that has returned.
func (a *hedgeAttempt) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if own := a.own.Load(); own != nil {
		own.cancel(nil)
		return
	}
	a.own.Store(canceledUnused)
}
