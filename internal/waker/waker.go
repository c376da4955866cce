// Package waker lets waits end early: it is what a Signal of package control/wake
// does, and where the waits of this module look for one.
package waker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
)

// A Sleeper is a wait that a Signal may end. It must be a pointer.
type Sleeper interface {
	// Wake is called when the Signal is given, perhaps after the sleeper was removed.
	Wake()
}

// A Signal ends the waits under its contexts. The zero value is ready to use.
type Signal struct {
	asleep sync.Map                  // of Sleepers
	last   atomic.Pointer[time.Time] // when it was given; nil if it never was
}

// scopeKey is the key of the scope in a context.
type scopeKey struct{}

// scope is a signal, and those of the contexts around its own.
type scope struct {
	signal *Signal
	outer  *scope
}

// With returns a context for the waits that s is to end.
func (s *Signal) With(ctx context.Context) context.Context {
	nap := begin
	Nap.Store(&nap)
	return context.WithValue(ctx, scopeKey{}, &scope{s, scopeOf(ctx)})
}

// scopeOf returns the innermost scope of a context, or nil. Looking a value up in a deep
// context takes time, which a program without a signal does not need.
func scopeOf(ctx context.Context) *scope {
	if Nap.Load() == nil {
		return nil
	}
	s, _ := ctx.Value(scopeKey{}).(*scope)
	return s
}

// Wake wakes all who sleep. It keeps nothing for those who come later.
func (s *Signal) Wake() {
	now := clock.Now()
	s.last.Store(&now)
	s.asleep.Range(func(sleeper, _ any) bool {
		sleeper.(Sleeper).Wake()
		return true
	})
}

// Sleep has the signals of ctx wake a sleeper, until rise is called.
func Sleep(ctx context.Context, sleeper Sleeper) (rise func()) {
	all := scopeOf(ctx)
	all.set(sleeper, true)
	return func() { all.set(sleeper, false) }
}

// set says whether a sleeper is asleep.
func (c *scope) set(sleeper Sleeper, asleep bool) {
	for ; c != nil; c = c.outer {
		if asleep {
			c.signal.asleep.Store(sleeper, nil)
		} else {
			c.signal.asleep.Delete(sleeper)
		}
	}
}

// Since reports whether a signal of ctx was given after t.
func Since(ctx context.Context, t time.Time) (given bool) {
	for c := scopeOf(ctx); c != nil && !given; c = c.outer {
		last := c.signal.last.Load()
		given = last != nil && last.After(t)
	}
	return given
}
