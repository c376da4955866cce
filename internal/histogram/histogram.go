// Package histogram estimates the quantiles of durations, of the recent ones only.
//
// Durations are counted in bins whose bounds grow by 10 %, so a quantile is known
// to within that, however far the durations are spread, and one that lies far out
// moves the quantiles below it no more than any other. To forget, it keeps two
// generations of counts and drops the older when the younger is large and old enough.
package histogram

import (
	"math"
	"sync/atomic"
	"time"
)

const (
	bins   = 256
	growth = 1.1
	least  = time.Microsecond // shorter ones fall into the first bin; the last one begins short of ten hours

	// A generation ends when it has both: enough for a quantile of its own, and the
	// time that a busy caller would otherwise not give it to be representative.
	fullCount = 500
	fullAge   = 30 * time.Second
)

var logGrowth = math.Log(growth)

// A Histogram counts durations. The zero value is empty and ready; all methods are
// safe for concurrent use and take no lock. It must not be copied after first use.
type Histogram struct{ kept atomic.Pointer[generations] }

// generations never change which they are, so that they are exchanged at once.
type generations struct{ young, old *generation }

type generation struct {
	began time.Time
	count atomic.Uint32
	bins  [bins]atomic.Uint32
}

// Add counts d, which was measured at now, and returns how many the younger
// generation has, d included. A negative d counts as 0.
func (h *Histogram) Add(d time.Duration, now time.Time) int {
	kept := h.kept.Load()
	if kept == nil {
		kept = h.turn(nil, now)
	}
	young := kept.young
	young.bins[bin(d)].Add(1)
	n := young.count.Add(1)
	if n >= fullCount && now.Sub(young.began) >= fullAge {
		h.turn(kept, now)
	}
	return int(n)
}

// turn begins a generation after those given, unless somebody else just did.
func (h *Histogram) turn(kept *generations, now time.Time) *generations {
	next := &generations{young: &generation{began: now}}
	if kept != nil {
		next.old = kept.young
	}
	h.kept.CompareAndSwap(kept, next)
	return h.kept.Load()
}

// Count returns how many durations the quantiles are of.
func (h *Histogram) Count() int {
	kept := h.kept.Load()
	switch {
	case kept == nil:
		return 0
	case kept.old == nil:
		return int(kept.young.count.Load())
	}
	return int(kept.young.count.Load()) + int(kept.old.count.Load())
}

// Quantile returns a duration that the share q of those counted does not exceed; 0
// if nothing was counted. A q outside [0,1] is taken as the nearer end, a NaN as 0.
func (h *Histogram) Quantile(q float64) time.Duration {
	counts, total := h.counts()
	rank := math.Min(math.Max(0, q), 1) * float64(total)
	if !(rank >= 0) {
		rank = 0
	}
	below := 0.0
	for i, n := range counts {
		if n > 0 && below+float64(n) >= rank {
			return edge(float64(i) + (rank-below)/float64(n))
		}
		below += float64(n)
	}
	return 0
}

// counts returns what both generations hold, as of about now.
func (h *Histogram) counts() (sum [bins]uint64, total uint64) {
	kept := h.kept.Load()
	if kept == nil {
		return sum, 0
	}
	for i := range sum {
		sum[i] = uint64(kept.young.bins[i].Load())
		if kept.old != nil {
			sum[i] += uint64(kept.old.bins[i].Load())
		}
		total += sum[i]
	}
	return sum, total
}

// bin returns the bin for d.
func bin(d time.Duration) int {
	if d <= least {
		return 0
	}
	return min(int(math.Log(float64(d)/float64(least))/logGrowth), bins-1)
}

// edge returns the lower bound of bin i, and for fractions what lies between.
func edge(i float64) time.Duration {
	return time.Duration(math.Round(float64(least) * math.Exp(i*logGrowth)))
}
