package backoffslog

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/gobackoff/backoff"
)

const (
	maxSamples = 4096 // limits that are remembered
	maxName    = 128  // bytes of a name in a sampleKey
)

// sampleKey says which records share a limit.
type sampleKey struct {
	name   string
	to     string // the name of the endpoint; "" if that is not known
	kind   backoff.EventKind
	reason backoff.Reason
	first  bool // a success without retries
}

func sampleKeyOf(ctx context.Context, e *backoff.Event) sampleKey {
	return sampleKey{
		name: clipped(e.Name), to: clipped(endpointName(ctx)), kind: e.Kind, reason: e.Reason,
		first: e.Kind == backoff.EventSuccess && e.Attempt <= 1,
	}
}

// clipped returns the beginning of a name.
func clipped(name string) string { return name[:min(len(name), maxName)] }

// sampler limits how many records of a key are written in a second.
type sampler struct {
	report func(key sampleKey, at slog.Level, suppressed uint64)

	mu      sync.Mutex
	seconds map[sampleKey]*second
}

// second is what happened to the records of one key in the latest second.
type second struct {
	key        sampleKey
	began      time.Time
	written    int
	suppressed uint64     // since the last record that was written
	level      slog.Level // the highest of those suppressed
	due        bool       // a check whether the burst is over is scheduled
}

// allow reports whether a record may be written, and how many records of its
// key were suppressed since the last one.
func (s *sampler) allow(key sampleKey, now time.Time, at slog.Level, limit int) (suppressed uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	latest := s.latest(key)
	if now.Sub(latest.began) >= time.Second { // not an earlier one that comes late
		latest.began, latest.written = now, 0
	}
	if latest.written >= limit {
		latest.level = max(latest.level, at)
		latest.suppressed++
		if !latest.due {
			latest.due = true
			time.AfterFunc(quiet, func() { s.check(latest) })
		}
		return 0, false
	}
	suppressed, latest.suppressed, latest.level = latest.suppressed, 0, LevelOff
	latest.written++
	return suppressed, true
}

// latest returns the latest second of key. Beyond maxSamples keys, all names
// share one second.
func (s *sampler) latest(key sampleKey) *second {
	if latest, ok := s.seconds[key]; ok {
		return latest
	}
	if len(s.seconds) >= maxSamples && (key.name != "" || key.to != "") {
		key.name, key.to = "", ""
		return s.latest(key)
	}
	if s.seconds == nil {
		s.seconds = make(map[sampleKey]*second)
	}
	key.name, key.to = strings.Clone(key.name), strings.Clone(key.to)
	latest := &second{key: key}
	s.seconds[key] = latest
	return latest
}

// quiet is how long after the beginning of a second a burst counts as over, if
// nothing was written since.
const quiet = 2 * time.Second

// check reports what was suppressed at the end of a burst, which no other record
// says. While a burst goes on, it checks again later.
func (s *sampler) check(latest *second) {
	s.mu.Lock()
	over := time.Since(latest.began) >= quiet
	suppressed, at := latest.suppressed, latest.level
	if suppressed > 0 && !over {
		time.AfterFunc(quiet, func() { s.check(latest) })
	} else {
		latest.suppressed, latest.level, latest.due = 0, LevelOff, false
	}
	s.mu.Unlock()
	if suppressed > 0 && over {
		s.report(latest.key, at, suppressed)
	}
}
