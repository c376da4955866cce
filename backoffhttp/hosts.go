package backoffhttp

import (
	"cmp"
	"context"
	"hash/maphash"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/endpoint"
	"github.com/gobackoff/backoff/internal/registry"
	"github.com/gobackoff/backoff/internal/timeouts"
	"github.com/gobackoff/backoff/pace"
)

// guards is what all calls of a tenant to one host share.
type guards struct {
	scheme, host    string
	tenant          tenant
	keys            keys
	usedSinceLookup atomic.Bool // set by the second call since the last registry lookup
	shared

	patience *backoff.Patience // nil without Patient

	source        *backoff.Policy                    // of the Transport, when these guards were made
	final         func(context.Context, error) error // makes the error of a call final; nil unless an override asks for that
	policy        backoff.Policy                     // source, with budget and gate; for idempotent requests
	nonIdempotent backoff.Policy                     // the same for other requests
	timeouts      backoff.Schedule                   // of attempts; nil without any
	plain         bool                               // neither policy nor Transport need anything before the first attempt

	lastEndpoint atomic.Pointer[namedEndpoint] // of the last call about which observers asked
}

// keys are the names of guards.
type keys struct {
	host    string   // such as https://api.example.com
	breaker string   // that of the host, unless Transport.Guards returned a name
	budget  string   // also of the gate; that of the breaker, unless there is an account
	account *account // nil if the tenant shares the budget of the host
	clients *clients // of the host
}

// shared are the guards that have their own keys.
type shared struct {
	budget  backoff.Budget
	breaker *backoff.Breaker
	gate    *gate    // nil without ShareRetryAfter
	account *account // as in keys
	clients *clients // as in keys
}

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

// waitsForTurn reports whether calls of this credential wait, while those
// of others may not. Such a call must not probe the host, because it would hold the
// probe while it waits.
func (g *guards) waitsForTurn() bool {
	p, ok := g.budget.(*pace.Pacer)
	if !ok || !g.keys.clients.several.Load() {
		return false
	}
	_, waiting := p.Limit()
	return waiting > 0
}

// watched reports whether the breaker of the host has an observer.
func (g *guards) watched() bool { return g.breaker != nil && g.breaker.Observer != nil }

// policyFor returns the policy for a call to the host.
func (g *guards) policyFor(p backoff.Policy, classify backoff.Classifier) *backoff.Policy {
	timeouts.Remove(&p)
	p.Idempotency = nil
	p.Classify = classify
	p.Budget = cmp.Or(p.Budget, g.budget)
	if g.gate != nil {
		p.Budget = backoff.JoinBudgets(g.gate, p.Budget)
	}
	return &p
}

// hosts holds the guards of a Transport.
type hosts struct {
	budgets  backoff.Budgets  // unless Transport.Budgets is set
	breakers backoff.Breakers // unless Transport.Breakers is set
	gates    registry.Registry[*gate]
	tenants  tenants
	patience registry.Registry[*backoff.Patience]

	endpoints registry.Registry[*endpoint.Endpoint]

	last   atomic.Pointer[guards] // most clients call one host, for one tenant
	recent atomic.Pointer[recent] // nil until there is a second host or tenant
}

// openHosts says how the guards of each host are made. observer is that of the
// policy.
func (t *Transport) openHosts(observer backoff.Observer) {
	maxWait := func() time.Duration {
		policy, _ := t.current()
		return policy.MaxRetryAfter
	}
	t.hosts.tenants.open()
	t.hosts.tenants.ignored = t.Unguarded && !t.ShareRetryAfter
	t.hosts.tenants.together = t.Budgets != nil
	t.hosts.budgets.New = func(string) backoff.Budget { return &pace.Pacer{MaxWait: maxWait()} }
	t.hosts.breakers.New = func(key string) *backoff.Breaker {
		return &backoff.Breaker{Name: key, Observer: onlyTransitions(observer), MaxRetryAfter: max(0, maxWait())}
	}
	t.hosts.gates.New = func(string, bool) *gate {
		return &gate{pace.HoldOff{MaxWait: maxWait()}}
	}
	t.hosts.gates.SetLimits(0, 0)
	t.hosts.patience.New = func(key string, _ bool) *backoff.Patience { return &backoff.Patience{Name: key} }
	t.hosts.patience.SetLimits(0, 0)
	t.hosts.endpoints.New = func(key string, _ bool) *endpoint.Endpoint { return t.newEndpoint(key) }
	t.hosts.endpoints.SetLimits(0, 0)
}

// onlyTransitions returns an observer that passes on the transitions of a breaker
// alone: the call reports itself that the breaker refused it.
func onlyTransitions(o backoff.Observer) backoff.Observer {
	if o == nil {
		return nil
	}
	return func(ctx context.Context, e backoff.Event) {
		if e.Kind == backoff.EventTransition {
			o(ctx, e)
		}
	}
}

// recent holds guards that were made lately, by a hash of their host and tenant.
type recent [64]fewGuards

// fewGuards holds guards with the newest first, until others take their places.
type fewGuards [4]atomic.Pointer[guards]

// find returns the guards for a tenant of the host of a URL, or nil.
func (f *fewGuards) find(u *url.URL, who tenant, policy *backoff.Policy) *guards {
	for i := range f {
		if g := f[i].Load(); g.serves(u, who, policy) {
			return g
		}
	}
	return nil
}

// add adds guards. If others are added at the same time, some are made again.
func (f *fewGuards) add(g *guards) {
	for i := len(f) - 1; i > 0; i-- {
		f[i].Store(f[i-1].Load())
	}
	f[0].Store(g)
}

