// Package fleettest tests implementations of [fleet.Store], and gives a store the
// faults of a network. It is experimental.
//
//	func TestStore(t *testing.T) {
//		fleettest.Store(t, func(t testing.TB) fleet.Store { return open(t) })
//	}
package fleettest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/contrib/fleet"
)

// ErrStore is what a [Faulty] store fails with.
var ErrStore = errors.New("fleettest: the store is gone")

// Faulty is a fleet.Store with faults, in front of another store: it is slow,
// fails, has a wrong clock, or is unreachable. The zero value of each field
// but Store means no such fault. The fields must not be changed after first
// use; Cut and Restore may be called at any time.
type Faulty struct {
	// Store is the store behind the faults.
	Store fleet.Store
	// Delay passes before each call, unless ctx ends first. A negative Delay
	// passes after the call: the change is made, and the response is late.
	Delay time.Duration
	// Fail says whether the nth call fails, counted from 1. nil means that no
	// call fails.
	Fail func(n int64) bool
	// Skew is how far the store's clock jumps ahead between a call and its
	// response. The remaining times in the response are shorter by Skew, or
	// longer if it is negative.
	Skew time.Duration

	calls atomic.Int64
	cut   atomic.Bool
}

// Cut makes all calls wait for the end of their context, as in a network that
// drops every packet.
func (f *Faulty) Cut() { f.cut.Store(true) }

// Restore ends the effect of Cut.
func (f *Faulty) Restore() { f.cut.Store(false) }

// Calls returns how many calls there have been.
func (f *Faulty) Calls() int64 { return f.calls.Load() }

// Load implements fleet.Store.
func (f *Faulty) Load(ctx context.Context, key string) (fleet.Circuit, error) {
	return f.circuit(ctx, func() (fleet.Circuit, error) { return f.Store.Load(ctx, key) })
}

// Trip implements fleet.Store.
func (f *Faulty) Trip(ctx context.Context, key string, t fleet.Trip) (fleet.Circuit, error) {
	return f.circuit(ctx, func() (fleet.Circuit, error) { return f.Store.Trip(ctx, key, t) })
}

// Lease implements fleet.Store.
func (f *Faulty) Lease(ctx context.Context, key, by string, d time.Duration) (fleet.Circuit, error) {
	return f.circuit(ctx, func() (fleet.Circuit, error) { return f.Store.Lease(ctx, key, by, d) })
}

// Reset implements fleet.Store.
func (f *Faulty) Reset(ctx context.Context, key, by string, generation uint64) (fleet.Circuit, error) {
	return f.circuit(ctx, func() (fleet.Circuit, error) { return f.Store.Reset(ctx, key, by, generation) })
}

// Take implements fleet.Store.
func (f *Faulty) Take(ctx context.Context, key string, c fleet.Claim) (n int, err error) {
	err = f.pass(ctx, func() (err error) {
		n, err = f.Store.Take(ctx, key, c)
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// Give implements fleet.Store.
func (f *Faulty) Give(ctx context.Context, key, block string, n int) error {
	return f.pass(ctx, func() error { return f.Store.Give(ctx, key, block, n) })
}

// circuit makes a call that returns a circuit, and skews its times.
func (f *Faulty) circuit(ctx context.Context, call func() (fleet.Circuit, error)) (c fleet.Circuit, err error) {
	err = f.pass(ctx, func() (err error) {
		c, err = call()
		return err
	})
	if err != nil {
		return fleet.Circuit{}, err
	}
	if c.Tripped {
		c.Open = max(0, c.Open-f.Skew)
	}
	if c.Leased > 0 {
		c.Leased = max(0, c.Leased-f.Skew)
	}
	return c, nil
}

// pass makes a call, with the faults.
func (f *Faulty) pass(ctx context.Context, call func() error) error {
	n := f.calls.Add(1)
	if f.cut.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	if err := wait(ctx, f.Delay); err != nil {
		return err
	}
	if f.Fail != nil && f.Fail(n) {
		return ErrStore
	}
	if err := call(); err != nil {
		return err
	}
	return wait(ctx, -f.Delay)
}

// wait waits for d if that is positive. It returns the error of ctx if ctx ends
// first.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
