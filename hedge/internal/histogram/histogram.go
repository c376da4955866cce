// Package histogram estimates the quantiles of recent durations.
//
// It counts durations in bins whose bounds grow by 10 %, so that a quantile is
// known to within 10 % however far the durations are spread. One extreme
// duration moves the quantiles below it no more than any other. To forget, a
// histogram keeps two generations of counts, and drops the old one when the
// young one is large and old enough.
package histogram

import (
	"math"
	"sync/atomic"
	"time"
)

const (
	bins   = 256
	growth = 1.1
	// Durations below shortest fall into the first bin. The last bin begins at
	// almost ten hours.
	shortest = time.Microsecond

	// A generation ends when it has both enough durations for a quantile of its
	// own, and an age at which it is representative. A busy caller fills it in
	// much less time.
	fullCount = 500
	fullAge   = 30 * time.Second
)

const logGrowth = 0.09531017980432493 // math.Log(growth)

// A Histogram counts durations. The zero value is empty and ready for use. All
// methods are safe for concurrent use and take no lock. A Histogram must not be
// copied after first use.
type Histogram struct{ both atomic.Pointer[generations] }

// generations is a pair that never changes, so that both can be replaced at
// once. The old one is nil at first.
type generations struct{ young, old *generation }

// generation is the counts of some time.
type generation struct {
	began time.Time
	count atomic.Uint32
	bins  [bins]atomic.Uint32
}

// Add counts d, which was measured at now, and returns the number of durations
// in the young generation, d included. A negative d counts as 0.
func (h *Histogram) Add(d time.Duration, now time.Time) int {
	both := h.both.Load()
	if both == nil {
		both = h.replace(nil, now)
	}
	young := both.young
	young.bins[bin(d)].Add(1)
	n := young.count.Add(1)
	if n >= fullCount && now.Sub(young.began) >= fullAge {
		h.replace(both, now)
	}
	return int(n)
}

// replace begins a new young generation, unless another goroutine just did.
func (h *Histogram) replace(both *generations, now time.Time) *generations {
	next := &generations{young: &generation{began: now}}
	if both != nil {
		next.old = both.young
	}
	h.both.CompareAndSwap(both, next)
	return h.both.Load()
}

// Count returns the number of durations that Quantile takes into account.
func (h *Histogram) Count() int {
	_, total := h.counts()
	return int(total)
}

// Quantile returns a duration that the share q of the counted durations does
// not exceed, or 0 if nothing was counted. A q outside [0,1] counts as the
// nearer end, and NaN as 0.
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

// counts returns the sum of both generations. Counts that are added meanwhile
// may be missing.
func (h *Histogram) counts() (sum [bins]uint64, total uint64) {
	both := h.both.Load()
	if both == nil {
		return sum, 0
	}
	for i := range sum {
		sum[i] = uint64(both.young.bins[i].Load())
		if both.old != nil {
			sum[i] += uint64(both.old.bins[i].Load())
		}
		total += sum[i]
	}
	return sum, total
}

// bin returns the number of the bin that d falls into.
func bin(d time.Duration) int {
	if d <= shortest {
		return 0
	}
	return min(int(math.Log(float64(d)/float64(shortest))/logGrowth), bins-1)
}

// edge returns the lower bound of bin i. A fraction gives a duration within the
// bin.
func edge(i float64) time.Duration {
	return time.Duration(math.Round(float64(shortest) * math.Exp(i*logGrowth)))
}
