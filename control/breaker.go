package control

import (
	"slices"
	"sync"
	"weak"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
)

// Breaker registers a breaker under its name, once and with one panel only. When
// an override of its mode ends, the breaker is in the mode that it was in
// before, unless the program has forced another one meanwhile.
func (p *Panel) Breaker(b *backoff.Breaker) {
	g := &group{name: b.Name, single: b}
	g.add("", b)
	p.registerGroup(g, noKeys)
}

// Services registers the breakers of services under a name, and each under the key
// of its service. Call it before the first use of s: it sets s.New to a function that
// calls the former one, so that an override also holds for the breakers of keys that
// are new. The Observer of such a breaker gets no event when it begins in another
// mode. Tenants have the breaker of their service, and no key of their own. To
// override the breakers of the hosts of a backoffhttp.Transport, set its Services to
// s. They have the Observer that s.New gives them, and no longer that of the
// Transport's policy.
func (p *Panel) Services(name string, s *guard.Services) {
	g := &group{name: name}
	inner := s.New
	s.New = func(key string) *guard.Service {
		made := &guard.Service{Name: key}
		if inner != nil {
			made = inner(key)
		}
		if made != nil && !made.NoBreaker {
			if made.Breaker == nil { // as the service would make it
				made.Breaker = &backoff.Breaker{Name: made.Name, Observer: made.Observer}
			}
			g.add(key, made.Breaker)
		}
		return made
	}
	p.registerGroup(g, func() []string { return keysOf(s) })
}

// registerGroup registers the breakers of a group.
func (p *Panel) registerGroup(g *group, keys func() []string) {
	p.register(target{name: g.name, what: []string{Breakers}, keys: keys, apply: g.apply})
}

// A group is a breaker, or those of services.
type group struct {
	name   string
	single *backoff.Breaker // keeps it alive; nil for services, which keep their own

	mu      sync.Mutex
	members []*member
	rules   rules
}

// A member is a breaker of a group. The group does not keep it alive: services of
// keys that are not used are forgotten.
type member struct {
	key     string
	breaker weak.Pointer[backoff.Breaker]
	forced  bool                // by an override
	mode    backoff.BreakerMode // by which override
	before  backoff.BreakerMode // the program's
}

// rules are the modes that overrides ask for, by key. The mode of "" is for all keys
// without one of their own.
type rules map[string]backoff.BreakerMode

// of returns the mode that is asked for a key, and whether one is.
func (r rules) of(key string) (want backoff.BreakerMode, asked bool) {
	if want, asked = r[key]; !asked {
		want, asked = r[""]
	}
	return want, asked
}

// add adds a breaker that is not in use yet. It takes no lock of the panel,
// because the Services hold their own.
func (g *group) add(key string, b *backoff.Breaker) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.members) == cap(g.members) {
		g.members = slices.DeleteFunc(g.members, func(m *member) bool { return m.breaker.Value() == nil })
	}
	m := &member{key: key, breaker: weak.Make(b)}
	g.members = append(g.members, m)
	if want, asked := g.rules.of(key); asked {
		observer := b.Observer
		b.Observer = nil // it might ask for this service
		m.force(want, asked)
		b.Observer = observer
	}
}

// force puts the breaker in a mode, or in that of the program if no override asks for
// one.
func (m *member) force(want backoff.BreakerMode, asked bool) {
	b := m.breaker.Value()
	if b == nil || !asked && !m.forced {
		return
	}
	now := b.Stats().Mode
	if !m.forced || now != m.mode { // it is not ours
		m.before = now
	}
	if !asked {
		want = m.before
	}
	b.Force(want)
	m.forced, m.mode = asked, want
}

// keysOf returns the keys of services that have a breaker of their own. The breaker
// of a tenant is that of another service.
func keysOf(of *guard.Services) (all []string) {
	for key, s := range of.All() {
		if _, b := s.Parts(); key != "" && b != nil && b == s.Breaker {
			all = append(all, key)
		}
	}
	return all
}

// apply applies the overrides in force. The breakers are forced later, in order and without
// the lock of the panel, because their Observers may call the panel.
func (g *group) apply(p *Panel) {
	next := make(rules)
	if a := p.find(Breakers, g.name, ""); a != nil {
		next[""] = a.mode()
	}
	for t, a := range p.overrides {
		if t.What == Breakers && t.Name == g.name && t.Key != "" {
			next[t.Key] = a.mode()
		}
	}
	p.mu.Add(func() {
		g.mu.Lock()
		g.rules = next
		members := slices.Clone(g.members)
		g.mu.Unlock()
		for _, m := range members {
			m.force(next.of(m.key))
		}
	})
}
