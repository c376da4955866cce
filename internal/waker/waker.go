// Package waker lets waits end early: it is what a Signal of package control/wake
// does, and where the waits of this module look for one.
package waker

import (
	"context"
	"sync"
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
	mu     sync.Mutex
	asleep map[Sleeper]bool
	last   time.Time // when it was given; zero if it never was
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
	s.mu.Lock()
	s.last = clock.Now()
	var asleep []Sleeper
	for sleeper := range s.asleep {
		asleep = append(asleep, sleeper)
	}
	s.mu.Unlock()
	for _, sleeper := range asleep { // without the lock, since a sleeper has its own
		sleeper.Wake()
	}
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
		s := c.signal
		s.mu.Lock()
		if s.asleep == nil {
			s.asleep = make(map[Sleeper]bool)
		}
		if s.asleep[sleeper] = true; !asleep {
			delete(s.asleep, sleeper)
		}
		s.mu.Unlock()
	}
}

// Since reports whether a signal of ctx was given after t.
func Since(ctx context.Context, t time.Time) (given bool) {
	for c := scopeOf(ctx); c != nil && !given; c = c.outer {
		c.signal.mu.Lock()
		given = c.signal.last.After(t)
		c.signal.mu.Unlock()
	}
	return given
}
