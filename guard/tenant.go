package guard

import (
	"strconv"
	"strings"

	"github.com/gobackoff/backoff/internal/registry"
)

// Tenant returns the Service of a tenant of s: a customer, or a credential. It has
// the breaker of s, but a budget and a line of its own, so that a tenant who is
// throttled does not slow the others down. The same key returns the same Service
// until it is forgotten, as [Services] forgets keys. New of the Services of s makes
// it, with the key "service#tenant". Without New it has the FailFast of s, and a
// pace.Pacer unless s has NoBudget. If there are too many tenants, the rest share one
// Service. Tenant returns nil if New does, and for a nil s.
func (s *Service) Tenant(key string) *Service {
	if s == nil {
		return nil
	}
	all := s.use()
	if !all.shared {
		next := *all
		next.shared = true
		s.parts.CompareAndSwap(all, &next)
	}
	s.of.once.Do(s.of.setUp)
	t := s.of.tenants.Get(strconv.Itoa(len(s.key)) + "#" + s.key + "#" + key)
	if t == nil || t.key == registry.Rest && s.of.only == nil { // which tenants of other services have, too
		return t
	}
	if own := t.use(); own.breaker != all.breaker || !own.tenant {
		next := *own
		next.breaker, next.shared, next.tenant = all.breaker, true, true
		t.parts.Store(&next)
	}
	return t
}

// tenantKey returns the key of a tenant without the length at its beginning, by which
// the tenant "b#c" of "a" is not the tenant "c" of "a#b".
func tenantKey(kept string) string {
	if _, key, ok := strings.Cut(kept, "#"); ok {
		return key
	}
	return kept // that of the tenants without a place
}
