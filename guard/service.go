// Package guard has what all calls to one service share.
//
// A [backoff.Policy] says what one call does. A [Service] has what all calls know of
// the service that they call: whether it is up, how many calls it takes, and how
// many retries it can bear. One line puts it around any function:
//
//	var orders = &guard.Service{Name: "orders"}
//
//	err := orders.Do(ctx, policy, send) // send is attempted as the policy says
//
// [Services] has a Service for each host, shard or tenant.
package guard

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard/internal/line"
	"github.com/gobackoff/backoff/internal/badfield"
	"github.com/gobackoff/backoff/internal/limits"
	"github.com/gobackoff/backoff/pace"
)

// A Service is what all calls to one service share: a breaker around each call, a
// budget for its attempts, and, before both, a line in which calls wait if the
// Service is Patient. Make one for each service, and make all calls to it through
// that one.
//
// The zero value has what a host of package backoffhttp has: a [pace.Pacer], which
// bounds retries and slows calls down after responses like HTTP 429, and a
// [backoff.Breaker] with its defaults. A call that the breaker refuses ends at once,
// with an [*backoff.OpenError], unless the Service is Patient.
//
// A Service must not be copied, nor its fields changed, after first use. It is safe
// for concurrent use. While calls succeed, it takes no lock and allocates nothing.
// A panic or a runtime.Goexit of an operation passes through, and counts as a
// failure.
type Service struct {
	_ [0]func() // no unkeyed literals, no ==

	// Name of the service in errors and events.
	Name string

	// Budget of the calls whose policy has none. Defaults to a pace.Pacer of this
	// Service.
	Budget backoff.Budget

	// Breaker around each call, with all its attempts. Defaults to one with its
	// defaults, and with the Name and the Observer of the Service.
	Breaker *backoff.Breaker

	// Whether the budget is left out, so that only a Policy can bring one.
	NoBudget bool

	// Whether the breaker is left out.
	NoBreaker bool

	// Whether calls wait for a service that cannot serve them now. By default a
	// call ends when its policy gives up, or the breaker refuses it. Patient is
	// for callers that have time, such as jobs: such a call ends only with its
	// context, by an error that waiting does not mend, or by MaxWaiting. See
	// docs/patience.md for how calls wait.
	Patient bool

	// Most calls that may wait for the service at the same time. Defaults to
	// 10,000; negative means no limit. A call beyond that ends at once, with the
	// error that it would have without Patient, or an [*backoff.OpenError] if it
	// was not made.
	MaxWaiting int

	// Receiver of the transitions and refusals of the breaker; nil means none. A
	// Breaker that is set has an Observer of its own instead.
	Observer backoff.Observer

	parts atomic.Pointer[parts]
	once  sync.Once
	line  line.Line

	key  string    // in its Services
	late bool      // there were too many others when it was made
	of   *Services // those that it belongs to; for a Service alone, those of its tenants
}

// parts are the guards of a Service that is in use.
type parts struct {
	budget  backoff.Budget   // nil if there is none
	breaker *backoff.Breaker // nil if there is none
	pacer   pacer            // the budget, if it is one
	stats   stats            // the budget, if it has them
	shared  bool             // tenants have the same breaker
	tenant  bool             // the breaker is that of another Service
}

// pacer is a pace.Pacer. Not to name that type keeps it out of programs that only have
// the type of a Service.
type pacer interface {
	Limit() (perSecond float64, waiting int)
}

// stats is a RetryBudget or a Pacer.
type stats interface {
	Stats() backoff.RetryBudgetStats
}

const defaultMaxWaiting = 10_000

// use returns the guards of a service.
func (s *Service) use() *parts {
	if p := s.parts.Load(); p != nil {
		return p
	}
	s.once.Do(s.setUp)
	return s.parts.Load()
}

// setUp makes the guards, at the first use.
func (s *Service) setUp() {
	p := parts{breaker: s.Breaker, budget: s.Budget}
	switch {
	case s.NoBreaker:
		p.breaker = nil
	case p.breaker == nil:
		p.breaker = &backoff.Breaker{Name: s.Name, Observer: s.Observer}
	}
	switch {
	case s.NoBudget:
		p.budget = nil
	case p.budget == nil:
		p.budget = new(pace.Pacer)
	}
	p.pacer, _ = p.budget.(pacer)
	p.stats, _ = p.budget.(stats)
	if s.late && p.budget != nil {
		p.budget = &unproved{Budget: p.budget}
	}
	if s.of == nil {
		s.of = &Services{only: s}
	}
	s.parts.CompareAndSwap(nil, &p)
}

// Parts returns the budget and the breaker that calls meet, to share them with other
// code or to control them. Each is nil if it is left out, and both are nil for a nil
// Service.
func (s *Service) Parts() (backoff.Budget, *backoff.Breaker) {
	if s == nil {
		return nil, nil
	}
	p := s.use()
	return p.budget, p.breaker
}