// guard returns the guards for a request.
func (t *Transport) guard(req *http.Request) *guards {
	policy, final := t.current()
	who := t.tenant(req)
	last := t.hosts.last.Load()
	if last.serves(req.URL, who, policy) {
		if !last.usedSinceLookup.Load() {
			last.usedSinceLookup.Store(true)
		}
		return last
	}
	if last != nil && last.usedSinceLookup.Load() {
		t.lookUp(last) // so that its keys count as used
	}
	g := t.otherGuards(req.URL, who, policy, final)
	if g != last {
		t.hosts.last.Store(g)
	}
	return g
}

// serves reports whether g are the guards for a tenant of the host of a URL,
// under a policy.
func (g *guards) serves(u *url.URL, who tenant, policy *backoff.Policy) bool {
	return g != nil && g.host == u.Host && g.scheme == u.Scheme && g.tenant == who && g.source == policy
}

// tenant returns for whom a request is made.
func (t *Transport) tenant(req *http.Request) tenant {
	if t.Guards != nil {
		return tenant{name: truncateClone(t.Guards(req))}
	}
	return tenant{credential: t.hosts.tenants.credential(req.Header)}
}

// otherGuards returns the guards for a tenant of the host of a URL, which the last
// call did not have.
func (t *Transport) otherGuards(u *url.URL, who tenant, policy *backoff.Policy, final func(context.Context, error) error) *guards {
	few := t.hosts.bucket(u, who)
	if g := few.find(u, who, policy); g != nil && t.lookUp(g).same(&g.shared) {
		return g
	}
	k := keys{}
	if who.name != "" || who == (tenant{}) {
		k = t.keysOf(u)
	} else {
		k = t.otherGuards(u, tenant{}, policy, final).keys // which are made once for all credentials
	}
	if who != (tenant{}) && !k.nameFor(t, who) {
		return t.otherGuards(u, unknown, policy, final)
	}
	g := &guards{scheme: strings.Clone(u.Scheme), host: strings.Clone(u.Host), keys: k, source: policy, final: final}
	g.tenant = tenant{strings.Clone(who.name), who.credential} // no part of a request stays alive
	g.prepare(t)
	if len(u.Host) <= maxName {
		few.add(g)
	}
	return g
}

// keysOf returns the keys of the host of a URL.
func (t *Transport) keysOf(u *url.URL) keys {
	host := truncateClone(strings.ToLower(u.Scheme + "://" + u.Host))
	return keys{host: host, breaker: host, budget: host, clients: t.hosts.tenants.clients.Get(host)}
}

// nameFor names the keys of a host for a tenant, and reports whether there are
// any for it.
func (k *keys) nameFor(t *Transport, who tenant) (known bool) {
	switch {
	case who.name != "":
		k.breaker += "#" + who.name
		k.budget = k.breaker
		return true
	case who == unknown && t.hosts.tenants.together:
		return true
	case who == unknown:
		k.budget += "#other"
		return true
	}
	if k.account, known = t.hosts.tenants.account(k.host, k.clients, who.credential); k.account != nil {
		k.budget += k.account.name
	}
	return known
}

// bucket returns the bucket of recent guards for a tenant of the host of a URL.
func (h *hosts) bucket(u *url.URL, who tenant) *fewGuards {
	all := h.recent.Load()
	if all == nil {
		h.recent.CompareAndSwap(nil, new(recent))
		all = h.recent.Load()
	}
	hash := maphash.String(h.tenants.seed, u.Host) + who.credential
	if who.name != "" {
		hash += 3 * maphash.String(h.tenants.seed, who.name)
	}
	return &all[hash%uint64(len(all))]
}

// lookUp returns what the keys of g stand for now.
func (t *Transport) lookUp(g *guards) (s shared) {
	k := &g.keys
	s.clients = t.hosts.tenants.clients.Get(k.host)
	if !t.Unguarded {
		s.budget, s.breaker = t.budgets().For(k.budget), t.breakers().For(k.breaker)
	}
	if t.ShareRetryAfter {
		s.gate = t.hosts.gates.Get(k.budget)
	}
	if k.account != nil {
		s.account = t.hosts.tenants.use(k.account, k.clients)
	}
	return s
}

// same reports whether both hold the same guards. It returns false for a budget
// that is no pointer, which may not be comparable.
func (s shared) same(as *shared) bool {
	pointer := s.budget == nil || reflect.TypeOf(s.budget).Kind() == reflect.Pointer
	return s.breaker == as.breaker && s.gate == as.gate && s.account == as.account && s.clients == as.clients && pointer && s.budget == as.budget
}

// prepare completes guards whose keys have their names.
func (g *guards) prepare(t *Transport) {
	g.shared = t.lookUp(g)
	if t.Patient {
		g.patience = t.hosts.patience.Get(g.keys.budget)
	}
	g.timeouts = timeouts.Of(g.source)
	g.policy = *g.policyFor(*g.source, t.classify)
	g.nonIdempotent = g.policy
	g.nonIdempotent.Idempotency = backoff.NonIdempotent
	g.plain = t.plain(g.source) && !g.watched() && plainPolicy(&g.policy)
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
func (t *Transport) budgets() *backoff.Budgets { return cmp.Or(t.Budgets, &t.hosts.budgets) }

// breakers returns the breakers of the hosts.
func (t *Transport) breakers() *backoff.Breakers { return cmp.Or(t.Breakers, &t.hosts.breakers) }

// gate delays all requests to a host until the time that a response asked for. It
// sees every response, and ignores the errors of attempts.
type gate struct{ pace.HoldOff }

// Done implements [backoff.Budget].
func (*gate) Done(backoff.Ticket, backoff.Result) {}
