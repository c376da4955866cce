package backoffmetrics

import (
	"sync/atomic"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/window"
)

const (
	reasons = int(backoff.ReasonInvalid) + 1
	classes = int(backoff.ClassPermanent) + 1
)

// operation is what is counted of a policy or a hedge. Only what succeeds at once is
// counted by many processors at the same time, often enough for it to matter.
type operation struct {
	first window.Counter // calls that succeeded with their first attempt

	retried    atomic.Uint64 // calls that succeeded with a later one
	attempts   atomic.Uint64 // of all other calls
	reconnects atomic.Uint64
	won, lost  atomic.Uint64 // hedges
	refused    [refusals]atomic.Uint64
	retries    [classes]atomic.Uint64
	failed     [classes]atomic.Uint64 // attempts
	failures   [reasons]atomic.Uint64 // calls

	perCall            histogram // but for first
	delay, wait, slept histogram
}

// A refusal is what a budget refused.
type refusal int

const (
	ofCall refusal = iota
	ofRetry
	ofHedge
	ofRun
	refusals = int(ofRun) + 1
)

// String returns what was refused.
func (r refusal) String() string {
	return [refusals]string{"call", "retry", "hedge", "run"}[r]
}

func (o *operation) count(e *backoff.Event) {
	switch e.Kind {
	case backoff.EventRetry:
		o.attempts.Add(1)
		add(o.retries[:], int(e.Class))
		add(o.failed[:], int(e.Class))
		o.waits(e)
	case backoff.EventReconnect:
		o.reconnects.Add(1)
		o.waits(e)
	case backoff.EventHedgeWon:
		o.attempts.Add(1)
		o.won.Add(1)
	case backoff.EventHedgeLost:
		o.attempts.Add(1)
		o.lost.Add(1)
	case backoff.EventRefused:
		o.refuse(e)
	case backoff.EventSuccess:
		o.attempts.Add(1)
		o.succeed(e)
	case backoff.EventGiveUp:
		o.giveUp(e)
	}
}

// add counts one of those that are known; there may be more some day.
func add(counters []atomic.Uint64, i int) {
	if i < len(counters) {
		counters[i].Add(1)
	}
}

func (o *operation) waits(e *backoff.Event) {
	o.delay.add(delayBounds, e.Delay.Seconds())
	o.wait.add(delayBounds, e.Wait.Seconds())
	o.sleep(e)
}

func (o *operation) sleep(e *backoff.Event) {
	if e.Slept > 0 {
		o.slept.add(delayBounds, e.Slept.Seconds())
	}
}

// refuse counts what a call goes on without: a hedge, or for a wait, a run.
func (o *operation) refuse(e *backoff.Event) {
	if e.Wait > 0 {
		o.refused[ofRun].Add(1)
		return
	}
	o.refused[ofHedge].Add(1)
}

func (o *operation) succeed(e *backoff.Event) {
	o.retried.Add(1)
	o.end(e)
}

func (o *operation) giveUp(e *backoff.Event) {
	add(o.failures[:], int(e.Reason))
	if e.Attempt > 0 && !e.Waiting {
		o.attempts.Add(1)
		add(o.failed[:], int(e.Class))
	}
	switch {
	case e.Reason != backoff.ReasonBudget:
	case e.Attempt == 0:
		o.refused[ofCall].Add(1)
	default:
		o.refused[ofRetry].Add(1)
	}
	o.end(e)
}

func (o *operation) end(e *backoff.Event) {
	o.perCall.add(attemptBounds, float64(e.Attempt))
	o.sleep(e)
}
