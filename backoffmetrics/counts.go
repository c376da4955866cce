package backoffmetrics

import (
	"sync/atomic"

	"github.com/gobackoff/backoff"
)

// totals is an operation's counters at one moment, as far as the page compares
// moments.
type totals struct {
	first, retried, failed uint64 // calls
	attempts, retries      uint64
	hedges, refused        uint64
	unrescued              uint64 // failed calls whose error might have passed
	ill, throttled         uint64 // attempts that failed, and those because the service throttles
	reconnects             uint64
	refusals               refusals
	errors                 [errorSlots]uint32 // attempts that failed, by the kind of their error
	waits                  [maxBuckets]uint32
}

// calls returns the number of calls that ended.
func (t totals) calls() uint64 { return t.first + t.retried + t.failed + t.refusals.missed }

// failures returns the number of calls that failed.
func (t totals) failures() uint64 { return t.failed + t.refusals.missed }

// open returns the number of calls that failed because a circuit was open.
func (t totals) open() uint64 { return t.refusals.ended + t.refusals.missed }

// transient returns the number of calls that failed for a reason that might
// have passed.
func (t totals) transient() uint64 { return t.unrescued + t.open() }

// minus returns what was counted since old.
func (t totals) minus(old totals) totals {
	d := totals{
		first: t.first - old.first, retried: t.retried - old.retried, failed: t.failed - old.failed,
		attempts: t.attempts - old.attempts, retries: t.retries - old.retries,
		hedges: t.hedges - old.hedges, refused: t.refused - old.refused,
		unrescued: t.unrescued - old.unrescued, ill: t.ill - old.ill, throttled: t.throttled - old.throttled, reconnects: t.reconnects - old.reconnects,
		refusals: t.refusals.minus(old.refusals),
	}
	for i := range d.errors {
		d.errors[i] = t.errors[i] - old.errors[i]
	}
	for i := range d.waits {
		d.waits[i] = t.waits[i] - old.waits[i]
	}
	return d
}

// counts is all counters of an operation at one moment.
type counts struct {
	labels
	totals
	won, lost          uint64
	refusedOf          [refusalKinds]uint64
	retriesBy          [classes]uint64
	failedBy           [classes]uint64
	failuresFor        [reasons]uint64
	perCall            distribution
	delay, wait, slept distribution
}

// with returns the labels of a series: the operation, the endpoint if it is
// known, and more.
func (l labels) with(more ...string) []string {
	all := []string{"operation", l.name}
	if l.endpoint != "" {
		all = append(all, "endpoint", l.endpoint)
	}
	return append(all, more...)
}

const (
	states   = int(backoff.StateHalfOpen) + 1
	triggers = int(backoff.TriggerShared) + 1
	reasons  = int(backoff.ReasonInvalid) + 1
	classes  = int(backoff.ClassPermanent) + 1
)

// snapshot reads the counters. Of two snapshots, one after the other, the later
// one never has less.
func (o *operation) snapshot(l labels) counts {
	c := counts{labels: l, won: o.won.Load(), lost: o.lost.Load()}
	load(c.refusedOf[:], o.refused[:])
	load(c.retriesBy[:], o.retries[:])
	load(c.failedBy[:], o.failed[:])
	load(c.failuresFor[:], o.failures[:])
	c.perCall = o.perCall.distribution(attemptBounds)
	c.delay, c.wait, c.slept = o.delay.distribution(delayBounds), o.wait.distribution(delayBounds), o.slept.distribution(delayBounds)
	c.totals = o.totals()
	c.perCall.buckets[1] += c.first
	c.perCall.sum += float64(c.first)
	return c
}

// totals reads the counters that rates and the diagnosis need.
func (o *operation) totals() totals {
	t := totals{retried: o.retried.Load(), hedges: o.won.Load() + o.lost.Load(), reconnects: o.reconnects.Load()}
	for reason := range o.failures {
		n := o.failures[reason].Load()
		t.failed += n
		if mightPass[reason] {
			t.unrescued += n
		}
	}
	t.retries, t.refused = sum(o.retries[:]), sum(o.refused[:])
	t.ill, t.throttled = sum(o.failed[:]), o.failed[backoff.ClassThrottled].Load()
	t.first = o.first.Total()
	t.attempts = t.first + o.attempts.Load()
	t.refusals = refusals{ended: o.failures[backoff.ReasonOpen].Load(), own: o.own.Load(), later: o.later.Load(), waited: o.waited.Load()}
	for i := range t.errors {
		t.errors[i] = uint32(o.errors.slots[i].count.Load())
	}
	for i := range t.waits {
		t.waits[i] = uint32(o.wait.buckets[i].Load())
	}
	return t
}

// load reads all counters of an array.
func load(to []uint64, from []atomic.Uint64) {
	for i := range from {
		to[i] = from[i].Load()
	}
}

// sum returns the sum of counters.
func sum(counters []atomic.Uint64) (total uint64) {
	for i := range counters {
		total += counters[i].Load()
	}
	return total
}

// snapshots reads the counters of all operations, sorted by their labels.
func (m *Metrics) snapshots() []counts {
	all := m.operations.sorted()
	reported := m.reportedOf(all)
	list := make([]counts, len(all))
	for i, o := range all {
		list[i] = o.value.snapshot(o.labels)
		o.value.addMissed(&list[i], reported[i])
	}
	return list
}

// mightPass says for which reasons a call is given up although the failure
// might have passed.
var mightPass = [reasons]bool{
	backoff.ReasonAttempts: true, backoff.ReasonElapsed: true, backoff.ReasonRetryAfter: true,
	backoff.ReasonDeadline: true, backoff.ReasonOverloaded: true, backoff.ReasonBudget: true,
}
