package backoffmetrics

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
)

const (
	span    = 5 * time.Minute // that the page shows
	step    = 5 * time.Second // between two points, at least, and the width of a column
	columns = int(span / step)
	reach   = columns + 2 // points that are kept
)

// history is what the counters were at moments of the last minutes. A point is added
// when somebody looks and when a call is in trouble, never by a goroutine; what lies
// between two points is known as an average.
type history struct {
	due atomic.Int64 // when the next point is, in Unix nanoseconds; 0 before the first one

	mu     sync.Mutex
	points []point // the oldest first
}

// point has the totals of the operations in the order of their first use; who is missing
// had none.
type point struct {
	at     time.Time
	totals []totals
}

func (p point) of(operation int) totals {
	if operation < len(p.totals) {
		return p.totals[operation]
	}
	return totals{}
}

// begin adds the first point, before anything was counted.
func (h *history) begin(m *Metrics) {
	if h.due.Load() == 0 {
		h.keep(m)
	}
}

// keep adds a point, unless there was one just now or somebody else is at it.
func (h *history) keep(m *Metrics) {
	now := clock.Now()
	due := h.due.Load()
	if now.UnixNano() < due || !h.due.CompareAndSwap(due, now.Add(step).UnixNano()) {
		return
	}
	p := m.point(now)
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.points) == reach {
		h.points = append(h.points[:0], h.points[1:]...)
	}
	h.points = append(h.points, p)
}

func (m *Metrics) point(now time.Time) point {
	p := point{at: now}
	for _, o := range m.operations.inOrder() {
		p.totals = append(p.totals, o.value.totals())
	}
	return p
}

// past is the points up to now, the last of which is now.
type past []point

func (m *Metrics) past() past {
	m.history.keep(m)
	m.history.mu.Lock()
	defer m.history.mu.Unlock()
	all := append(past(nil), m.history.points...)
	return append(all, m.point(clock.Now()))
}

func (p past) now() point { return p[len(p)-1] }

func (p past) age(i int) time.Duration { return p.now().at.Sub(p[i].at) }

// recent returns the point since which the present is reckoned: a few seconds ago, if
// anybody looked then.
func (p past) recent() point {
	found := p[0]
	for i := range p {
		age := p.age(i)
		if age >= step || age >= time.Second && p.now().at.Sub(found.at) > 3*step {
			found = p[i]
		}
	}
	return found
}

// lately returns the point since which the last minutes are reckoned: as long as it takes
// to have a whole minute of them, an older one.
func (p past) lately() point {
	found := p[0]
	for i := range p {
		if p.age(i) > span+step {
			found = p[i]
			continue
		}
		if p.age(i) >= time.Minute && p.now().at.Sub(found.at) > span+step {
			found = p[i]
		}
		break
	}
	return found
}

// minute returns the point since which the last minute is reckoned.
func (p past) minute() point {
	found := p[0]
	for i := range p {
		if p.age(i) >= time.Minute {
			found = p[i]
		}
	}
	return found
}

// series returns what an operation counted per second, in columns that end with the last
// full one; NaN where nothing is known.
func (p past) series(operation int, of func(totals) uint64) []float64 {
	end := p.now().at.Truncate(step)
	rates := make([]float64, columns)
	before := p.level(operation, of, end.Add(-span))
	for i := range rates {
		after := p.level(operation, of, end.Add(-span+time.Duration(i+1)*step))
		rates[i] = (after - before) / step.Seconds()
		before = after
	}
	return rates
}

// level is the value of a counter at a moment, between two points in proportion.
func (p past) level(operation int, of func(totals) uint64, at time.Time) float64 {
	for i := 1; i < len(p); i++ {
		if p[i].at.Before(at) || p[i-1].at.After(at) {
			continue
		}
		from, to := float64(of(p[i-1].of(operation))), float64(of(p[i].of(operation)))
		whole := p[i].at.Sub(p[i-1].at)
		if whole <= 0 {
			return to
		}
		return from + (to-from)*float64(at.Sub(p[i-1].at))/float64(whole)
	}
	return math.NaN()
}
