package sim

import (
	"errors"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/hedge"
	"github.com/gobackoff/backoff/internal/steer"
)

// A hedgedCall is a call under a Hedge. The Hedge decides what to send and
// when, and the simulation does it. It implements [steer.Driver].
type hedgedCall struct{ *call }

// startHedge makes the call under the Hedge of its process.
func (c *call) startHedge() {
	_, _ = hedge.Value[struct{}](steer.With(c.context(), hedgedCall{c}), c.process.hedge, nil, nil)
}

// Send implements [steer.Driver].
func (h hedgedCall) Send(done func(error)) {
	h.after(0, &hedgedAttempt{simulation: h.simulation, process: h.process, needs: h.needs, end: h.ctx.end,
		done: done}, sending)
}

// Arm implements [steer.Driver].
func (h hedgedCall) Arm(d time.Duration, expired func()) { h.after(d, timer(expired), 0) }

// Over implements [steer.Driver].
func (h hedgedCall) Over(err error) { h.call.finish(err) }

// A timer calls a function when it expires.
type timer func()

func (t timer) handle(int) { t() }

// A hedgedAttempt is an attempt of a hedged call. It may end after its call.
type hedgedAttempt struct {
	*simulation
	process     *process
	needs       Service
	end         time.Duration // of the call
	attemptEnd  time.Duration // when the attempt ends at the latest
	err         error
	doneAttempt func(error) // the breaker's, if it guards attempts
	done        func(error) // the hedge's
}

func (a *hedgedAttempt) handle(kind int) {
	switch kind {
	case sending:
		a.send()
	case arriving:
		a.arrive()
	default:
		if a.doneAttempt != nil {
			a.doneAttempt(a.err)
		}
		a.done(a.err)
	}
}

func (a *hedgedAttempt) send() {
	if b := a.process.breaker; b != nil && a.process.guard == GuardAttempts {
		if a.doneAttempt, a.err = b.Allow(); a.err != nil {
			a.done(a.err)
			return
		}
	}
	a.countAttempt(a.layers - 1)
	a.attemptEnd = a.end
	if a.timeout > 0 {
		a.attemptEnd = min(a.attemptEnd, a.now+a.timeout)
	}
	if a.delayed {
		a.after(a.networkDelay(), a, arriving)
		return
	}
	a.arrive()
}

func (a *hedgedAttempt) arrive() {
	var latency time.Duration
	latency, a.err = a.serve(a.needs, a.attemptEnd)
	a.after(latency, a, answered)
}

// validateHedge refuses a hedge that is invalid or cannot be simulated.
func validateHedge(h *hedge.Hedge, env Environment) error {
	if err := h.Validate(); err != nil {
		return err
	}
	if env.Layer != env.Layers {
		return errors.New("a Hedge is simulated only in the layer that calls the service")
	}
	switch h.Budget.(type) {
	case nil, *backoff.RetryBudget:
		return nil
	}
	return errors.New("Hedge.Budget is simulated only if it is a RetryBudget")
}
