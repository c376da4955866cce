// Package waker lets waits end early: it is what a Signal of package control/wake
// does, and where the waits of this module look for one.
package waker

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
)

// A Sleeper is a wait that a Signal may end. It must be a pointer.
type Sleeper interface {
	// Wake is called when the Signal is given. It may race with Rise.
	Wake()
}

// A Signal ends the waits under its contexts. The zero value is ready to use.
type Signal struct {
	mu     sync.Mutex
	asleep map[Sleeper]struct{}
	last   time.Time // when it was given; zero if it never was
}

// used is true once there is a context with a signal. Looking a value up in a deep
// context takes time.
var used atomic.Bool

// scopeKey is the key of the scope in a context.
type scopeKey struct{}

// scope is a signal, and those of the contexts around its own.
type scope struct {
	signal *Signal
	outer  *scope
}

// With returns a context for the waits that s is to end.
func (s *Signal) With(ctx context.Context) context.Context {
	used.Store(true)
	return context.WithValue(ctx, scopeKey{}, &scope{s, scopeOf(ctx)})
}

// scopeOf returns the innermost scope of a context, or nil.
func scopeOf(ctx context.Context) *scope {
	if !used.Load() {
		return nil
	}
	s, _ := ctx.Value(scopeKey{}).(*scope)
	return s
}

// Wake wakes all who sleep. It keeps nothing for those who come later.
func (s *Signal) Wake() {
	s.mu.Lock()
	s.last = clock.Now()
	asleep := slices.Collect(maps.Keys(s.asleep))
	s.mu.Unlock()
	for _, sleeper := range asleep { // without the lock, since a sleeper has its own
		sleeper.Wake()
	}
}

func (s *Signal) add(sleeper Sleeper) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asleep == nil {
		s.asleep = make(map[Sleeper]struct{})
	}
	s.asleep[sleeper] = struct{}{}
}

func (s *Signal) remove(sleeper Sleeper) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.asleep, sleeper)
}

func (s *Signal) givenAfter(t time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last.After(t)
}

// Has reports whether ctx has a signal.
func Has(ctx context.Context) bool { return scopeOf(ctx) != nil }

// Sleep has the signals of ctx wake a sleeper until its Rise.
func Sleep(ctx context.Context, sleeper Sleeper) {
	for s := scopeOf(ctx); s != nil; s = s.outer {
		s.signal.add(sleeper)
	}
}

// Rise ends a Sleep.
func Rise(ctx context.Context, sleeper Sleeper) {
	for s := scopeOf(ctx); s != nil; s = s.outer {
		s.signal.remove(sleeper)
	}
}

// Since reports whether a signal of ctx was given after t.
func Since(ctx context.Context, t time.Time) bool {
	for s := scopeOf(ctx); s != nil; s = s.outer {
		if s.signal.givenAfter(t) {
			return true
		}
	}
	return false
}
