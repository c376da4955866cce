package backoffotel

import (
	"sync"
	"sync/atomic"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
)

// breakers are those of which an Observer knows by their transitions.
type breakers struct {
	mu     sync.Mutex
	states map[string]backoff.BreakerState
}

// set notes the state of a breaker.
func (b *breakers) set(name string, s backoff.BreakerState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.states[name]; known || len(b.states) < maxKeys {
		b.states[name] = s
	}
}

// addTo adds the breakers that are not in a reading to it.
func (b *breakers) addTo(r *reading) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, is := range b.states {
		if _, known := r.breakers[name]; !known {
			r.breakers[name] = is
		}
	}
}

// maxRegistries is how many Services of endpoints an Observer remembers. A program may
// make a client for each request.
const maxRegistries = 100

// registries are the Services of the endpoints that were called.
type registries struct {
	known sync.Map // of *guard.Services
	count atomic.Int64
}

// add notes Services.
func (m *registries) add(s *guard.Services) {
	if _, known := m.known.Load(s); known || m.count.Load() >= maxRegistries {
		return
	}
	if m.count.Add(1) > maxRegistries {
		m.count.Add(-1)
	} else if _, known := m.known.LoadOrStore(s, nil); known {
		m.count.Add(-1)
	}
}
