package backoffmetrics

import (
	"math"
	"slices"
	"sync/atomic"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/snapshot"
	"github.com/gobackoff/backoff/internal/window"
)

// operation holds the counters of a policy or a hedge. Only calls that succeed
// at once are counted by many processors often enough that it matters.
type operation struct {
	first window.Counter // calls that succeeded with their first attempt

	retried    atomic.Uint64 // calls that succeeded with a later one
	attempts   atomic.Uint64 // of all calls but first
	reconnects atomic.Uint64
	won, lost  atomic.Uint64 // hedges
	refused    [snapshot.RefusalKinds]atomic.Uint64
	retries    [snapshot.Classes]atomic.Uint64
	failed     [snapshot.Classes]atomic.Uint64 // attempts
	failures   [snapshot.Reasons]atomic.Uint64 // calls

	perCall            histogram // of all calls but first
	delay, wait, slept histogram
}

// count counts an event.
func (o *operation) count(e *backoff.Event) {
	switch e.Kind {
	case backoff.EventRetry:
		o.attempts.Add(1)
		add(o.retries[:], int(e.Class))
		add(o.failed[:], int(e.Class))
		o.countWaits(e)
	case backoff.EventReconnect:
		o.reconnects.Add(1)
		o.countWaits(e)
	case backoff.EventHedgeWon:
		o.attempts.Add(1)
		o.won.Add(1)
	case backoff.EventHedgeLost:
		o.attempts.Add(1)
		o.lost.Add(1)
	case backoff.EventRefused:
		refused := snapshot.RefusedHedge
		if e.Wait > 0 { // a run under a Supervisor
			refused = snapshot.RefusedRun
		}
		o.refused[refused].Add(1)
	case backoff.EventSuccess:
		o.countSuccess(e)
	case backoff.EventGiveUp:
		o.countGiveUp(e)
	}
}

// add counts one. A later version may have more reasons and classes; those are
// not counted.
func add(counters []atomic.Uint64, i int) {
	if i < len(counters) {
		counters[i].Add(1)
	}
}

// countWaits counts the times around an announced retry.
func (o *operation) countWaits(e *backoff.Event) {
	o.delay.add(delayBounds, e.Delay.Seconds())
	o.wait.add(delayBounds, e.Wait.Seconds())
	o.countSleep(e)
}

// countSleep counts the time slept before the attempt.
func (o *operation) countSleep(e *backoff.Event) {
	if e.Slept > 0 {
		o.slept.add(delayBounds, e.Slept.Seconds())
	}
}

// countSuccess counts a call that succeeded, but not at once. If its first
// attempt succeeded, that had waited for its turn, as a budget wanted. After
// Run.Progress an attempt is the first again, and what was slept before it may be
// longer than the time since.
func (o *operation) countSuccess(e *backoff.Event) {
	if e.Attempt == 1 && e.Slept <= e.Elapsed {
		o.first.Add()
		o.countSleep(e)
		return
	}
	o.attempts.Add(1)
	o.retried.Add(1)
	o.countEnd(e)
}

// countGiveUp counts a call that failed.
func (o *operation) countGiveUp(e *backoff.Event) {
	add(o.failures[:], int(e.Reason))
	if snapshot.AttemptFailed(e) {
		o.attempts.Add(1)
		add(o.failed[:], int(e.Class))
	}
	switch {
	case e.Reason != backoff.ReasonBudget:
	case e.Attempt == 0:
		o.refused[snapshot.RefusedCall].Add(1)
	default:
		o.refused[snapshot.RefusedRetry].Add(1)
	}
	o.countEnd(e)
}

// countEnd counts the end of a call.
func (o *operation) countEnd(e *backoff.Event) {
	o.perCall.add(attemptBounds, float64(e.Attempt))
	o.countSleep(e)
}

// The upper bounds of buckets. Those of delays contain the delays of the usual
// schedules, so that delays without jitter stand out as a single bucket.
var (
	delayBounds   = []float64{0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 30, 60, 120, 300}
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
