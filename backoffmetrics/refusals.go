package backoffmetrics

import (
	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/errtree"
	"github.com/gobackoff/backoff/internal/snapshot"
)

// refusals counts what breakers refused of an operation.
//
// If a breaker is around a policy, only the breaker has an event for a call that
// it refuses. If it is inside the policy, the policy has one as well: the end of
// its call. So a refusal of a breaker is a call of the operation of its name,
// unless that operation has counted the same refusal itself.
type refusals struct {
	reported        uint64 // by the breaker of the operation's name
	countedByPolicy uint64 // of reported, those that the policy counted as well

	// laterAttempts is how many calls ended with ReasonOpen at a later attempt.
	// Their events have the service's last error, and so do not say which
	// breaker it was: that of the operation's name, if that is inside the policy.
	laterAttempts uint64
	// waited is how many refusals a policy waited for, or would have if there
	// were time. Then the breaker is inside the policy.
	waited uint64
}

// missed returns how many calls only the breaker counted, as far as it is known
// whether the breaker is around the policy or inside it.
func (r refusals) missed() uint64 {
	if r.waited > 0 {
		return 0
	}
	counted := r.countedByPolicy
	if counted > 0 {
		counted += r.laterAttempts
	}
	return r.reported - min(r.reported, counted)
}

// addMissed adds the calls that only the breaker counted: they failed without an
// attempt, because the circuit was open.
func (o *operation) addMissed(to *snapshot.Operation, reported uint64) {
	missed := refusals{reported, o.countedByPolicy.Load(), o.laterAttempts.Load(), o.waited.Load()}.missed()
	for before := o.missed.Load(); ; before = o.missed.Load() {
		if missed <= before {
			missed = before
			break
		}
		if o.missed.CompareAndSwap(before, missed) {
			break
		}
	}
	to.Failed += missed
	to.Failures[backoff.ReasonOpen] += missed
	to.PerCall.Counts[0] += missed
}

// countOpen counts the end of a call, or a wait, for an open circuit. A call
// that has no time to wait for the circuit ends for another reason.
func (o *operation) countOpen(e *backoff.Event) {
	if !errtree.Is(e.Err, backoff.ErrOpen) { // As allocates
		if e.Kind == backoff.EventGiveUp && e.Reason == backoff.ReasonOpen {
			o.laterAttempts.Add(1)
		}
		return
	}
	open, ok := errtree.As[*backoff.OpenError](e.Err)
	switch {
	case !ok || open.Name != e.Name:
	case e.Kind == backoff.EventRefused || e.Reason != backoff.ReasonOpen:
		o.waited.Add(1)
	default:
		o.countedByPolicy.Add(1)
	}
}

// reportedOf returns what breakers refused, by the operation's index in all. A
// refusal without an operation of the breaker's name is counted by the breaker
// alone, and so is one that may belong to several.
func (m *Metrics) reportedOf(all []*named[operation]) map[int]uint64 {
	refused := m.reported.sorted()
	if len(refused) == 0 {
		return nil
	}
	numbers, byName := make(map[snapshot.Labels]int), make(map[string][]int)
	for i, o := range all {
		numbers[o.Labels] = i
		byName[o.Name] = append(byName[o.Name], i)
	}
	reported := make(map[int]uint64)
	for _, r := range refused {
		i, ok := numbers[r.Labels]
		if same := byName[r.Name]; !ok && len(same) == 1 {
			i, ok = same[0], true
		}
		if ok && r.Labels != others {
			reported[i] += r.value.Load()
		}
	}
	return reported
}
