package fleet_test

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/contrib/fleet"
)

var errStore = errors.New("the store is gone")

// A faultyStore is slow, fails or is unreachable. The zero value of each field
// but Store means no such fault.
type faultyStore struct {
	fleet.Store
	// Delay passes before each call, unless ctx ends first. A negative Delay
	// passes after the call: the change is made, and the response is late.
	Delay time.Duration
	// Fail says whether the nth call fails, counted from 1. nil means that no
	// call fails.
	Fail func(n int64) bool

	calls atomic.Int64
	cut   atomic.Bool
}

// Cut makes all calls wait for the end of their context, as in a network that
// drops every packet.
func (f *faultyStore) Cut() { f.cut.Store(true) }

// Restore ends the effect of Cut.
func (f *faultyStore) Restore() { f.cut.Store(false) }

// Calls returns how many calls there have been.
func (f *faultyStore) Calls() int64 { return f.calls.Load() }

func (f *faultyStore) Load(ctx context.Context, key string) (fleet.Circuit, error) {
	return through(ctx, f, func() (fleet.Circuit, error) { return f.Store.Load(ctx, key) })
}

func (f *faultyStore) Trip(ctx context.Context, key string, t fleet.Trip) (fleet.Circuit, error) {
	return through(ctx, f, func() (fleet.Circuit, error) { return f.Store.Trip(ctx, key, t) })
}

func (f *faultyStore) Lease(ctx context.Context, key, by string, d time.Duration) (fleet.Circuit, error) {
	return through(ctx, f, func() (fleet.Circuit, error) { return f.Store.Lease(ctx, key, by, d) })
}

func (f *faultyStore) Reset(ctx context.Context, key, by string, generation uint64) (fleet.Circuit, error) {
	return through(ctx, f, func() (fleet.Circuit, error) { return f.Store.Reset(ctx, key, by, generation) })
}

func (f *faultyStore) Take(ctx context.Context, key string, c fleet.Claim) (int, error) {
	return through(ctx, f, func() (int, error) { return f.Store.Take(ctx, key, c) })
}

func (f *faultyStore) Give(ctx context.Context, key, block string, n int) error {
	_, err := through(ctx, f, func() (int, error) { return 0, f.Store.Give(ctx, key, block, n) })
	return err
}

// through makes a call, with the faults.
func through[T any](ctx context.Context, f *faultyStore, call func() (T, error)) (result T, err error) {
	n := f.calls.Add(1)
	if f.cut.Load() {
		<-ctx.Done()
		return result, ctx.Err()
	}
	if err := wait(ctx, f.Delay); err != nil {
		return result, err
	}
	if f.Fail != nil && f.Fail(n) {
		return result, errStore
	}
	if result, err = call(); err != nil {
		return result, err
	}
	return result, wait(ctx, -f.Delay)
}

// wait waits for d if that is positive, or until ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
