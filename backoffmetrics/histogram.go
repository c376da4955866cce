package backoffmetrics

import (
	"math"
	"slices"
	"sync/atomic"
)

// The upper bounds of buckets. Those of delays contain the delays of the usual
// schedules, so that delays without jitter stand out as a single bucket.
var (
	delayBounds = []float64{0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4,
		12.8, 30, 60, 120, 300}
	attemptBounds = []float64{0, 1, 2, 3, 4, 5, 6, 8, 10, 20}
)

// maxBuckets is one more than the longest list of bounds.
const maxBuckets = 18

// histogram counts values in buckets. The last bucket has no bound.
type histogram struct {
	buckets [maxBuckets]atomic.Uint64
	sum     atomic.Uint64 // the bits of a float, which does not overflow
}

// add counts a value.
func (h *histogram) add(bounds []float64, v float64) {
	i, _ := slices.BinarySearch(bounds, v)
	h.buckets[i].Add(1)
	for {
		old := h.sum.Load()
		if h.sum.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+v)) {
			return
		}
	}
}

// distribution is a histogram at one moment.
type distribution struct {
	bounds  []float64
	buckets []uint64
	sum     float64
}

// distribution reads the histogram.
func (h *histogram) distribution(bounds []float64) distribution {
	t := distribution{bounds: bounds, buckets: make([]uint64, len(bounds)+1)}
	for i := range t.buckets {
		t.buckets[i] = h.buckets[i].Load()
	}
	t.sum = math.Float64frombits(h.sum.Load())
	return t
}

// quantile estimates the value that a share q of all values does not exceed, as
// the Quantile of package endpoint does: it interpolates within a bucket. It
// returns NaN without values, and the last bound if the quantile is beyond that.
func quantile(bounds []float64, counts []uint32, q float64) float64 {
	var all float64
	for _, n := range counts {
		all += float64(n)
	}
	if all == 0 {
		return math.NaN()
	}
	rank, below, lower := q*all, 0.0, 0.0
	for i, upper := range bounds {
		if n := float64(counts[i]); n > 0 && below+n >= rank {
			return lower + (upper-lower)*math.Max(0, rank-below)/n
		}
		below, lower = below+float64(counts[i]), upper
	}
	return lower
}
