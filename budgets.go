package backoff

import (
	"sync"
	"time"

	"github.com/gobackoff/backoff/internal/registry"
)

// Budgets keeps one [Budget] per key, such as a host, a table or a tenant, so
// that a hot one does not starve the others:
//
//	toHost := policy
//	toHost.Budget = budgets.For(host)
//
// The zero value makes a [RetryBudget] for each key. Keys may come from
// strangers: their number is bounded, and a key out of use is forgotten, with
// its budget. A Budgets must not be copied, nor its fields changed, after first
// use. It is safe for concurrent use; looking up a known key takes no lock.
type Budgets struct {
	// New makes the budget of a key that is new or was forgotten. nil means a
	// RetryBudget with its defaults.
	New func(key string) Budget
	// MaxKeys bounds the keys that are kept. 0 means 1024, a negative number no
	// limit.
	MaxKeys int
	// Idle is how long a key is kept that nobody asks for, at least. 0 means 10
	// minutes, a negative number for ever, as far as MaxKeys allows.
	Idle time.Duration

	once sync.Once
	keys registry.Registry[Budget]
}

const (
	defaultMaxKeys = 1024
	defaultIdle    = 10 * time.Minute
)

// For returns the budget of key.
func (b *Budgets) For(key string) Budget {
	b.once.Do(b.open)
	return b.keys.Get(key)
}

func (b *Budgets) open() {
	b.keys.New = b.New
	if b.New == nil {
		b.keys.New = func(string) Budget { return new(RetryBudget) }
	}
	b.keys.Max, b.keys.Idle = registryLimits(b.MaxKeys, b.Idle)
}

func registryLimits(maxKeys int, idle time.Duration) (int, time.Duration) {
	switch {
	case maxKeys == 0:
		maxKeys = defaultMaxKeys
	case maxKeys < 0:
		maxKeys = int(^uint(0) >> 1)
	}
	switch {
	case idle == 0:
		idle = defaultIdle
	case idle < 0:
		idle = maxDuration
	}
	return maxKeys, idle
}
