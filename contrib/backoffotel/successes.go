package backoffotel

import (
	"maps"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/metric"

	"github.com/gobackoff/backoff/endpoint"
)

// successes keeps the attributes of calls that succeed at once. Most calls do,
// and should not allocate them.
type successes struct {
	byName atomic.Pointer[map[caller][]metric.RecordOption]
	mu     sync.Mutex // held to add a name
}

// caller is who calls, and what is called, or nil.
type caller struct {
	name string
	to   *endpoint.Endpoint
}

// maxSuccesses is how many names are kept.
const maxSuccesses = 1000

// of returns the options of a name and an endpoint.
func (s *successes) of(name string, to *endpoint.Endpoint) []metric.RecordOption {
	c := caller{name, to}
	known := s.byName.Load()
	if known != nil {
		if options, ok := (*known)[c]; ok {
			return options
		}
		if len(*known) >= maxSuccesses {
			return successOptions(c)
		}
	}
	return s.add(c)
}

// add adds a caller.
func (s *successes) add(c caller) []metric.RecordOption {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[caller][]metric.RecordOption{}
	if known := s.byName.Load(); known != nil {
		all = maps.Clone(*known)
	}
	options := successOptions(c)
	all[c] = options
	s.byName.Store(&all)
	return options
}

// successOptions makes the options of a caller.
func successOptions(c caller) []metric.RecordOption {
	return []metric.RecordOption{metric.WithAttributes(namesOf(c.name, c.to, keyOutcome.String(outcomeFirst))...)}
}
