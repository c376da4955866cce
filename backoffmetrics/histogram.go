package backoffmetrics

import (
	"math"
	"slices"
	"sync/atomic"

	"github.com/gobackoff/backoff/internal/snapshot"
)

// The upper bounds of buckets. Those of delays contain the delays of the usual
// schedules, so that delays without jitter stand out as a single bucket.
var (
	delayBounds = []float64{0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4,
		12.8, 30, 60, 120, 300}
	attemptBounds = []float64{0, 1, 2, 3, 4, 5, 6, 8, 10, 20}
)

// histogram counts values in buckets. The last bucket has no bound.
type histogram struct {
	buckets [snapshot.MaxBuckets]atomic.Uint64
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

// read reads the histogram.
func (h *histogram) read(bounds []float64) snapshot.Histogram {
	t := snapshot.Histogram{Bounds: bounds, Counts: make([]uint64, len(bounds)+1)}
	load(t.Counts, h.buckets[:len(t.Counts)])
	t.Sum = math.Float64frombits(h.sum.Load())
	return t
}
