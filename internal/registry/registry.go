// Package registry keeps one value per key, for keys that a stranger may choose: their
// number is bounded, and those out of use are forgotten.
package registry

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
)

// A Registry makes a value for each key at first use. Values live in two generations:
// who is used moves to the younger one, and when that is full, or Idle old, the elder
// one is dropped. So a lookup takes neither lock nor clock, a key is forgotten when it
// was not used for Idle (at the latest, when twice that has passed and a new key
// comes), and the number of keys is bounded.
type Registry[V any] struct {
	New  func(key string) V
	Keep func(V) bool // whether a value must outlive its generation; nil: none must
	Max  int          // keys held, besides up to twice as many to be kept
	Idle time.Duration

	young atomic.Pointer[sync.Map]
	mu    sync.Mutex
	old   *sync.Map
	count int
	born  time.Time
}

// Get returns the value of key.
func (r *Registry[V]) Get(key string) V {
	if young := r.young.Load(); young != nil {
		if v, ok := young.Load(key); ok {
			return v.(V)
		}
	}
	return r.get(key)
}

func (r *Registry[V]) get(key string) V {
	r.mu.Lock()
	defer r.mu.Unlock()
	young := r.turn()
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

// turn starts a new generation when the young one has had its time.
func (r *Registry[V]) turn() *sync.Map {
	young, now := r.young.Load(), clock.Now()
	if young != nil && r.count < max(1, r.Max/2) && now.Sub(r.born) < r.Idle {
		return young
	}
	if young == nil {
		young = new(sync.Map)
	}
	next := new(sync.Map)
	r.count, r.born = 0, now
	if r.Keep != nil && r.old != nil {
		r.rescue(next)
	}
	r.old = young
	r.young.Store(next)
	return next
}

// rescue carries the values that must be kept over from the generation about to go: up
// to Max of them, for their number may be a stranger's doing, too. They do not count as
// used, or many of them would make every new key a new generation.
func (r *Registry[V]) rescue(next *sync.Map) {
	kept := 0
	for key, v := range r.old.Range {
		if kept < r.Max && r.Keep(v.(V)) {
			next.Store(key, v)
			kept++
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
