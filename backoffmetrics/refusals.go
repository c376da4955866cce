package backoffmetrics

import (
	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/errtree"
)

// refusals counts what breakers refused of an operation.
//
// If a breaker is around a policy, only the breaker has an event for a call that
// it refuses. If it is inside the policy, the policy has one as well: the end of
// its call. So a refusal of a breaker is a call of the operation of its name,
// unless that operation has counted the same refusal itself.
type refusals struct {
	reported uint64 // by the breaker of the operation's name
	ended    uint64 // calls that the policy ended with ReasonOpen
	own      uint64 // of reported, those that the policy counted as well

	// later is how many calls ended with ReasonOpen at a later attempt. Their
	// events have the service's last error, and so do not say which breaker
	// it was: that of the operation's name, if that is inside the policy.
	later uint64
	// waited is how many refusals a policy waited for, or would
	// have if there were time. Then the breaker is inside the policy.
	waited uint64

	missed uint64 // calls that only the breaker counted
}

// minus returns the calls that ended since old.
func (r refusals) minus(old refusals) refusals {
	return refusals{ended: r.ended - old.ended, missed: r.missedSince(old, r)}
}

// missedSince returns how many calls only the breaker counted since old, as far
// as it is known whether the breaker is around the policy or inside it.
func (r refusals) missedSince(old, now refusals) uint64 {
	if now.waited > 0 {
		return 0
	}
	counted := r.own - old.own
	if now.own > 0 {
		counted += r.later - old.later
	}
	if reported := r.reported - old.reported; r.reported > old.reported && reported > counted {
		return reported - counted
	}
	return 0
}

// addMissed adds the calls since the start that only the breaker counted: they
// failed without an attempt, because the circuit was open.
func (o *operation) addMissed(c *counts, reported uint64) {
	c.refusals.reported = reported
	missed := c.refusals.minus(refusals{}).missed
	for before := o.missed.Load(); ; before = o.missed.Load() {
		if missed <= before {
			missed = before
			break
		}
		if o.missed.CompareAndSwap(before, missed) {
			break
		}
	}
	c.failed += missed
	c.failuresFor[backoff.ReasonOpen] += missed
	c.perCall.buckets[0] += missed
}

// countOpen counts the end of a call, or a wait, for an open circuit. A call
// that has no time to wait for the circuit ends for another reason.
func (o *operation) countOpen(e *backoff.Event) {
	if !errtree.Is(e.Err, backoff.ErrOpen) { // As allocates
		if e.Kind == backoff.EventGiveUp && e.Reason == backoff.ReasonOpen {
			o.later.Add(1)
		}
		return
	}
	open, ok := errtree.As[*backoff.OpenError](e.Err)
	switch {
	case !ok || open.Name != e.Name:
	case e.Kind == backoff.EventRefused || e.Reason != backoff.ReasonOpen:
		o.waited.Add(1)
	default:
		o.own.Add(1)
	}
}

// reportedOf returns what breakers refused, by the number of the operation. all are
// all operations, in the order of their numbers. A refusal without an operation
// of the breaker's name is shown with the breaker alone, and so is one that may
// belong to several.
func (m *Metrics) reportedOf(all []*named[operation]) map[int]uint64 {
	refused := m.reported.inOrder()
	if len(refused) == 0 {
		return nil
	}
	numbers, byName := make(map[labels]int), make(map[string][]int)
	for i, o := range all {
		numbers[o.labels] = i
		byName[o.name] = append(byName[o.name], i)
	}
	reported := make(map[int]uint64)
	for _, r := range refused {
		i, ok := numbers[r.labels]
		if same := byName[r.name]; !ok && len(same) == 1 {
			i, ok = same[0], true
		}
		if ok && r.labels != others {
			reported[i] += r.value.Load()
		}
	}
	return reported
}
