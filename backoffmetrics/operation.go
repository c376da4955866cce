package backoffmetrics

import (
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
