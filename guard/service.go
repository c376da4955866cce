// Package guard holds what all calls to a service share.
//
// A [backoff.Policy] says what one call does. A [Service] holds what all calls know about
// the service: whether it is up, how many calls it takes, and how many retries it can
// bear. One line puts it around any function:
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
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard/internal/line"
	"github.com/gobackoff/backoff/internal/badfield"
	"github.com/gobackoff/backoff/internal/errtree"
	"github.com/gobackoff/backoff/internal/limits"
	"github.com/gobackoff/backoff/limit/adaptive"
	"github.com/gobackoff/backoff/pace"
)

// A Service is what all calls to one service share: a breaker around each call, a
// budget for its attempts, and, before both, a line in which calls wait while it
// cannot serve them. Make one for each service, and make all calls to it through that
// one.
//
// The zero value has what a host of package backoffhttp has: a [pace.Pacer], which
// bounds retries and slows calls down after responses like HTTP 429, an
// [adaptive.Limit], which bounds how many attempts run at once while the service is
// overloaded, and a [backoff.Breaker] that does not open while the service serves some
// calls and is not slower than usual.
//
// A Service must not be copied, nor its fields changed, after first use. It is safe
// for concurrent use. While calls succeed, it takes no lock, and allocates nothing
// unless the policy has an Observer, or the Budget is a limit.Concurrency.
// A panic or a runtime.Goexit of an operation passes through, and counts as a
// failure.
type Service struct {
	_ [0]func() // no unkeyed literals, no ==

	// Name of the service in errors and events.
	Name string

	// Budget of the calls whose policy has none. Defaults to a pace.Pacer and an
	// adaptive.Limit of this Service.
	Budget backoff.Budget

	// Breaker around each call, with all its attempts. Defaults to one with its
	// defaults, and with the Name and the Observer of the Service.
	Breaker *backoff.Breaker

	// Whether the budget is left out, so that only a Policy can bring one.
	NoBudget bool

	// Whether the breaker is left out.
	NoBreaker bool

	// Whether calls do not wait for a service that cannot serve them now. By default a
	// call that the breaker refuses, or that failed while the service answered no call,
	// waits: until its deadline or the MaxElapsed of its policy, or 5 seconds if it has
	// neither. When its turn comes, it makes one more attempt. A MaxAttempts that the
	// policy sets bounds them all; the default of 4 does not. See docs/waiting.md.
	FailFast bool

	// Most calls that may wait for the service at the same time. Defaults to
	// 10,000; negative means no limit. A call beyond that ends at once, with the
	// error that it would have under FailFast.
	MaxWaiting int

	// Receiver of the transitions and refusals of the breaker; nil means none. A
	// Breaker that is set has an Observer of its own instead.
	Observer backoff.Observer

	// Classifier of errors for the breaker. Defaults to backoff.DefaultClassifier. A
	// Breaker that is set has its own instead.
	Classify backoff.Classifier

	// Longest time for which the service may ask to be left alone. Defaults to 5
	// minutes; negative means the default. A Breaker or a Budget that is set has its
	// own instead.
	MaxRetryAfter time.Duration

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
	pacer   pacer            // the budget, or a part of it; nil if there is none
	limit   limiter          // the same
	stats   stats            // the same
	paces   bool             // the pacer asks a service that throttles all calls often enough, so that this opens no circuit
	shared  bool             // tenants have the same breaker
	tenant  bool             // the breaker is that of another Service
}

// pacer is a pace.Pacer. Not to name that type keeps it out of programs that only have
// the type of a Service.
type pacer interface{ Limit() (float64, int) }

// limiter is an adaptive.Limit.
type limiter interface{ AtOnce() (float64, int) }

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
	case s.NoBudget:
		p.budget = nil
	case p.budget == nil:
		paced, limited := &pace.Pacer{MaxWait: s.MaxRetryAfter}, new(adaptive.Limit)
		p.budget = backoff.JoinBudgets(paced, limited)
		p.pacer, p.limit, p.stats = paced, limited, paced
	case badfield.IsNil(p.budget): // every call ends with the error of Validate
	default:
		p.pacer, _ = p.budget.(pacer)
		p.limit, _ = p.budget.(limiter)
		p.stats, _ = p.budget.(stats)
		if b, ok := p.budget.(interface{ Load() int }); ok { // a limit.Concurrency
			s.line.Places, p.budget = true, &places{p.budget, b.Load, &s.line}
		}
	}
	switch {
	case s.NoBreaker:
		p.breaker = nil
	case p.breaker == nil:
		p.breaker, p.paces = s.newBreaker(), p.pacer != nil
	}
	if s.late && p.budget != nil {
		p.budget = &unproved{Budget: p.budget}
	}
	if s.of == nil {
		s.of = &Services{only: s}
	}
	s.line.Circuit = circuit{s}
	s.parts.CompareAndSwap(nil, &p)
}

