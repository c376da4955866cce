package sim

import (
	"errors"
	"time"

	"github.com/gobackoff/backoff"
)

// hedged is a call under a Hedge, which decides, and is driven by the simulation.
type hedged struct{ *call }

// race makes a call under the process's Hedge.
func (c *call) race() { c.process.hedge.Steer(c.context(), hedged{c}) }

// Send implements steer.Driver.
func (h hedged) Send(done func(error)) {
	h.after(0, &shot{world: h.world, process: h.process, end: h.ctx.end, done: done}, sending)
}

// Arm implements steer.Driver.
func (h hedged) Arm(d time.Duration, ring func()) { h.after(d, alarm(ring), 0) }

// Over implements steer.Driver.
func (h hedged) Over(err error) { h.call.end(err) }

// An alarm is what a hedge waits for.
type alarm func()

func (a alarm) happen(int) { a() }

// A shot is an attempt of a hedged call, which may outlive it.
type shot struct {
	*world
	process *process
	end     time.Duration // of the call
	limit   time.Duration
	err     error
	heard   func(error)
	done    func(error)
}

func (s *shot) happen(what int) {
	switch what {
	case sending:
		s.send()
	case arriving:
		s.arrive()
	default:
		if s.heard != nil {
			s.heard(s.err)
		}
		s.done(s.err)
	}
}

func (s *shot) send() {
	if b := s.process.breaker; b != nil && s.process.guard == GuardAttempts {
		if s.heard, s.err = b.Allow(); s.err != nil {
			s.done(s.err)
			return
		}
	}
	s.sent(s.layers - 1)
	s.limit = s.end
	if s.timeout > 0 {
		s.limit = min(s.limit, s.now+s.timeout)
	}
	if s.delayed {
		s.after(s.transit(), s, arriving)
		return
	}
	s.arrive()
}

func (s *shot) arrive() {
	var latency time.Duration
	latency, s.err = s.reach(s.limit)
	s.inTurn(latency, s, answered)
}

// checkHedge refuses what cannot be driven so.
func checkHedge(h *backoff.Hedge, p Place) error {
	if err := h.Validate(); err != nil {
		return err
	}
	if p.Layer != p.Layers {
		return errors.New("a Hedge is simulated only in the layer that calls the service")
	}
	switch h.Budget.(type) {
	case nil, *backoff.RetryBudget:
		return nil
	}
	return errors.New("Hedge.Budget is simulated only if it is a RetryBudget")
}
