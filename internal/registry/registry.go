// Package registry keeps one value per key. It bounds the number of keys and
// forgets those that are no longer used, since a stranger may choose the keys.
package registry

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/limits"
)

// A Registry makes a value for each key when the key is first used.
//
// Values live in two generations. A key that is used moves to the young
// generation. When the young generation is full, or Idle old, the old
// generation is dropped and the young one takes its place. So a lookup takes
// neither a lock nor the time, and the number of keys is bounded. A key that
// was not used for Idle may be forgotten; after twice Idle it is, when the next
// new key comes.
type Registry[V any] struct {
	New  func(key string) V
	Keep func(V) bool // reports whether a value must stay; nil: none must
	Max  int          // keys held; up to twice as many more for Keep
	Idle time.Duration

	young atomic.Pointer[sync.Map]

	mu      sync.Mutex // guards the fields below
	old     *sync.Map
	count   int       // keys that were added to the young generation
	started time.Time // the young generation
}

// The defaults of SetLimits.
const (
	defaultMax  = 1024
	defaultIdle = 10 * time.Minute
)

// SetLimits sets Max and Idle from the settings of a user: 0 means 1024 keys
// and 10 minutes, and a negative number means no limit.
func (r *Registry[V]) SetLimits(maxKeys int, idle time.Duration) {
	if r.Max = limits.Or(maxKeys, defaultMax); r.Max < 0 {
		r.Max = math.MaxInt
	}
	if r.Idle = limits.Or(idle, defaultIdle); r.Idle < 0 {
		r.Idle = math.MaxInt64
	}
}

// Get returns the value of key.
func (r *Registry[V]) Get(key string) V {
	if young := r.young.Load(); young != nil {
		if v, ok := young.Load(key); ok {
			return v.(V)
		}
	}
	return r.getSlow(key)
}

// getSlow returns the value of a key that the young generation does not have.
func (r *Registry[V]) getSlow(key string) V {
	r.mu.Lock()
	defer r.mu.Unlock()
	young := r.current()
	if v, ok := young.Load(key); ok {
		return v.(V)
	}
	var value V
	if v, ok := r.old.Load(key); ok {
		value = v.(V)
		r.old.Delete(key)
	} else {
		value = r.New(key)
	}
	young.Store(key, value)
	r.count++
	return value
}

// current returns the young generation. It starts a new one if the young
// generation is full or too old.
func (r *Registry[V]) current() *sync.Map {
	young, now := r.young.Load(), clock.Now()
	if young != nil && r.count < max(1, r.Max/2) && now.Sub(r.started) < r.Idle {
		return young
	}
	if young == nil {
		young = new(sync.Map)
	}
	next := new(sync.Map)
	r.count, r.started = 0, now
	if r.Keep != nil && r.old != nil {
		r.carryOver(next)
	}
	r.old = young
	r.young.Store(next)
	return next
}

// carryOver copies the values that Keep wants from the old generation, which is
// about to be dropped, to the next one. It copies at most Max of them, since a
// stranger may have made them, too. They do not count as used: otherwise many
// of them would fill the next generation at once.
func (r *Registry[V]) carryOver(next *sync.Map) {
	copied := 0
	for key, v := range r.old.Range {
		if copied < r.Max && r.Keep(v.(V)) {
			next.Store(key, v)
			copied++
		}
	}
}

// Range calls f for each key and value until it returns false.
func (r *Registry[V]) Range(f func(key string, v V) bool) {
	r.mu.Lock()
	generations := []*sync.Map{r.young.Load(), r.old}
	r.mu.Unlock()
	for _, generation := range generations {
		if generation == nil {
			continue
		}
		for key, v := range generation.Range {
			if !f(key.(string), v.(V)) {
				return
			}
		}
	}
}
