package page

import (
	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/snapshot"
)

// totals is an operation's counters at one moment, as far as the page compares
// moments.
type totals struct {
	first, retried, failed    uint64 // calls
	attempts, retries         uint64
	hedges, refused           uint64
	open                      uint64 // failed calls that an open circuit refused
	transientFailures         uint64 // failed calls whose error might have passed
	failedAttempts, throttled uint64 // throttled of failedAttempts, because the service throttles
	reconnects                uint64
	errors                    [errorSlots]uint32 // failed attempts, by the kind of their error
}

// totalsOf returns the counters of an operation.
func totalsOf(o *snapshot.Operation) totals {
	t := totals{
		first: o.First, retried: o.Retried, failed: o.Failed, attempts: o.Attempts, reconnects: o.Reconnects,
		hedges: o.Won + o.Lost, open: o.Failures[backoff.ReasonOpen], throttled: o.FailedAttempts[backoff.ClassThrottled],
		retries: sum(o.Retries[:]), refused: sum(o.Refused[:]), failedAttempts: sum(o.FailedAttempts[:]),
	}
	for _, reason := range transientReasons {
		t.transientFailures += o.Failures[reason]
	}
	return t
}

// transientReasons are those for which a call is given up although the failure
// might have passed, but for an open circuit.
var transientReasons = []backoff.Reason{
	backoff.ReasonAttempts, backoff.ReasonElapsed, backoff.ReasonRetryAfter,
	backoff.ReasonDeadline, backoff.ReasonOverloaded, backoff.ReasonBudget,
}

// sum returns the sum of numbers.
func sum(numbers []uint64) (total uint64) {
	for _, n := range numbers {
		total += n
	}
	return total
}

// calls returns the number of calls that ended.
func (t totals) calls() uint64 { return t.first + t.retried + t.failed }

// transient returns the number of calls that failed for a reason that might
// have passed.
func (t totals) transient() uint64 { return t.transientFailures + t.open }

// minus returns what was counted since old.
func (t totals) minus(old totals) totals {
	d := totals{
		first: t.first - old.first, retried: t.retried - old.retried, failed: t.failed - old.failed,
		attempts: t.attempts - old.attempts, retries: t.retries - old.retries,
		hedges: t.hedges - old.hedges, refused: t.refused - old.refused,
		open: t.open - old.open, transientFailures: t.transientFailures - old.transientFailures,
		failedAttempts: t.failedAttempts - old.failedAttempts, throttled: t.throttled - old.throttled, reconnects: t.reconnects - old.reconnects,
	}
	for i := range d.errors {
		d.errors[i] = t.errors[i] - old.errors[i]
	}
	return d
}
