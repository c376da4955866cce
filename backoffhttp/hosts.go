package backoffhttp

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/guard/endpoint"
	"github.com/gobackoff/backoff/internal/registry"
	"github.com/gobackoff/backoff/internal/timeouts"
)

// guards is what all calls of an owner share.
type guards struct {
	owner
	names           names
	usedSinceLookup atomic.Bool // set by the second call since the last registry lookup
	found

	budget  backoff.Budget   // of the service, nil without one
	breaker *backoff.Breaker // of the service, nil without one

	// final makes the error of a call permanent. It is nil unless an override asks for that.
	final func(context.Context, error) error

	policy        backoff.Policy   // that of the owner, with the budget; for idempotent requests
	nonIdempotent backoff.Policy   // the same for other requests
	holder        holder           // the budget of policy, if it can make all calls wait
	timeouts      backoff.Schedule // of attempts; nil without any
	plain         bool             // a request can be sent with nothing done before

	lastEndpoint atomic.Pointer[namedEndpoint] // of the last call about which observers asked
}

// An owner is whose guards a call needs: those of a host, of a credential that is
// used with it, or of a key.
type owner struct {
	scheme, host string
	key          string          // that Transport.Key returned
	credential   uint64          // a hash; 0 if there is none
	source       *backoff.Policy // of the Transport
}

// names are the keys by which guards are found.
type names struct {
	service string   // such as https://api.example.com, or what Transport.Key returned
	tenant  string   // the number of a credential; "" for the first one
	account *account // nil if the credential has no number
}

// found is what names stand for. That changes when a key is forgotten.
type found struct {
	ofHost  *guard.Service // nil if there is none
	service *guard.Service // of the tenant, or that of the host
	clients *clients       // of the host
	account *account
}

// holder is a budget that can make all calls wait, as pace.HoldOff does.
type holder interface{ Hold(time.Duration) }

// grantedBudget is the budget of a call whose first attempt was made without
// being asked for, as the budget said. It may say otherwise by now.
type grantedBudget struct{ backoff.Budget }

func (grantedBudget) GrantsFirst() bool { return true }

// canSendPlain reports whether a request may be sent now with nothing done before,
// unless the request itself needs it.
func (g *guards) canSendPlain() bool {
	return g.plain && (g.policy.Budget == nil || g.policy.Budget.GrantsFirst())
}

// finalError returns the error of a call to the host, which has ended.
func (g *guards) finalError(ctx context.Context, err error) error {
	if g.final == nil {
		return err
	}
	return g.final(ctx, err)
}

// watched reports whether the breaker of the host has an observer.
func (g *guards) watched() bool { return g.breaker != nil && g.breaker.Observer != nil }

// address returns the scheme and the host in lower case.
func (o *owner) address() string { return truncateClone(strings.ToLower(o.scheme + "://" + o.host)) }

// policyFor returns the policy for a call to the host.
func (g *guards) policyFor(p backoff.Policy, classify backoff.Classifier) *backoff.Policy {
	timeouts.Remove(&p)
	p.Idempotency = nil
	p.Classify = classify
	p.Budget = cmp.Or(p.Budget, g.budget, g.source.Budget)
	return &p
}

// hosts holds the guards of a Transport.
type hosts struct {
	guarded bool        // they have services
	watched atomic.Bool // so are the connections of all attempts, see watch

	// Functions that an Unguarded does not have, because it must not link them.
	find  func(*names) found                                      // looks names up
	parts func(*guard.Service) (backoff.Budget, *backoff.Breaker) // of a service
	state func(*guard.Service) guard.State                        // nil without guards

	services  guard.Services // unless Transport.Services is set
	tenants   tenants
	endpoints registry.Registry[*endpoint.Endpoint]

	last   atomic.Pointer[guards] // most clients call one host, for one tenant
	recent recent
}

// openGuarded is open for a Transport, whose hosts have services.
func (t *engine) openGuarded() {
	t.open()
	h := &t.hosts
	h.guarded, h.find, h.parts, h.state = true, t.find, (*guard.Service).Parts, (*guard.Service).State
	h.tenants.open()
	if t.Services != nil {
		h.tenants.count = &sharedCount
	}
	policy, _ := t.current()
	var observer backoff.Observer
	if tell := policy.Observer; tell != nil {
		observer = func(ctx context.Context, e backoff.Event) {
			if e.Kind == backoff.EventTransition { // the call reports itself that the breaker refused it
				tell(ctx, e)
			}
		}
	}
	h.services.New = func(key string) *guard.Service {
		policy, _ := t.current()
		return &guard.Service{
			Name:          key,
			Observer:      observer,
			Classify:      knownAfter(policy.Classify),
			MaxRetryAfter: policy.MaxRetryAfter,
			NoBudget:      t.Control == nil && policy.Budget != nil, // it would never be asked
		}
	}
}

