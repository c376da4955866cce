package backoffslog

import (
	"strings"
	"sync"
	"time"

	"github.com/gobackoff/backoff"
)

const (
	maxSamples  = 4096
	longestName = 128
)

// sample names records that are alike.
type sample struct {
	name   string
	kind   backoff.EventKind
	reason backoff.Reason
	first  bool // a success without retries
}

func sampleOf(e *backoff.Event) sample {
	s := sample{name: e.Name, kind: e.Kind, reason: e.Reason, first: e.Kind == backoff.EventSuccess && e.Attempt <= 1}
	s.name = s.name[:min(len(s.name), longestName)]
	return s
}

// sampler lets so many records of a kind through in a second. The zero value is ready.
type sampler struct {
	mu      sync.Mutex
	seconds map[sample]*second
}

// second is the latest of one kind of record.
type second struct {
	began      time.Time
	written    int
	suppressed uint64 // since the last one that was written
}

// admit reports whether a record may be written, and how many were not since the last.
func (s *sampler) admit(what sample, now time.Time, limit int) (suppressed uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	latest := s.find(what)
	if since := now.Sub(latest.began); since >= time.Second || since < 0 {
		latest.began, latest.written = now, 0
	}
	if latest.written >= limit {
		latest.suppressed++
		return 0, false
	}
	suppressed, latest.suppressed = latest.suppressed, 0
	latest.written++
	return suppressed, true
}

func (s *sampler) find(what sample) *second {
	if latest, ok := s.seconds[what]; ok {
		return latest
	}
	if len(s.seconds) >= maxSamples && what.name != "" {
		what.name = ""
		return s.find(what)
	}
	if s.seconds == nil {
		s.seconds = make(map[sample]*second)
	}
	what.name = strings.Clone(what.name)
	latest := new(second)
	s.seconds[what] = latest
	return latest
}
