package backoffmetrics

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/guard/endpoint"
	"github.com/gobackoff/backoff/internal/limits"
	"github.com/gobackoff/backoff/internal/snapshot"
)

// endpoints are what calls were sent to.
type endpoints struct {
	known sync.Map    // of *endpoint.Endpoint
	full  atomic.Bool // there are too many

	mu     sync.Mutex
	all    []*endpoint.Endpoint // in the order of their first use
	byName map[string]int       // how many there are
}

// perName is how many Endpoints of one name there may be in any case: those of
// several clients, and those of one that was made again. Beyond that they take
// only half of what may be kept, so that a program that makes a client for each
// request leaves room for other names.
const perName = 4

// add adds an Endpoint, unless there are too many. It takes no lock for one that
// is there, and none if there is no room left.
func (e *endpoints) add(to *endpoint.Endpoint, maxNames int) {
	if to == nil || e.full.Load() {
		return
	}
	if _, known := e.known.Load(to); known {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	most, name := perName*limits.Or(maxNames, defaultMaxNames), snapshot.Label(to.Name)
	if most > 0 && (len(e.all) >= most || len(e.all) >= most/2 && e.byName[name] >= perName) {
		return
	}
	if _, known := e.known.LoadOrStore(to, nil); known {
		return
	}
	if e.byName == nil {
		e.byName = make(map[string]int)
	}
	e.byName[name]++
	e.all = append(e.all, to)
	e.full.Store(len(e.all) == most)
}

// list returns all Endpoints, in the order of their first use, so that the same
// ones are shown by themselves each time.
func (e *endpoints) list() []*endpoint.Endpoint {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.all)
}

// services returns the Services of all Endpoints, each once.
func (e *endpoints) services() (all []*guard.Services) {
	found := map[*guard.Services]bool{nil: true}
	for _, to := range e.list() {
		if !found[to.Services] {
			found[to.Services] = true
			all = append(all, to.Services)
		}
	}
	return all
}

// readEndpoints returns the endpoints, sorted by name.
func (m *Metrics) readEndpoints() []snapshot.Endpoint {
	all := make(map[string]snapshot.Endpoint)
	bounded := m.newBound()
	for _, to := range m.endpoints.list() {
		name, a := bounded.label(to.Name), to.Attempts()
		sum := all[name]
		sum.Name = name
		sum.InFlight = max(0, sum.InFlight+a.InFlight)
		addDurations(&sum.Succeeded, a.Succeeded)
		addDurations(&sum.Failed, a.Failed)
		if to.Services != nil {
			sum.Breakers = append(sum.Breakers, snapshot.Label(to.Service))
		}
		all[name] = sum
	}
	return sortedByName(all)
}

// addDurations adds durations to a histogram.
func addDurations(to *snapshot.Histogram, more endpoint.Durations) {
	if to.Counts == nil {
		to.Bounds, to.Counts = endpoint.Bounds(), make([]uint64, len(more.Counts))
	}
	for i, n := range more.Counts {
		to.Counts[i] += n
	}
	to.Sum += more.Sum
}
