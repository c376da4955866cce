package backoff

import (
	"iter"
	"sync"
	"time"

	"github.com/gobackoff/backoff/internal/circuit"
	"github.com/gobackoff/backoff/internal/registry"
)

// Budgets keeps one [Budget] per key, such as a host, a table or a tenant, so
// that a busy key does not starve the others:
//
//	toHost := policy
//	toHost.Budget = budgets.For(host)
//
// The zero value makes a [RetryBudget] for each key. Untrusted clients may
// choose the keys: the number of keys is bounded, and a key that is not used
// is forgotten with its budget. Of a key beyond 4 KiB the beginning and a hash are
// kept. The budgets of all keys share the one call that may use all of its
// attempts (see [RetryBudget]), until a retry of it succeeds: an outage seen by
// many keys must not be multiplied. A Budgets must not be copied, nor its fields
// changed, after first use. It is safe for concurrent use; looking up a known key
// takes no lock.
type Budgets struct {
	// New makes the budget of a key that is new or was forgotten. It must not
	// call For. nil means a RetryBudget with its defaults.
	New func(key string) Budget
	// MaxKeys bounds the keys that are kept. Up to MaxKeys, a key in use is
	// never forgotten. Beyond, a new key evicts another: one that was asked
	// for only once, if there is one. It must earn its retries: its
	// RetryBudget has no spare one before its third success. Other budgets
	// start as New makes them. 0 means 1024, a negative number no limit.
	MaxKeys int
	// Idle is how long a key is kept at least after it was last asked for. 0
	// means 10 minutes, a negative number forever, as far as MaxKeys allows.
	Idle time.Duration

	once     sync.Once
	furthest furthestCall // of the RetryBudgets
	keys     registry.Registry[Budget]
}

// For returns the budget of key.
func (b *Budgets) For(key string) Budget {
	b.once.Do(b.setUp)
	return b.keys.Get(key)
}

// All returns the keys that are kept, with their budgets, the oldest first.
func (b *Budgets) All() iter.Seq2[string, Budget] {
	b.once.Do(b.setUp)
	return func(yield func(string, Budget) bool) { b.keys.Range(yield) }
}

// Evictions returns how many keys were forgotten for others, so far. If it
// grows, MaxKeys is less than the keys in use, or an untrusted client sends
// many keys.
func (b *Budgets) Evictions() uint64 { return b.keys.Evictions() }

// setUp prepares the registry, at the first use.
func (b *Budgets) setUp() {
	b.keys.New = b.newBudget
	b.keys.SetLimits(b.MaxKeys, b.Idle)
}

// newBudget makes the budget of a key, which may be too late for a spare retry.
func (b *Budgets) newBudget(key string, late bool) (made Budget) {
	if b.New == nil {
		made = new(RetryBudget)
	} else {
		made = b.New(key)
	}
	joinKeys(made, &b.furthest, late)
	return made
}

// Breakers keeps one [Breaker] per key, such as a host, a shard or a tenant, so
// that one that is down does not take the others along:
//
//	err := breakers.For(host).Do(ctx, call)
//
// The zero value makes a Breaker named after the key. Untrusted clients may
// choose the keys: the number of keys is bounded, and a key that is not used
// is forgotten with its breaker. Of a key beyond 4 KiB the beginning and a hash are
// kept. A breaker of a forgotten key keeps working for its holders, while For
// returns a new one.
//
// A breaker that refuses calls, or was told to behave differently, is not
// forgotten: it stays while it is open, while it is half-open and was asked for
// within Idle, and in any mode but [ModeEnforce]. Changes that New made are
// ignored.
//
// A Breakers must not be copied, nor its fields changed, after first use. It is
// safe for concurrent use; looking up a known key takes no lock and reads no
// clock.
type Breakers struct {
	// New makes the breaker of a key that is new or was forgotten. It must
	// return a new one and not call For. nil means &Breaker{Name: key}.
	New func(key string) *Breaker
	// MaxKeys bounds the keys that are kept. Up to MaxKeys, a key in use is
	// never forgotten. Beyond, a new key evicts another: one that was asked
	// for only once, if there is one. Its circuit is closed: if more keys than
	// MaxKeys are in use, some circuits may never see enough failures to open.
	// Breakers that must stay are evicted only for others, and up to MaxKeys
	// of them are kept besides. If there are more, all new keys share one
	// breaker, which New makes for the key "(other)". 0 means 1024, a negative
	// number no limit.
	MaxKeys int
	// Idle is how long a key is kept at least after it was last asked for. 0
	// means 10 minutes, a negative number forever, as far as MaxKeys allows.
	Idle time.Duration

	once sync.Once
	keys registry.Registry[*Breaker]
}

// For returns the breaker of key.
func (b *Breakers) For(key string) *Breaker {
	b.once.Do(b.setUp)
	return b.keys.Get(key)
}

// All returns the keys that are kept, with their breakers, the oldest first.
func (b *Breakers) All() iter.Seq2[string, *Breaker] {
	b.once.Do(b.setUp)
	return func(yield func(string, *Breaker) bool) { b.keys.Range(yield) }
}

// Evictions returns how many keys were forgotten for others, so far, and how
// often one was asked for that had to share a breaker. If it grows, MaxKeys is
// less than the keys in use, or an untrusted client sends many keys.
func (b *Breakers) Evictions() uint64 { return b.keys.Evictions() }

// setUp prepares the registry, at the first use.
func (b *Breakers) setUp() {
	b.keys.New = func(key string, _ bool) *Breaker {
		if b.New == nil {
			return &Breaker{Name: key}
		}
		return b.New(key)
	}
	b.keys.Claim = (*Breaker).claim
	b.keys.SetLimits(b.MaxKeys, b.Idle)
}

// claim says why the breaker must not be forgotten, if it must not.
func (b *Breaker) claim() registry.Claim {
	if b == nil {
		return registry.None
	}
	p := b.phase.Load()
	switch {
	case p == nil || p.Mode == circuit.Invalid:
		return registry.None
	case p.Mode != circuit.Enforce:
		return registry.Always + registry.Claim(p.Mode)
	}
	return [...]registry.Claim{registry.None, registry.Always, registry.InUse}[b.State()]
}
