package backoffotel

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/metric"

	"github.com/gobackoff/backoff/guard/endpoint"
)

// successes keeps the attributes of calls that succeed at once. Most calls do,
// and should not allocate them.
type successes struct {
	byName atomic.Pointer[map[caller][]metric.RecordOption] // never nil
	mu     sync.Mutex                                       // held to add a name
}

// caller is who calls, and what is called, if that is known. It goes by the names:
// a program may make a client, and its Endpoints, for each request.
type caller struct {
	name, endpoint string
	sent           bool // the endpoint is known
}

// maxSuccesses is how many names are kept.
const maxSuccesses = 1000

// of returns the options of a name and an endpoint.
func (s *successes) of(name string, to *endpoint.Endpoint) []metric.RecordOption {
	c := caller{name: name}
	if to != nil {
		c.endpoint, c.sent = to.Name, true
	}
	known := *s.byName.Load()
	if options, ok := known[c]; ok {
		return options
	}
	options := []metric.RecordOption{metric.WithAttributes(namesOf(name, to, keyOutcome.String(outcomeFirst))...)}
	if len(known) < maxSuccesses {
		s.add(caller{strings.Clone(c.name), strings.Clone(c.endpoint), c.sent}, options)
	}
	return options
}

// add adds a caller, if there are not too many.
func (s *successes) add(c caller, options []metric.RecordOption) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := maps.Clone(*s.byName.Load())
	if len(all) < maxSuccesses {
		all[c] = options
		s.byName.Store(&all)
	}
}
