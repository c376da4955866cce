// Package steer lets the simulator go through a hedged call step by step,
// without the goroutines and timers that such a call otherwise is made of. The
// library decides what happens and when; the simulator makes it happen.
package steer

import (
	"context"
	"sync/atomic"
	"time"
)

// A Driver carries out what a hedged call decides. Its methods are called on the
// goroutine of the simulation. Send and Arm must only record the request, because
// the call holds its lock.
type Driver interface {
	// Send makes an attempt, and calls done with its error when it has one, nil
	// for success.
	Send(done func(error))
	// Arm calls ring once d has passed, on the simulation's clock.
	Arm(d time.Duration, ring func())
	// Over gets the error of the call, nil for success. Attempts may still be
	// under way.
	Over(err error)
}

// used is true once With was called. Looking a value up in a deep context takes
// time.
var used atomic.Bool

// driverKey is the key of the Driver in a context.
type driverKey struct{}

// With returns a context whose hedged call d drives. hedge.Value then returns at
// once, and d.Over gets the result.
func With(ctx context.Context, d Driver) context.Context {
	used.Store(true)
	return context.WithValue(ctx, driverKey{}, d)
}

// Of returns the Driver of a context, or nil.
func Of(ctx context.Context) Driver {
	if !used.Load() {
		return nil
	}
	d, _ := ctx.Value(driverKey{}).(Driver)
	return d
}