// A places is a budget that tells the line when an attempt leaves its place.
type places struct {
	backoff.Budget
	taken func() int
	line  *line.Line
}

// Done implements [backoff.Budget].
func (p *places) Done(t backoff.Ticket, r backoff.Result) {
	before := p.taken()
	p.Budget.Done(t, r)
	if p.taken() < before {
		p.line.MakeRoom()
	}
}

// newBreaker returns the breaker of a service that sets none. A service that serves some
// calls is not down, whatever becomes of the others: half of the calls must fail only
// while it is slower than usual.
func (s *Service) newBreaker() *backoff.Breaker {
	b := &backoff.Breaker{Name: s.Name, Observer: s.Observer, Classify: s.Classify, MaxRetryAfter: max(0, s.MaxRetryAfter)}
	b.ProbeSuccesses = 1 // the line bounds how many calls follow
	b.FailureRate = 1
	b.TripIf = func(now backoff.BreakerStats) bool {
		const calls = 20
		known := s.parts.Load().stats
		return now.Failures >= now.Successes && now.Failures+now.Successes >= calls && known != nil && known.Stats().Strained
	}
	return b
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
// The policy's own Budget takes the place of that of the Service. A call that the
// service cannot serve waits, see FailFast. Errors are those of the policy, or the
// [*backoff.OpenError] of a call that the breaker refused. After a wait the error says
// for how long. It matches the last error of op, or ErrOpen if op was not called, and the
// context's error if that ended it. Do blocks until the call is over.
func (c *Client) Do(ctx context.Context, op func(context.Context) error) error {
	switch {
	case c.service == nil:
		return errNil
	case ctx.Err() != nil:
		return c.policy.Do(ctx, op) // which does not call op, and says why
	}
	err := c.service.Around(ctx, &c.policy, &Turn{alone: true}, func(ctx context.Context, p *backoff.Policy) error {
		if p != nil {
			return p.Do(ctx, op)
		}
		return c.policy.Do(ctx, op)
	})
	if gave, ok := err.(*backoff.Error); ok && c.lends && gave.Reason == backoff.ReasonBudget {
		named := *gave
		named.Note = strings.TrimPrefix(gave.Note+"; refused by the Budget of the guard.Service", "; ")
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
		if all = backoff.Permanent(badfield.NotNil("guard.Service.Budget", s.Budget)); all == nil {
			all = s.Budget.Validate()
		}
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
	AtOnce    float64                   // most attempts at once under an adaptive.Limit; 0 while it has no limit
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
	if p.limit != nil {
		most, waiting := p.limit.AtOnce()
		if state.Waiting += waiting; !math.IsInf(most, 1) {
			state.AtOnce = most
		}
	}
	return state
}

// maxWaiting returns MaxWaiting with its default.
func (s *Service) maxWaiting() int { return limits.Or(s.MaxWaiting, defaultMaxWaiting) }

// circuit is what the line of a service knows of its guards.
type circuit struct{ *Service }

// Closed implements line.Circuit.
func (c circuit) Closed() bool {
	b := c.use().breaker
	return b == nil || b.State() == backoff.BreakerClosed
}

// Left implements line.Circuit. How long a circuit stays open that was forced is not
// known.
func (c circuit) Left() time.Duration {
	const unknown = time.Second
	stats := c.use().breaker.Stats()
	if stats.State == backoff.BreakerOpen && stats.RetryAfter == 0 {
		return unknown
	}
	return stats.RetryAfter
}

// Share implements line.Circuit. Of few calls little is known, by Laplace's rule.
func (c circuit) Share() float64 {
	b := c.use().breaker
	if b == nil {
		return 0
	}
	stats := b.Stats()
	failures := max(stats.Failures, 1) - 1 // without the one that asks
	return float64(failures+1) / float64(stats.Successes+failures+2)
}

// Usual implements line.Circuit.
func (c circuit) Usual() float64 {
	known := c.use().stats
	if known == nil {
		return 0
	}
	stats := known.Stats()
	return stats.Rate * stats.Latency.Seconds()
}

// refusal is the error of a call that was not made, because others failed with why.
func (s *Service) refusal(why error) error {
	if open, ok := errtree.As[*backoff.OpenError](why); ok {
		return open
	}
	return &backoff.OpenError{Name: s.Name, State: backoff.BreakerOpen, Last: why}
}
