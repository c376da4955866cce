package backoff

import (
	"context"

	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/steer"
)

// steered is a hedged call in the time of a simulation, that somebody else drives.
type steered struct {
	race
	driver steer.Driver
	told   bool // that it is over
}

// Steer begins a call for the simulator of this module, the only one who can make a driver.
// Everybody else uses [HedgeValue].
//
// It is a method, and not a hook that is set at the start, because a program that does not use it
// does then not carry it, nor the hedges behind it.
func (h *Hedge) Steer(ctx context.Context, d steer.Driver) {
	s := &steered{driver: d}
	s.runner = s
	if s.start(ctx, h) {
		s.run(&s.first)
	} else {
		d.Over(s.err)
	}
}

// run makes an attempt, which has no result yet.
func (s *steered) run(a *hedgeAttempt) bool {
	s.driver.Send(func(err error) {
		s.land(a, err)
		s.tell()
	})
	return false
}

func (s *steered) land(a *hedgeAttempt, err error) {
	var v verdict
	if err != nil {
		v = judge(s.hedge.Classify, err)
	}
	now := clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finish(a, err, v, now)
}

// tell says that the call is over, once.
func (s *steered) tell() {
	if s.over && !s.told {
		s.told = true
		s.driver.Over(s.err)
	}
}
