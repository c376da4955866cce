package guard

import (
	"context"
	"fmt"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard/internal/line"
	"github.com/gobackoff/backoff/internal/refused"
)

// A Turn is one call through [Service.Around]. The zero value is ready to use.
type Turn struct {
	_ [0]func() // no unkeyed literals, no ==

	// Whether the error of the call says nothing about the service, so that the
	// breaker does not count it.
	NoFault bool

	// Whether the fault is the call's own, so that waiting would not mend it.
	Own bool

	// Whether the call does not wait, though the Service is Patient. Set it before
	// Around.
	FailFast bool

	made    bool  // the breaker let the call pass
	waits   bool  // in the line
	whole   bool  // in the line the call counts, but for its sleeps, and not its attempts
	noFault error // the error that the breaker did not get
	call    line.Call
	waited  time.Duration // in the line
}

// Asleep runs sleep, in which the call waits between two of its attempts. Meanwhile
// another call that waits for the service may take its place.
func (t *Turn) Asleep(sleep func()) {
	if t.whole {
		t.call.Leave(false)
		defer t.call.Enter()
	}
	sleep()
}

// Around is for a client that makes its attempts itself, by [backoff.Policy.Start],
// as the Transport of package backoffhttp does. call makes the call once, with all
// its attempts under p; a patient Service may call it again. Around leaves the
// Budget of p as it is: see Parts. Before call returns an error, it sets t.NoFault
// and t.Own if they apply. Everything else is as in Client.Do.
func (s *Service) Around(ctx context.Context, p *backoff.Policy, t *Turn, call func(context.Context) error) error {
	switch {
	case s == nil:
		return errNil
	case !s.Patient || t.FailFast:
		return s.callOnce(ctx, p, t, call)
	}
	t.waits, t.whole = true, true
	return s.patiently(ctx, p, t, call)
}

// errNoFault says nothing about a service to its breaker.
var errNoFault = fmt.Errorf("guard: says nothing about the service: %w", backoff.ErrBudget)

// callOnce makes the call once, if the breaker lets it pass.
func (s *Service) callOnce(ctx context.Context, p *backoff.Policy, t *Turn, call func(context.Context) error) error {
	guards := s.use()
	if guards.breaker == nil {
		t.made = true
		return call(ctx)
	}
	err := guards.admit(ctx, func(ctx context.Context) error {
		t.made = true
		err := call(ctx)
		if err != nil && t.NoFault {
			t.noFault = err
			return errNoFault
		}
		return err
	})
	if err == errNoFault {
		err = t.noFault
	}
	if err != nil && !t.made && !t.waits {
		refused.Tell(ctx, p, err)
	}
	return err
}
