package guard

import (
	"context"
	"fmt"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/refused"
)

// A Turn is one call through [Service.Around]. The zero value is ready to use.
type Turn struct {
	_ [0]func() // no unkeyed literals, no ==

	// Whether the error of the call says nothing about the service, so that the
	// breaker does not count it.
	NoFault bool

	// Whether the call itself is at fault, so that waiting would not help.
	Own bool

	// Whether the call does not wait, as under a Service that is FailFast. Set it
	// before Around.
	FailFast bool

	// Policy of the call, if it is not that of Around. Its error says whether the call
	// may be repeated.
	Policy *backoff.Policy

	// BeforeWait is called before the call waits, if it is not nil.
	BeforeWait func()

	alone   bool  // the program made the service for what it calls, and not for any name in a URL
	made    bool  // the breaker let the call pass
	noFault error // the error that the breaker did not get
}

// Around is for a client that makes its attempts itself, by [backoff.Policy.Start],
// as the Transport of package backoffhttp does. call makes the attempts that p allows. If
// the policy that it gets is not nil, it has waited for its turn, and makes that policy's
// one attempt. The Budget of p stays as it is: see Parts. Before call returns an error,
// it sets the fields of t that apply. Everything else is as in Client.Do.
func (s *Service) Around(ctx context.Context, p *backoff.Policy, t *Turn, call func(context.Context, *backoff.Policy) error) error {
	switch {
	case s == nil:
		return errNil
	case !s.FailFast && !t.FailFast:
		return s.serve(ctx, p, t, call)
	}
	err := s.callOnce(ctx, nil, t, call)
	if err != nil && !t.made {
		refused.Tell(ctx, p, err)
	}
	return err
}

// errNoFault says nothing about a service to its breaker.
var errNoFault = fmt.Errorf("guard: says nothing about the service: %w", backoff.ErrBudget)

// inside is the key that says that a context is that of a call through a Service, which
// may hold a place of its budget.
type inside struct{ *Service }

// callOnce makes the call once, if the breaker lets it pass. p is the policy of a call
// that has waited, or nil.
func (s *Service) callOnce(ctx context.Context, p *backoff.Policy, t *Turn, call attempts) error {
	guards := s.use()
	if s.line.Places {
		ctx = context.WithValue(ctx, inside{s}, true)
	}
	t.NoFault, t.Own, t.made = false, false, guards.breaker == nil
	if t.made {
		return call(ctx, p)
	}
	err := guards.admit(ctx, func(ctx context.Context) error {
		t.made = true
		err := call(ctx, p)
		if err != nil && (t.NoFault || guards.paces && s.throttled(err)) {
			t.noFault = err
			return errNoFault
		}
		return err
	})
	if err == errNoFault {
		return t.noFault
	}
	return err
}
