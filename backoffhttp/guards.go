package backoffhttp

import (
	"context"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/registry"
	"github.com/gobackoff/backoff/internal/timeouts"
)

// guards are what the calls to one host share.
type guards struct {
	scheme, host string

	budget  backoff.Budget
	breaker *backoff.Breaker
	gate    *gate // nil unless ShareRetryAfter

	policy backoff.Policy // the Transport's, with these, for what is idempotent
	once   backoff.Policy // the same for what is not
	plain  bool           // neither policy nor Transport ask for anything before the first attempt
}

// do asks the breaker, where there is one, for a call.
func (g *guards) do(ctx context.Context, op func(context.Context) error) error {
	if g.breaker == nil {
		return op(ctx)
	}
	return g.breaker.Do(ctx, op)
}

// carrier returns the policy that a call to the host is carried by.
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

// hosts are the guards of a Transport without registries of its user's.
type hosts struct {
	budgets  backoff.Budgets
	breakers backoff.Breakers
	gates    registry.Registry[*gate]

	last atomic.Pointer[guards] // most clients call one host
}

// guard returns the guards for a URL.
func (t *Transport) guard(u *url.URL) *guards {
	if g := t.hosts.last.Load(); g != nil && g.host == u.Host && g.scheme == u.Scheme {
		return g
	}
	g := t.look(u)
	t.hosts.last.Store(g)
	return g
}

// look asks the registries. Users see the key as the name of breakers and budgets.
func (t *Transport) look(u *url.URL) *guards {
	key := strings.ToLower(u.Scheme + "://" + u.Host)
	g := &guards{scheme: u.Scheme, host: u.Host}
	if !t.Unguarded {
		g.budget, g.breaker = t.budgets().For(key), t.breakers().For(key)
	}
	if t.ShareRetryAfter {
		g.gate = t.hosts.gates.Get(key)
	}
	g.policy = *g.carrier(t.Policy, t.classify)
	g.once = g.policy
	g.once.Idempotency = backoff.NonIdempotent
	g.plain = t.plain() && undemanding(&g.policy)
	return g
}

// plain reports whether requests are sent as they are, unless they fail.
func (t *Transport) plain() bool {
	return timeouts.Of(&t.Policy) == nil && t.Policy.Idempotency == nil && t.Idempotency == nil &&
		t.Inspect == nil && t.Propagate == nil && t.MaxBuffer == 0 && t.ReadAhead == 0 && !t.Resume && !t.ShareRetryAfter
}

// undemanding reports whether a policy wants to be asked only after a failure. A
// RetryBudget refuses no first attempt, and its Done takes a success without a ticket.
func undemanding(p *backoff.Policy) bool {
	_, ok := p.Budget.(*backoff.RetryBudget)
	return (ok || p.Budget == nil) && p.Observer == nil && p.MaxElapsed <= 0 && p.Validate() == nil
}

func (t *Transport) budgets() *backoff.Budgets {
	if t.Budgets != nil {
		return t.Budgets
	}
	return &t.hosts.budgets
}

func (t *Transport) breakers() *backoff.Breakers {
	if t.Breakers != nil {
		return t.Breakers
	}
	return &t.hosts.breakers
}

// gate holds requests to a host back until the time that it asked for, its answers
// having been failures or not. It is a Budget, because a Budget may make any attempt
// wait.
type gate struct{ until atomic.Pointer[time.Time] }

// close shuts the gate for d, and up to a tenth longer for each request, unless it is
// shut for longer.
func (g *gate) close(d time.Duration) {
	until := time.Now().Add(d)
	for {
		old := g.until.Load()
		if old != nil && !until.After(*old) || g.until.CompareAndSwap(old, &until) {
			return
		}
	}
}

// Reserve implements [backoff.Budget].
func (g *gate) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	until := g.until.Load()
	if until == nil {
		return backoff.Ticket{}, 0, true
	}
	left := max(0, until.Sub(a.Time()))
	return backoff.Ticket{}, left + time.Duration(rand.Float64()*float64(left)/10), true
}

// Done implements [backoff.Budget].
func (*gate) Done(backoff.Ticket, backoff.Result) {}

const (
	maxGates = 1024
	idleGate = 10 * time.Minute
)
