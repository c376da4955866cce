package guard

import (
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/registry"
)

// Services keeps one [Service] per key, such as a host, a shard or a table, so that
// one that is down or busy does not take the others along:
//
//	err := services.For(host).Do(ctx, policy, call)
//
// The zero value makes a Service with its defaults, named after the key. Untrusted
// clients may choose the keys: the number of keys is bounded, and a key that is not
// used is forgotten with its Service. Of a key beyond 4 KiB the beginning and a hash
// are kept. A Service of a forgotten key keeps working for its holders, while For
// returns a new one.
//
// A Service is not forgotten while its circuit is open, while calls wait for it, or
// while its breaker has another mode than [backoff.ModeEnforce], unless New set that
// mode. While its circuit is half-open, it is kept if it was asked for within Idle.
// If MaxKeys is reached, such a Service moves to one of MaxKeys further places. If
// those are full, too, all new keys share one Service, which New makes for the key
// "(other)".
//
// A Services must not be copied, nor its fields changed, after first use. It is safe
// for concurrent use. Looking up a known key takes no lock and reads no clock.
type Services struct {
	_ [0]func() // no unkeyed literals, no ==

	// Maker of the Service of a key that is new or was forgotten. Defaults to one
	// that returns &Service{Name: key}. It must return a new Service, or nil for a
	// key without one, and not call For. It also makes those of tenants, whose keys
	// are "service#tenant".
	New func(key string) *Service

	// Most keys that are kept. Defaults to 1024; negative means no limit. Tenants
	// have as many places of their own. Beyond MaxKeys, a new key evicts another:
	// one that was asked for only once, if there is one. The Service of such a new
	// key has no retries before its third success.
	MaxKeys int

	// Least time that a key is kept after it was last asked for, as far as MaxKeys
	// allows. Defaults to 10 minutes; negative means no end.
	Idle time.Duration

	once    sync.Once
	keys    registry.Registry[*Service]
	tenants registry.Registry[*Service] // of all of them
	only    *Service                    // whose tenants these are; nil if they have keys
}

// For returns the Service of a key, or nil if New did: Do of a nil Service returns
// an error.
func (s *Services) For(key string) *Service {
	s.once.Do(s.setUp)
	return s.keys.Get(key)
}

// All returns the keys that are kept, with their Services, the oldest first, and then
// the tenants of all of them.
func (s *Services) All() iter.Seq2[string, *Service] {
	s.once.Do(s.setUp)
	return func(yield func(string, *Service) bool) {
		more := true
		s.keys.Range(func(key string, of *Service) bool { more = yield(key, of); return more })
		if more {
			s.tenants.Range(func(key string, of *Service) bool { return yield(tenantKey(key), of) })
		}
	}
}

// Evictions counts the keys that were evicted for others, and the calls of For and Tenant
// for keys that had to share a Service. If it grows, MaxKeys is less than the keys in
// use, or an untrusted client sends many keys.
func (s *Services) Evictions() uint64 { return s.keys.Evictions() + s.tenants.Evictions() }

// setUp prepares the registry, at the first use.
func (s *Services) setUp() {
	s.keys.New = s.newService
	s.tenants.New = func(key string, late bool) *Service { return s.newService(tenantKey(key), late) }
	for _, r := range []*registry.Registry[*Service]{&s.keys, &s.tenants} {
		r.Claim = (*Service).claim
		r.SetLimits(s.MaxKeys, s.Idle)
	}
}

// newService makes the Service of a key, which may be too late for free retries.
func (s *Services) newService(key string, late bool) *Service {
	made := &Service{Name: key}
	switch {
	case s.New != nil:
		made = s.New(key)
	case s.only != nil:
		made = &Service{Name: s.only.Name + key, NoBudget: s.only.NoBudget, FailFast: s.only.FailFast, MaxWaiting: s.only.MaxWaiting}
	}
	if made != nil {
		made.key, made.late, made.of = key, late, s
	}
	return made
}

// claim says why the Service must not be forgotten, if it must not.
func (s *Service) claim() registry.Claim {
	if s == nil {
		return registry.None
	}
	breaker := s.Breaker // of a Service that is new, as New made it
	p := s.parts.Load()
	if p != nil {
		breaker = p.breaker
	}
	switch {
	case s.line.Waiting() > 0:
		return registry.Always
	case breaker == nil, p != nil && p.tenant: // whose breaker is another's
		return registry.None
	}
	if mode := breaker.Stats().Mode; mode != backoff.ModeEnforce {
		return registry.Always + registry.Claim(mode)
	}
	return [...]registry.Claim{registry.None, registry.Always, registry.InUse}[breaker.State()]
}

// unproved is the budget of a key that came when there was no place for it. It grants
// no retry before the third success, so that a flood of new keys is not multiplied.
type unproved struct {
	backoff.Budget
	successes atomic.Int32
}

const proved = 3

// isUnproved reports whether the service has no retries yet.
func (s *Service) isUnproved() bool {
	u, ok := s.use().budget.(*unproved)
	return ok && u.successes.Load() < proved
}

// Reserve implements [backoff.Budget].
func (u *unproved) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	if !a.First() && u.successes.Load() < proved {
		return backoff.Ticket{}, 0, false
	}
	return u.Budget.Reserve(a)
}

// Done implements [backoff.Budget].
func (u *unproved) Done(t backoff.Ticket, r backoff.Result) {
	if !r.Failed && !r.NotSent && u.successes.Load() < proved {
		u.successes.Add(1)
	}
	u.Budget.Done(t, r)
}