// With returns the Service around a policy, for calls that are alike. While calls
// succeed, its Do allocates nothing, even if the operation captures variables.
func (s *Service) With(p backoff.Policy) *Client {
	c := s.with(p)
	return &c
}

// Do calls op under the Service and the policy. It is s.With(p).Do, for calls that
// differ in their policies.
func (s *Service) Do(ctx context.Context, p backoff.Policy, op func(context.Context) error) error {
	c := s.with(p)
	return c.Do(ctx, op)
}

func (s *Service) with(p backoff.Policy) Client {
	c := Client{service: s, policy: p}
	if s != nil && p.Budget == nil {
		c.policy.Budget, c.lends = s.use().budget, true
	}
	return c
}

// A Client is a [Service] around a policy. [Service.With] makes one; Do of the zero
// value returns an error. It is a [backoff.Doer], and safe for concurrent use.
type Client struct {
	_ [0]func() // no unkeyed literals, no ==

	service *Service
	policy  backoff.Policy // with the budget that counts
	lends   bool           // the budget is that of the service
}

// Do asks the breaker of the Service, and then calls op as [backoff.Policy.Do] does.
// The policy's own Budget takes the place of that of the Service. Errors are those
// of the policy, or the [*backoff.OpenError] of a call that the breaker refused. If
// the context ends a call that waits for a patient Service, the [*backoff.Error]
// says for how long it waited, and matches the context's error and the last error of
// op, or ErrOpen if op was not called. Do blocks until the call is over.
func (c *Client) Do(ctx context.Context, op func(context.Context) error) error {
	s := c.service
	if s == nil {
		return errNil
	}
	var err error
	if s.Patient {
		err = c.patiently(ctx, op)
	} else {
		err = s.callOnce(ctx, &c.policy, new(Turn), func(ctx context.Context) error { return c.policy.Do(ctx, op) })
	}
	if gave, ok := err.(*backoff.Error); ok && c.lends && gave.Reason == backoff.ReasonBudget && gave.Note == "" {
		named := *gave
		named.Note = "the guard.Service has it"
		return &named
	}
	return err
}

// admit makes a call that the breaker lets pass. While calls of a tenant wait for their
// turn, they leave the probe of a half-open circuit to others: they would hold it
// while they wait.
func (p *parts) admit(ctx context.Context, call func(context.Context) error) error {
	if p.shared && p.pacer != nil && p.breaker.State() == backoff.BreakerHalfOpen {
		if _, waiting := p.pacer.Limit(); waiting > 0 {
			return &backoff.OpenError{Name: p.breaker.Name, State: backoff.BreakerHalfOpen, Last: errTurn}
		}
	}
	return p.breaker.Do(ctx, call)
}

var errTurn = errors.New("calls of this tenant wait for their turn, and leave the probe to others")

// patiently is Do under a patient Service. In its line, attempts count, and not the
// waits between them.
func (c *Client) patiently(ctx context.Context, op func(context.Context) error) error {
	t := Turn{waits: true}
	return c.service.patiently(ctx, &c.policy, &t, func(ctx context.Context) error {
		return c.policy.Do(ctx, func(ctx context.Context) error {
			t.call.Enter()
			err := op(ctx)
			t.call.Leave(err == nil)
			return err
		})
	})
}

// Validate reports what is wrong with the policy, and with the guards around it.
func (c *Client) Validate() error { return errors.Join(c.service.Validate(), c.policy.Validate()) }

var errNil = backoff.Permanent(badfield.Nil("guard.Service", true))

// Validate reports what is wrong with the budget and the breaker, or returns nil. A
// call through an invalid Service ends with that error, before any attempt.
func (s *Service) Validate() (all error) {
	switch {
	case s == nil:
		return errNil
	case s.Budget != nil && !s.NoBudget:
		all = s.Budget.Validate()
	}
	if s.Breaker != nil && !s.NoBreaker {
		all = errors.Join(all, s.Breaker.Validate())
	}
	return all
}

// State is what a [Service] knows at one moment.
type State struct {
	Breaker   backoff.BreakerStats      // state of the breaker; zero without one
	Budget    *backoff.RetryBudgetStats // state of the budget; nil if it is no RetryBudget and no Pacer
	PerSecond float64                   // rate of calls under a Pacer that slows them down; 0 while it does not
	Waiting   int                       // calls that wait for their turn, or for the service to come back
}

// State returns the state of the service at this moment. It takes the locks of its
// parts.
func (s *Service) State() (state State) {
	if s == nil {
		return state
	}
	p := s.use()
	state.Waiting = s.line.Waiting()
	if p.breaker != nil {
		state.Breaker = p.breaker.Stats()
	}
	if p.stats != nil {
		stats := p.stats.Stats()
		state.Budget = &stats
	}
	if p.pacer != nil {
		rate, waiting := p.pacer.Limit()
		if state.Waiting += waiting; !math.IsInf(rate, 1) {
			state.PerSecond = rate
		}
	}
	return state
}

// maxWaiting returns MaxWaiting with its default.
func (s *Service) maxWaiting() int { return limits.Or(s.MaxWaiting, defaultMaxWaiting) }
