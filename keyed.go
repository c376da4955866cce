package backoff

import (
	"iter"
	"sync"
	"time"

	"github.com/gobackoff/backoff/internal/registry"
)

// Budgets keeps one [Budget] per key, such as a host, a table or a tenant, so
// that a busy key does not starve the others:
//
//	toHost := policy
//	toHost.Budget = budgets.For(host)
//
// The zero value makes a [RetryBudget] for each key. Keys may come from
// strangers: the number of keys is bounded, and a key that is not used is
// forgotten with its budget. A Budgets must not be copied, nor its fields
// changed, after first use. It is safe for concurrent use; looking up a known
// key takes no lock.
type Budgets struct {
	// New makes the budget of a key that is new or was forgotten. nil means a
	// RetryBudget with its defaults.
	New func(key string) Budget
	// MaxKeys bounds the keys that are kept. 0 means 1024, a negative number no
	// limit.
	MaxKeys int
	// Idle is how long a key is kept at least after it was last asked for. 0
	// means 10 minutes, a negative number for ever, as far as MaxKeys allows.
	Idle time.Duration

	once sync.Once
	keys registry.Registry[Budget]
}

// For returns the budget of key.
func (b *Budgets) For(key string) Budget {
	b.once.Do(b.setUp)
	return b.keys.Get(key)
}

// setUp prepares the registry, at the first use.
func (b *Budgets) setUp() {
	b.keys.New = b.New
	if b.New == nil {
		b.keys.New = func(string) Budget { return new(RetryBudget) }
	}
	b.keys.SetLimits(b.MaxKeys, b.Idle)
}

// Breakers keeps one [Breaker] per key, such as a host, a shard or a tenant, so
// that one that is down does not take the others along:
//
//	err := breakers.For(host).Do(ctx, call)
//
// The zero value makes a Breaker named after the key. Strangers may choose the
// keys: the number of keys is bounded, and a key that is not used is forgotten
// with its breaker, unless the circuit is open. The number of open circuits is
// bounded, too: up to twice MaxKeys of them are kept besides. A breaker of a
// forgotten key keeps working for those who hold it, but For returns a new one.
//
// A Breakers must not be copied, nor its fields changed, after first use. It is
// safe for concurrent use; looking up a known key takes no lock and reads no
// clock.
type Breakers struct {
	// New makes the breaker of a key that is new or was forgotten. It must
	// return a new one and not call For. nil means &Breaker{Name: key}.
	New func(key string) *Breaker
	// MaxKeys bounds the keys that are kept. 0 means 1024, a negative number no
	// limit.
	MaxKeys int
	// Idle is how long a key is kept at least after it was last asked for. 0
	// means 10 minutes, a negative number for ever, as far as MaxKeys allows.
	Idle time.Duration

	once sync.Once
	keys registry.Registry[*Breaker]
}

// For returns the breaker of key.
func (b *Breakers) For(key string) *Breaker {
	b.once.Do(b.setUp)
	return b.keys.Get(key)
}

// All returns the keys that are kept, with their breakers, in no order.
func (b *Breakers) All() iter.Seq2[string, *Breaker] {
	b.once.Do(b.setUp)
	return func(yield func(string, *Breaker) bool) { b.keys.Range(yield) }
}

// setUp prepares the registry, at the first use.
func (b *Breakers) setUp() {
	b.keys.New = b.New
	if b.New == nil {
		b.keys.New = func(key string) *Breaker { return &Breaker{Name: key} }
	}
	b.keys.Keep = func(kept *Breaker) bool { return kept.State() == StateOpen }
	b.keys.SetLimits(b.MaxKeys, b.Idle)
}
