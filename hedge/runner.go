package hedge

import (
	"context"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/steer"
)

// A runner makes the attempts of a race.
type runner interface {
	run(*attempt)                     // makes an attempt, and finishes it
	launch(*attempt)                  // runs an attempt beside those under way
	alarm(time.Duration) *clock.Alarm // sets an alarm for the next hedge
}

// launch runs an attempt on a goroutine of its own.
func (r *race) launch(a *attempt) { go r.begin(nil, a) }

// alarm sets a timer.
func (r *race) alarm(d time.Duration) *clock.Alarm {
	return clock.NewAlarm(d, r, clock.Monotonic(&r.began))
}

// contest is a race for a value of type T.
type contest[T any] struct {
	race
	op      func(context.Context) (T, error)
	discard func(T)
	value   T    // value of the attempt that ended the call
	passed  bool // the caller has the value
}

// run calls the operation, and discards its value if that comes too late.
func (c *contest[T]) run(a *attempt) {
	value, err := c.op(a)
	kept := false
	defer func() { // also where the classifier or the budget panics
		if !kept && err == nil && c.discard != nil {
			c.discard(value)
		}
	}()
	kept = c.finish(a, err, func() { c.value = value })
}

// drop discards the value of a call that was won, where something panicked or
// left the caller's goroutine before the caller had the value.
func (c *contest[T]) drop() {
	if c.passed || c.winner == nil || c.discard == nil {
		return
	}
	defer c.winner.Cancel(nil)
	c.discard(c.value)
}

// steered is a race without goroutines and timers, which the simulator drives.
type steered struct {
	race
	driver steer.Driver
	told   bool // the driver heard that the call is over
}

// steer begins a call that d drives.
func (h *Hedge) steer(ctx context.Context, d steer.Driver) {
	s := &steered{driver: d}
	s.runner = s
	if s.start(ctx, h) {
		s.open()
		s.run(&s.first)
	}
	s.tellOver()
}

// run has the driver send an attempt. Its result comes later.
func (s *steered) run(a *attempt) {
	s.driver.Send(func(err error) {
		s.finish(a, err, func() {})
		s.tellOver()
	})
}

// launch is run, which does not wait for the result.
func (s *steered) launch(a *attempt) { s.run(a) }

// alarm has the driver set an alarm.
func (s *steered) alarm(d time.Duration) *clock.Alarm {
	al := new(clock.Alarm)
	s.driver.Arm(d, func() {
		s.Ring(al)
		s.tellOver()
	})
	return al
}

// tellOver tells the driver once that the call is over.
func (s *steered) tellOver() {
	if s.over && !s.told {
		s.told = true
		s.driver.Over(s.err)
	}
}
