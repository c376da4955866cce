package guard

import "github.com/gobackoff/backoff/internal/registry"

// Tenant returns the Service of a tenant of s: a customer, or a credential. It has
// a budget and a line of its own, so that a tenant who is throttled does not slow
// the others down, and the breaker of s. For the same key it is the same, until the
// key is forgotten: it belongs to the [Services] of s, under the key of s, a # and
// its own. It has the settings of s, or those that New of the Services makes. Where that
// returns nil, or s is nil, it is nil. The Service of keys without a place has its own breaker.
func (s *Service) Tenant(key string) *Service {
	if s == nil {
		return nil
	}
	all := s.use()
	if !all.several {
		next := *all
		next.several = true
		s.parts.CompareAndSwap(all, &next)
	}
	t := s.tenants.For(s.key + "#" + key)
	if t == nil || t.key == registry.Rest { // which others have, too
		return t
	}
	if own := t.use(); own.breaker != all.breaker {
		next := *own
		next.breaker, next.several = all.breaker, true
		t.parts.Store(&next)
	}
	return t
}

// alike returns a Service with the settings of s and parts of its own.
func (s *Service) alike(key string) *Service {
	return &Service{Name: s.Name + key, NoBudget: s.NoBudget, NoBreaker: true,
		Patient: s.Patient, MaxWaiting: s.MaxWaiting}
}
