// Package steer lets the simulator go through a hedged call step by step,
// without the goroutines and timers that such a call otherwise is made of. The
// library decides what happens and when; the simulator makes it happen.
package steer

import "time"

// A Driver makes happen what a hedged call wants. Its methods are called on the
// goroutine of the simulation. Send and Arm must do no more than take note, as
// the call is locked.
type Driver interface {
	// Send makes an attempt, and calls done with its error when it has one, nil
	// for success.
	Send(done func(error))
	// Arm calls ring once d has passed, on the simulation's clock.
	Arm(d time.Duration, ring func())
	// Over is told the error of the call, nil for success. Attempts may still
	// be under way.
	Over(err error)
}
