package page

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/snapshot"
)

const (
	span      = 5 * time.Minute // the time that the page shows
	step      = 5 * time.Second // the width of a column; points are no closer
	columns   = int(span / step)
	maxPoints = columns + 2 // points that are remembered
)

// history is what the counters were during the last minutes. A point is added
// when the page is read and when a call fails or is retried, never by a
// goroutine. Between two points only the average is known.
type history struct {
	read  snapshot.Reader
	began time.Time
	due   atomic.Int64 // when the next point is due, in ns since began
	kinds sync.Map     // of *errorKinds, by the Labels of their operation

	mu     sync.Mutex
	points []point // the oldest first
}

// newHistory returns a history that begins with what was counted before.
func newHistory(read snapshot.Reader) snapshot.Page {
	h := &history{read: read, began: clock.Now()}
	s := read(false)
	p := h.point(&s)
	p.first = len(p.totals) == 0
	h.points = append(h.points, p)
	h.due.Store(int64(step))
	return h
}

// point has the totals of all operations, breakers and endpoints. What is
// missing had none.
type point struct {
	at        time.Duration // since the history began, so that a clock may be set
	first     bool          // nothing was counted before
	totals    map[snapshot.Labels]totals
	breakers  map[string]breakerTotals
	endpoints map[string]attemptCounts
}

// elapsed returns the time since the history began.
func (h *history) elapsed() time.Duration { return clock.Since(h.began) }

// Record implements [snapshot.Page]. It adds a point, unless one was added less
// than a step ago or another goroutine is adding one.
func (h *history) Record() {
	due := h.due.Load()
	if now := int64(h.elapsed()); now < due || !h.due.CompareAndSwap(due, now+int64(step)) {
		return
	}
	s := h.read(false)
	p := h.point(&s)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.points = append(h.points, p)
	h.points = slices.Delete(h.points, 0, max(0, len(h.points)-maxPoints))
}

// point returns the totals of everything.
func (h *history) point(s *snapshot.Snapshot) point {
	p := point{
		at: h.elapsed(), totals: make(map[snapshot.Labels]totals, len(s.Operations)),
		breakers: make(map[string]breakerTotals, len(s.Breakers)), endpoints: make(map[string]attemptCounts, len(s.Endpoints)),
	}
	for i := range s.Operations {
		o := &s.Operations[i]
		t := totalsOf(o)
		for slot, kind := range h.errorsOf(o.Labels).read() {
			t.errors[slot] = kind.count
		}
		p.totals[o.Labels] = t
	}
	for _, b := range s.Breakers {
		p.breakers[b.Name] = breakerTotalsOf(b)
	}
	for _, e := range s.Endpoints {
		var counts attemptCounts
		for i := range e.Succeeded.Counts {
			counts[i] = e.Succeeded.Counts[i] + e.Failed.Counts[i]
		}
		p.endpoints[e.Name] = counts
	}
	return p
}

// attemptCounts are the durations of attempts at an endpoint, in the buckets of
// package endpoint.
type attemptCounts [snapshot.MaxBuckets]uint64

// timeline is the points of the history, and now as the last one.
type timeline []point

// timeline returns the points up to now, and everything as it is now.
func (h *history) timeline() (timeline, *snapshot.Snapshot) {
	h.Record()
	s := h.read(true)
	h.mu.Lock()
	defer h.mu.Unlock()
	return append(slices.Clone(h.points), h.point(&s)), &s
}

// now returns the last point.
func (t timeline) now() point { return t[len(t)-1] }

// within returns the index of the first point that is not older than age.
func (t timeline) within(age time.Duration) int {
	return slices.IndexFunc(t, func(p point) bool { return t.now().at-p.at <= age })
}

// aMinuteAgo returns the index of the point at which the last minute begins.
func (t timeline) aMinuteAgo() int { return max(0, t.within(time.Minute-1)-1) }

// minute returns the point at which the last minute begins.
func (t timeline) minute() point { return t[t.aMinuteAgo()] }

// lately returns the point at which the last minutes begin. It is older than
// that if there is no whole minute of points yet.
func (t timeline) lately() point { return t[min(t.within(span+step), t.aMinuteAgo())] }

// length returns how long the window is. At least a second, since before the
// first call there was none.
func (t timeline) length() time.Duration { return max(time.Second, t.now().at-t.lately().at) }

// rates returns what an operation counted per second, in columns that end with
// the last full one. Where nothing is known, the rate is NaN.
func (t timeline) rates(operation snapshot.Labels, of func(totals) uint64) []float64 {
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
func (t timeline) valueAt(operation snapshot.Labels, of func(totals) uint64, at time.Duration) float64 {
	for i := 1; i < len(t); i++ {
		if t[i].at < at || t[i-1].at > at {
			continue
		}
		from, to := float64(of(t[i-1].totals[operation])), float64(of(t[i].totals[operation]))
		whole := t[i].at - t[i-1].at
		if whole <= 0 {
			return to
		}
		return from + (to-from)*float64(at-t[i-1].at)/float64(whole)
	}
	return math.NaN()
}
