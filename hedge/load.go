package hedge

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/hedge/internal/histogram"
	"github.com/gobackoff/backoff/internal/limits"
)

// How long an attempt takes before it counts as slow, and how many hedges other
// calls have paid for, follow from one number, the extra load: how many hedges
// there may be for each call that succeeds. 0 means 0.05, and a negative number
// means no limit.
const (
	defaultExtraLoad = 0.05
	samples          = 100 // that a delay needs
	refresh          = 50  // samples between two looks at the quantile
	leastDelay       = time.Millisecond
	freeHedges       = 10        // hedges that need not be earned first
	oneHedge         = 1_000_000 // what one costs: loads are kept to a millionth
)

// A measuredDelay is the time within which an attempt succeeds, unless it is
// one of the few that are slow. The zero value has measured nothing. It is safe
// for concurrent use, and must not be copied after first use.
type measuredDelay struct {
	latencies histogram.Histogram
	measured  atomic.Int64 // 0 while unknown
}

// add takes the latency of an attempt that succeeded at now. As many attempts
// count as slow as the extra load allows hedges, and 5 % if it has no limit.
func (d *measuredDelay) add(latency time.Duration, now time.Time, extraLoad float64) {
	if d.latencies.Add(latency, now)%refresh != 0 || d.latencies.Count() < samples {
		return
	}
	slow := limits.Or(extraLoad, defaultExtraLoad)
	if slow < 0 {
		slow = defaultExtraLoad
	}
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

// An account is the calls that succeeded, and the hedges that they pay for. The
// first ten need not be paid. The zero value is ready for use. It is safe
// for concurrent use, and must not be copied after first use.
type account struct {
	calls atomic.Uint64 // that succeeded

	mu   sync.Mutex
	seen uint64 // of calls, when last looked at
	debt int64  // hedges not yet paid for, in millionths
}

// take pays for a hedge, or reports that there is nothing to pay with.
func (a *account) take(extraLoad float64) bool {
	share := limits.Or(extraLoad, defaultExtraLoad)
	if share < 0 {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	calls := a.calls.Load()
	earned := int64(math.Round(share*oneHedge)) * int64(calls-a.seen)
	a.debt, a.seen = max(0, a.debt-earned), calls
	if a.debt > (freeHedges-1)*oneHedge {
		return false
	}
	a.debt += oneHedge
	return true
}

// giveBack takes back what was paid for a hedge that is not sent.
func (a *account) giveBack() {
	a.mu.Lock()
	a.debt = max(0, a.debt-oneHedge)
	a.mu.Unlock()
}
