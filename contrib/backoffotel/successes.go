package backoffotel

import (
	"maps"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/metric"
)

// successes keeps the attributes of calls that succeed at once. Most calls do,
// and should not allocate them.
type successes struct {
	byName atomic.Pointer[map[string][]metric.RecordOption]
	mu     sync.Mutex // held to add a name
}

// maxSuccesses is how many names are kept.
const maxSuccesses = 1000

// of returns the options of a name.
func (s *successes) of(name string) []metric.RecordOption {
	known := s.byName.Load()
	if known != nil {
		if options, ok := (*known)[name]; ok {
			return options
		}
		if len(*known) >= maxSuccesses {
			return successOptions(name)
		}
	}
	return s.add(name)
}

// add adds a name.
func (s *successes) add(name string) []metric.RecordOption {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string][]metric.RecordOption{}
	if known := s.byName.Load(); known != nil {
		all = maps.Clone(*known)
	}
	options := successOptions(name)
	all[name] = options
	s.byName.Store(&all)
	return options
}

// successOptions makes the options of a name.
func successOptions(name string) []metric.RecordOption {
	return []metric.RecordOption{metric.WithAttributes(keyOperation.String(name), keyOutcome.String(outcomeFirst))}
}
