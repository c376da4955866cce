package backoffmetrics

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
)

const (
	span  = 5 * time.Minute // that the page shows
	step  = 5 * time.Second // between two points of it
	reach = int(span/step) + 2
)

// history is what the counters were at moments of the last minutes. Nothing writes it
// while nobody looks and all is well; what is missing is drawn as an average.
type history struct {
	due atomic.Int64 // when the next point is, in Unix nanoseconds

	mu     sync.Mutex
	points []point // the oldest first
}

// point has the totals of the operations in the order of their first use.
type point struct {
	at     time.Time
	totals []totals
}

// keep adds a point, unless there was one just now or somebody else is at it.
func (h *history) keep(m *Metrics) {
	now := clock.Now()
	if due := h.due.Load(); now.UnixNano() < due || !h.due.CompareAndSwap(due, now.Add(step).UnixNano()) {
		return
	}
	p := point{at: now}
	for _, o := range m.operations.inOrder() {
		p.totals = append(p.totals, o.value.totals())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.points = append(h.points, p)
	if len(h.points) > reach {
		h.points = append(h.points[:0], h.points[1:]...)
	}
}
