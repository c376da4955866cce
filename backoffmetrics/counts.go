package backoffmetrics

import (
	"sync/atomic"

	"github.com/gobackoff/backoff"
)

// totals is what rates are made of: an operation's counters at one moment.
type totals struct {
	first, retried, failed uint64 // calls
	attempts, retries      uint64
	hedges, refused        uint64
	vain                   uint64 // calls that failed although they might have been retried further
	reconnects             uint64
}

func (t totals) calls() uint64 { return t.first + t.retried + t.failed }

func (t totals) minus(old totals) totals {
	return totals{
		first: t.first - old.first, retried: t.retried - old.retried, failed: t.failed - old.failed,
		attempts: t.attempts - old.attempts, retries: t.retries - old.retries,
		hedges: t.hedges - old.hedges, refused: t.refused - old.refused,
		vain: t.vain - old.vain, reconnects: t.reconnects - old.reconnects,
	}
}

// counts is all there is of an operation at one moment.
type counts struct {
	name string
	totals
	won, lost          uint64
	refusedOf          [refusals]uint64
	retriesBy          [classes]uint64
	failedBy           [classes]uint64
	failuresFor        [reasons]uint64
	perCall            tally
	delay, wait, slept tally
}

// read reads the counters. Of two readings one after the other, the later never has less.
func (o *operation) read(name string) counts {
	c := counts{name: name, won: o.won.Load(), lost: o.lost.Load()}
	load(c.refusedOf[:], o.refused[:])
	load(c.retriesBy[:], o.retries[:])
	load(c.failedBy[:], o.failed[:])
	load(c.failuresFor[:], o.failures[:])
	c.perCall = o.perCall.tally(attemptBounds)
	c.delay, c.wait, c.slept = o.delay.tally(delayBounds), o.wait.tally(delayBounds), o.slept.tally(delayBounds)
	c.totals = o.totals()
	c.perCall.buckets[1] += c.first
	c.perCall.sum += float64(c.first)
	return c
}

func (o *operation) totals() totals {
	t := totals{retried: o.retried.Load(), hedges: o.won.Load() + o.lost.Load(), reconnects: o.reconnects.Load()}
	for reason := range o.failures {
		n := o.failures[reason].Load()
		t.failed += n
		if inVain[reason] {
			t.vain += n
		}
	}
	t.retries, t.refused = sum(o.retries[:]), sum(o.refused[:])
	t.first = o.first.Total()
	t.attempts = t.first + o.attempts.Load()
	return t
}

func load(to []uint64, from []atomic.Uint64) {
	for i := range from {
		to[i] = from[i].Load()
	}
}

func sum(counters []atomic.Uint64) (total uint64) {
	for i := range counters {
		total += counters[i].Load()
	}
	return total
}

// read reads all operations, by name.
func (m *Metrics) read() []counts {
	all := m.operations.sorted()
	list := make([]counts, len(all))
	for i, o := range all {
		list[i] = o.value.read(o.label)
	}
	return list
}

// inVain are the reasons to give up on a failure that might have passed.
var inVain = [reasons]bool{
	backoff.ReasonAttempts: true, backoff.ReasonElapsed: true, backoff.ReasonRetryAfter: true,
	backoff.ReasonDeadline: true, backoff.ReasonOverloaded: true, backoff.ReasonBudget: true,
}