// services returns the services of the hosts.
func (t *engine) services() *guard.Services { return cmp.Or(t.Services, &t.hosts.services) }

// find returns what names stand for now.
func (t *engine) find(n *names) (f found) {
	f.clients = t.hosts.tenants.clients.Get(n.service)
	if n.account != nil {
		f.account = t.hosts.tenants.use(n.account, f.clients)
	}
	f.ofHost = t.services().For(n.service)
	if f.service = f.ofHost; f.ofHost != nil && n.tenant != "" {
		f.service = f.ofHost.Tenant(n.tenant)
	}
	return f
}

// recent holds guards that were made lately, up to maxRecent.
type recent struct {
	mu sync.RWMutex
	of map[owner]*guards
}

const maxRecent = 256

// find returns the guards of an owner, or nil.
func (r *recent) find(of owner) *guards {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.of[of]
}

// add adds guards. If there is no room, the others are made again when they are needed.
func (r *recent) add(g *guards) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil || len(r.of) >= maxRecent {
		r.of = make(map[owner]*guards)
	}
	r.of[g.owner] = g
}

// guard returns the guards for a request.
func (t *engine) guard(req *http.Request) *guards {
	policy, final := t.current()
	of := owner{scheme: req.URL.Scheme, host: req.URL.Host, source: policy}
	if t.hosts.guarded {
		if t.Key != nil {
			of.key = truncateClone(t.Key(req))
		}
		if of.key == "" {
			of.credential = t.hosts.tenants.credential(req.Header)
		}
	}
	last := t.hosts.last.Load()
	if last != nil && last.owner == of {
		if !last.usedSinceLookup.Load() {
			last.usedSinceLookup.Store(true)
		}
		return last
	}
	if last != nil && last.usedSinceLookup.Load() {
		t.hosts.find(&last.names) // so that they count as used
	}
	g := t.otherGuards(of, final)
	if g != last {
		t.hosts.last.Store(g)
	}
	return g
}

// otherGuards returns the guards of an owner that is not that of the last call.
func (t *engine) otherGuards(of owner, final func(context.Context, error) error) *guards {
	if g := t.hosts.recent.find(of); g != nil && t.hosts.find(&g.names) == g.found {
		return g
	}
	n, known := t.namesOf(of, final)
	if !known {
		of.credential = unknown
		return t.otherGuards(of, final)
	}
	g := t.newGuards(of, n, final)
	if len(of.host) <= maxName {
		t.hosts.recent.add(g)
	}
	return g
}

// namesOf returns the names of an owner, and reports whether it has any: those of a
// credential that is not known are those of all unknown ones.
func (t *engine) namesOf(of owner, final func(context.Context, error) error) (n names, known bool) {
	switch {
	case of.key != "":
		return names{service: strings.Clone(of.key)}, true
	case of.credential == 0:
		return names{service: of.address()}, true
	}
	host := of
	host.credential = 0
	n = t.otherGuards(host, final).names // which are made once for all credentials
	if of.credential == unknown {
		n.tenant = "other"
		return n, true
	}
	if n.account, known = t.hosts.tenants.account(n.service, of.credential); n.account != nil {
		n.tenant = n.account.name
	}
	return n, known
}

// newGuards makes guards of an owner. No part of a request stays alive with them.
func (t *engine) newGuards(of owner, n names, final func(context.Context, error) error) *guards {
	of.scheme, of.host, of.key = strings.Clone(of.scheme), strings.Clone(of.host), strings.Clone(of.key)
	g := &guards{owner: of, names: n, final: final}
	g.found = t.hosts.find(&g.names)
	g.budget, g.breaker = t.hosts.parts(g.service)
	g.timeouts = timeouts.Of(of.source)
	g.policy = *g.policyFor(*of.source, t.classify)
	g.nonIdempotent = g.policy
	g.nonIdempotent.Idempotency = backoff.NonIdempotent
	g.holder, _ = g.policy.Budget.(holder)
	g.plain = t.plain(of.source) && g.holder == nil && !g.watched() && g.policy.Validate() == nil
	return g
}

// plain reports whether policy and Transport need nothing before a request fails.
func (t *engine) plain(p *backoff.Policy) bool {
	return p.Observer == nil && p.MaxElapsed <= 0 && timeouts.Of(p) == nil && t.wholeTimeout == 0 &&
		p.Idempotency == nil && t.Idempotency == nil && t.Inspect == nil && t.Propagate == nil &&
		t.MaxBuffer == 0 && t.ReadAhead == 0 && !t.Resume
}
