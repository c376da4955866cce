package backoffmetrics

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
)

const (
	span      = 5 * time.Minute // the time that the page shows
	step      = 5 * time.Second // the width of a column; points are no closer
	columns   = int(span / step)
	maxPoints = columns + 2 // points that are remembered
)

// history is what the counters were during the last minutes. A point is added
// when the page or the series are read and when a call fails or is retried, never
// by a goroutine.
// Between two points only the average is known.
type history struct {
	start sync.Once
	began time.Time
	due   atomic.Int64 // when the next point is due, in ns since began; 0 at first

	mu     sync.Mutex
	points []point // the oldest first
}

// point has the totals of all operations and breakers, in the order of their
// first use, and those of the endpoints. What is missing had none.
type point struct {
	at        time.Duration // since the history began, so that a clock may be set
	first     bool          // nothing was counted before
	totals    []totals
	breakers  []breakerTotals
	endpoints map[string]attemptCounts
}

// of returns the totals of an operation.
func (p point) of(operation int) totals {
	if operation < len(p.totals) {
		return p.totals[operation]
	}
	return totals{}
}

// ofBreaker returns the totals of a breaker.
func (p point) ofBreaker(breaker int) breakerTotals {
	if breaker >= 0 && breaker < len(p.breakers) {
		return p.breakers[breaker]
	}
	return breakerTotals{}
}

// elapsed returns the time since the history began.
func (h *history) elapsed() time.Duration {
	h.start.Do(func() { h.began = clock.Now() })
	return clock.Since(h.began)
}

// recordFirst adds the first point, before anything was counted.
func (h *history) recordFirst(m *Metrics) {
	if h.due.Load() == 0 {
		h.record(m)
	}
}

// record adds a point, unless one was added less than a step ago or another
// goroutine is adding one.
func (h *history) record(m *Metrics) {
	now := h.elapsed()
	due := h.due.Load()
	if int64(now) < due || !h.due.CompareAndSwap(due, int64(now+step)) {
		return
	}
	p := m.point(now)
	p.first = due == 0
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.points) == maxPoints {
		h.points = append(h.points[:0], h.points[1:]...)
	}
	h.points = append(h.points, p)
}

// point reads the totals of everything.
func (m *Metrics) point(now time.Duration) point {
	p := point{at: now}
	all := m.operations.inOrder()
	reported := m.reportedOf(all)
	for i, o := range all {
		t := o.value.totals()
		t.refusals.reported = reported[i]
		p.totals = append(p.totals, t)
	}
	for _, b := range m.breakers.inOrder() {
		p.breakers = append(p.breakers, b.value.totals())
	}
	p.endpoints = m.attemptCounts()
	return p
}

// timeline is the points of the history, and now as the last one.
type timeline []point

// timeline returns the points up to now.
func (m *Metrics) timeline() timeline {
	m.history.record(m)
	m.history.mu.Lock()
	defer m.history.mu.Unlock()
	all := append(timeline(nil), m.history.points...)
	return append(all, m.point(m.history.elapsed()))
}

// now returns the last point.
func (t timeline) now() point { return t[len(t)-1] }

// age returns how long ago a point was.
func (t timeline) age(i int) time.Duration { return t.now().at - t[i].at }

// lately returns the point at which the last minutes begin. It is older than
// that if there is no whole minute of points yet.
func (t timeline) lately() point {
	found := t[0]
	for i := range t {
		if t.age(i) > span+step {
			found = t[i]
			continue
		}
		if t.age(i) >= time.Minute && t.now().at-found.at > span+step {
			found = t[i]
		}
		break
	}
	return found
}

// length returns how long the window is. At least a second, since before the
// first call there was none.
func (t timeline) length() time.Duration { return max(time.Second, t.now().at-t.lately().at) }

// minute returns the point at which the last minute begins.
func (t timeline) minute() point {
	found := t[0]
	for i := range t {
		if t.age(i) >= time.Minute {
			found = t[i]
		}
	}
	return found
}

// rates returns what an operation counted per second, in columns that end with
// the last full one. Where nothing is known, the rate is NaN.
func (t timeline) rates(operation int, of func(totals) uint64) []float64 {
	end := t.now().at.Truncate(step)
	rates := make([]float64, columns)
	before := t.valueAt(operation, of, end-span)
	for i := range rates {
		after := t.valueAt(operation, of, end-span+time.Duration(i+1)*step)
		rates[i] = max(0, (after-before)/step.Seconds()) // NaN stays
		before = after
	}
	return rates
}

// valueAt returns the value of a counter at a moment. Between two points it
// interpolates.
func (t timeline) valueAt(operation int, of func(totals) uint64, at time.Duration) float64 {
	for i := 1; i < len(t); i++ {
		if t[i].at < at || t[i-1].at > at {
			continue
		}
		from, to := float64(of(t[i-1].of(operation))), float64(of(t[i].of(operation)))
		whole := t[i].at - t[i-1].at
		if whole <= 0 {
			return to
		}
		return from + (to-from)*float64(at-t[i-1].at)/float64(whole)
	}
	return math.NaN()
}
