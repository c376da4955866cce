package backoffhttp

import (
	"context"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/endpoint"
	"github.com/gobackoff/backoff/internal/registry"
	"github.com/gobackoff/backoff/internal/timeouts"
	"github.com/gobackoff/backoff/pace"
)

// guards is what all calls to one host share.
type guards struct {
	scheme, host string
	key          string      // of budget, breaker and gate
	again        atomic.Bool // a second call came, without a look for the key

	budget  backoff.Budget
	breaker *backoff.Breaker
	gate    *gate // nil without ShareRetryAfter

	source        *backoff.Policy   // of the Transport, when these guards were made
	final         func(error) error // makes the error of a call final; nil unless an override asks for that
	policy        backoff.Policy    // source, with budget and gate; for idempotent requests
	nonIdempotent backoff.Policy    // the same for other requests
	timeouts      backoff.Schedule  // of attempts; nil without any
	plain         bool              // neither policy nor Transport need anything before the first attempt
	first         granter           // of the policy's budget; nil without one

	lastEndpoint atomic.Pointer[namedEndpoint] // of the last call about which observers asked
}

// granter is a Budget with the optional method GrantsFirst.
type granter interface{ GrantsFirst() bool }

// A pacedBudget is a Budget with the optional methods for an attempt that waits.
// What JoinBudgets returns is one.
type pacedBudget interface {
	backoff.Budget
	Pace(t backoff.Ticket) (backoff.Ticket, time.Duration, bool)
	Confirm(t backoff.Ticket) bool
}

// grantedBudget is the budget of a call whose first attempt was made without
// being asked for, as the budget said. It may say otherwise by now.
type grantedBudget struct{ pacedBudget }

func (grantedBudget) GrantsFirst() bool { return true }

// unasked reports whether a request may be sent now with nothing done before,
// unless the request itself needs it.
func (g *guards) unasked() bool { return g.plain && (g.first == nil || g.first.GrantsFirst()) }

// ended returns the error of a call to the host, which has ended.
func (g *guards) ended(err error) error {
	if g.final == nil {
		return err
	}
	return g.final(err)
}

// watched reports whether the breaker of the host has an observer.
func (g *guards) watched() bool { return g.breaker != nil && g.breaker.Observer != nil }

// do calls op if the breaker of the host, if any, lets it pass.
func (g *guards) do(ctx context.Context, op func(context.Context) error) error {
	if g.breaker == nil {
		return op(ctx)
	}
	return g.breaker.Do(ctx, op)
}

// carrier returns the policy for a call to the host.
func (g *guards) carrier(p backoff.Policy, classify backoff.Classifier) *backoff.Policy {
	timeouts.Remove(&p)
	p.Idempotency = nil
	p.Classify = classify
	if p.Budget == nil {
		p.Budget = g.budget
	}
	if g.gate != nil {
		p.Budget = backoff.JoinBudgets(p.Budget, g.gate)
	}
	return &p
}

// hosts holds the guards of a Transport.
type hosts struct {
	budgets  backoff.Budgets  // unless Transport.Budgets is set
	breakers backoff.Breakers // unless Transport.Breakers is set
	gates    registry.Registry[*gate]

	endpoints registry.Registry[*endpoint.Endpoint]

	last atomic.Pointer[guards] // most clients call one host
}

// guard returns the guards for a URL.
func (t *Transport) guard(u *url.URL) *guards {
	last := t.hosts.last.Load()
	policy, final := t.current()
	if last != nil && last.host == u.Host && last.scheme == u.Scheme && last.source == policy {
		if !last.again.Load() {
			last.again.Store(true)
		}
		return last
	}
	if last != nil && last.again.Load() {
		t.lookUp(last.key) // so that its key counts as used
	}
	g := t.newGuards(u, policy, final)
	t.hosts.last.Store(g)
	return g
}

// lookUp returns what calls to the host of a key share.
func (t *Transport) lookUp(key string) (budget backoff.Budget, breaker *backoff.Breaker, gate *gate) {
	if !t.Unguarded {
		budget, breaker = t.budgets().For(key), t.breakers().For(key)
	}
	if t.ShareRetryAfter {
		gate = t.hosts.gates.Get(key)
	}
	return budget, breaker, gate
}

// newGuards returns new guards for a URL under a policy, with the budget, the
// breaker and the gate of its host. Users see the key of the host as the name of
// its breaker and budget.
func (t *Transport) newGuards(u *url.URL, policy *backoff.Policy, final func(error) error) *guards {
	key := beginning(strings.ToLower(u.Scheme + "://" + u.Host))
	g := &guards{scheme: u.Scheme, host: u.Host, key: key, source: policy, final: final}
	g.budget, g.breaker, g.gate = t.lookUp(key)
	g.timeouts = timeouts.Of(policy)
	g.policy = *g.carrier(*policy, t.classify)
	g.nonIdempotent = g.policy
	g.nonIdempotent.Idempotency = backoff.NonIdempotent
	g.first, _ = g.policy.Budget.(granter)
	g.plain = t.plain(policy) && !g.watched() && (g.policy.Budget == nil || g.first != nil) && plainPolicy(&g.policy)
	return g
}

// plain reports whether the Transport sends requests as they are, unless they
// fail.
func (t *Transport) plain(policy *backoff.Policy) bool {
	return timeouts.Of(policy) == nil && t.wholeTimeout == 0 && policy.Idempotency == nil && t.Idempotency == nil &&
		t.Inspect == nil && t.Propagate == nil && t.MaxBuffer == 0 && t.ReadAhead == 0 && !t.Resume && !t.ShareRetryAfter
}

// plainPolicy reports whether a policy needs nothing before the first failure,
// its budget aside.
func plainPolicy(p *backoff.Policy) bool {
	return p.Observer == nil && p.MaxElapsed <= 0 && p.Validate() == nil
}

// budgets returns the budgets of the hosts.
func (t *Transport) budgets() *backoff.Budgets {
	if t.Budgets != nil {
		return t.Budgets
	}
	return &t.hosts.budgets
}

// breakers returns the breakers of the hosts.
func (t *Transport) breakers() *backoff.Breakers {
	if t.Breakers != nil {
		return t.Breakers
	}
	return &t.hosts.breakers
}

// gate holds all requests to a host off until the time that an answer of the
// host asked for. It is told of every answer, which says more than the error of
// an attempt.
type gate struct{ pace.HoldOff }

// Done implements [backoff.Budget].
func (*gate) Done(backoff.Ticket, backoff.Result) {}
