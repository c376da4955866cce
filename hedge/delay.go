package hedge

import (
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/hedge/internal/histogram"
	"github.com/gobackoff/backoff/internal/limits"
)

const (
	samples    = 100 // least samples of a delay
	refresh    = 50  // samples between two looks at the quantile
	leastDelay = time.Millisecond
)

// A measuredDelay is the time within which an attempt succeeds, unless it is one of the
// few that are slow. The zero value has measured nothing. It is safe for concurrent use,
// and must not be copied after first use.
type measuredDelay struct {
	latencies histogram.Histogram
	measured  atomic.Int64 // delay; 0 while it is not known
}

// add takes the latency of an attempt that succeeded at now. As many attempts
// count as slow as the extra load allows hedges, and 5 % if it has no limit.
func (d *measuredDelay) add(latency time.Duration, now time.Time, extraLoad float64) {
	if d.latencies.Add(latency, now)%refresh != 0 || d.latencies.Count() < samples {
		return
	}
	slow := limits.Or(max(0, extraLoad), defaultExtraLoad)
	d.measured.Store(int64(max(d.latencies.Quantile(1-slow), leastDelay)))
}

// within returns the delay for a call with so much time left: at most half of
// that, but at least a millisecond, and 0 while the delay is not known.
func (d *measuredDelay) within(left time.Duration) time.Duration {
	measured := time.Duration(d.measured.Load())
	if measured == 0 {
		return 0
	}
	return max(min(measured, left/2), leastDelay)
}

// delay returns the time before the next hedge, for a call with so much time
// left.
func (h *Hedge) delay(left time.Duration) time.Duration {
	if h.Delay != 0 {
		return max(0, h.Delay)
	}
	return h.slow.within(left)
}
