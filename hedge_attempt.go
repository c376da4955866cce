package backoff

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
)

// An alarm sends the next hedge. It goes off once: another hedge has another alarm, so
// that one going off while it is replaced is known by its being the wrong one.
type alarm struct {
	race  *race
	timer *time.Timer
}

// alarms holds those that did not go off, for most do not.
var alarms sync.Pool

func (al *alarm) ring() { al.race.begin(al, nil) }

// wake returns the hedge that an alarm is to send, if any.
func (r *race) wake(al *alarm) *hedgeAttempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.alarm != al { // replaced, or stopped too late
		return nil
	}
	r.alarm = nil
	a := r.next(clock.Now())
	r.settle()
	return a
}

func (r *race) arm(d time.Duration) {
	r.disarm()
	if s, ok := r.runner.(*steered); ok {
		al := &alarm{race: r}
		r.alarm = al
		s.driver.Arm(d, func() { al.ring(); s.tell() })
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

// reusable reports whether timers may outlive the call; see pause.
func (r *race) reusable() bool { return r.began != r.began.Round(0) }

// hedgeAttempt is one attempt, and its context. That is the call's until somebody asks for
// Done, or the attempt loses: fast operations do not, and a context that can be
// cancelled costs more than the rest of their call.
type hedgeAttempt struct {
	context.Context
	mu     sync.Mutex                 // held to change own
	own    atomic.Pointer[ownContext] // nil until somebody asks
	number int
	ticket Ticket
	over   bool // guarded by the race
}

type ownContext struct {
	context.Context
	cancel context.CancelCauseFunc
}

// neverAsked is what a context has of its own that ended before anybody asked.
var neverAsked = func() *ownContext {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(nil)
	return &ownContext{ctx, cancel}
}()

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

// Value implements context.Context. By the key of package context, which finds the nearest
// cancelled one, it gives away its own context: so its cause is found, and those
// derived from it need no goroutine to follow it.
func (a *hedgeAttempt) Value(key any) any {
	if key == (hedgeKey{}) {
		return a
	}
	if own := a.own.Load(); own != nil && own != neverAsked {
		return own.Value(key)
	}
	return a.Context.Value(key)
}

// derive returns the context's own context, and makes it first.
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
	a.own.Store(neverAsked)
}
