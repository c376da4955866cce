package backoffmetrics

import (
	"cmp"
	"maps"
	"slices"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/control"
)

// A Family is a metric with all its series, in the terms of Prometheus, for
// exporters of other formats: see contrib/backoffprom.
type Family struct {
	Name    string // such as "backoff_calls_total"
	Type    string // "counter", "gauge" or "histogram"
	Help    string
	Labels  []string // the names of all labels, not to be changed; a sample may lack the endpoint
	Samples []Sample
}

// A Sample is one series at one moment.
type Sample struct {
	// Labels are pairs of a name and a value: "operation", "search", and so
	// on. The values are valid UTF-8 and not empty.
	Labels []string
	// Value is that of a counter or a gauge.
	Value float64

	// Bounds are the upper bounds of a histogram's buckets. They are shared,
	// and must not be changed. Counts has the number of values in each bucket,
	// not added up, and in the last one that of all values beyond the last
	// bound. Sum is the sum of the values.
	Bounds []float64
	Counts []uint64
	Sum    float64
}

// operationLabels are the labels of all series of operations.
var operationLabels = []string{"operation", "endpoint"}

// Families returns all series. It is safe for concurrent use, and takes a few
// milliseconds for 100 operations, endpoints and breakers.
func (m *Metrics) Families() []Family {
	m.history.record(m)
	all := m.snapshots()
	return slices.Concat(
		callFamilies(all),
		failureFamilies(all),
		timeFamilies(all),
		endpointFamilies(m.shownEndpoints()),
		breakerFamilies(m.shownBreakers()),
		budgetFamilies(m.shownBudgets()),
		keyFamilies(m.shownKeys()),
		[]Family{m.overrideFamily()},
	)
}

// count adds a series with a number.
func (f *Family) count(n uint64, labels ...string) {
	f.Samples = append(f.Samples, Sample{Labels: labels, Value: float64(n)})
}

// countIfAny is count for a series that begins when there is something to
// count.
func (f *Family) countIfAny(n uint64, labels ...string) {
	if n > 0 {
		f.count(n, labels...)
	}
}

// histogram adds a series with a histogram.
func (f *Family) histogram(d distribution, labels ...string) {
	f.Samples = append(f.Samples, Sample{Labels: labels, Bounds: d.bounds, Counts: d.buckets, Sum: d.sum})
}

// callFamilies counts calls, attempts, runs and hedges.
func callFamilies(all []counts) []Family {
	calls := Family{Name: "backoff_calls_total", Type: "counter", Labels: append(operationLabels, "outcome"), Help: "Calls that ended: at the first attempt, after retries, or failed."}
	attempts := Family{Name: "backoff_attempts_total", Type: "counter", Labels: operationLabels, Help: "Attempts that ended."}
	reconnects := Family{Name: "backoff_reconnects_total", Type: "counter", Labels: operationLabels, Help: "Runs of a loop that ended and were followed by another."}
	hedges := Family{Name: "backoff_hedges_total", Type: "counter", Labels: append(operationLabels, "result"), Help: "Hedges that were sent, by whether their result was the call's."}
	for _, c := range all {
		calls.count(c.first, c.with("outcome", "first")...)
		calls.count(c.retried, c.with("outcome", "retried")...)
		calls.count(c.failed, c.with("outcome", "failed")...)
		attempts.count(c.attempts, c.with()...)
		reconnects.count(c.reconnects, c.with()...)
		hedges.countIfAny(c.won, c.with("result", "won")...)
		hedges.countIfAny(c.lost, c.with("result", "lost")...)
	}
	return []Family{calls, attempts, reconnects, hedges}
}

// failureFamilies counts retries, failures and refusals.
func failureFamilies(all []counts) []Family {
	retries := Family{Name: "backoff_retries_total", Type: "counter", Labels: append(operationLabels, "class"), Help: "Retries announced, by the class of the failure before."}
	failed := Family{Name: "backoff_failed_attempts_total", Type: "counter", Labels: append(operationLabels, "class"), Help: "Attempts that failed, by the class of the failure."}
	failures := Family{Name: "backoff_failures_total", Type: "counter", Labels: append(operationLabels, "reason"), Help: "Calls that failed in the end, by the reason to give up."}
	refusals := Family{Name: "backoff_refusals_total", Type: "counter", Labels: append(operationLabels, "of"), Help: "What the budget refused."}
	for _, c := range all {
		for class := range backoff.Class(classes) {
			retries.countIfAny(c.retriesBy[class], c.with("class", class.String())...)
			failed.countIfAny(c.failedBy[class], c.with("class", class.String())...)
		}
		for reason := range backoff.Reason(reasons) {
			failures.countIfAny(c.failuresFor[reason], c.with("reason", reason.String())...)
		}
		for of := range refusal(refusalKinds) {
			refusals.count(c.refusedOf[of], c.with("of", of.String())...)
		}
	}
	return []Family{retries, failed, failures, refusals}
}

// timeFamilies has the histograms of operations.
func timeFamilies(all []counts) []Family {
	perCall := Family{Name: "backoff_attempts_per_call", Type: "histogram", Labels: operationLabels, Help: "Attempts that a call took."}
	delay := Family{Name: "backoff_delay_seconds", Type: "histogram", Labels: operationLabels, Help: "Delays before a retry as the schedule says, before jitter."}
	wait := Family{Name: "backoff_wait_seconds", Type: "histogram", Labels: operationLabels, Help: "Waits before a retry, after jitter and Retry-After."}
	slept := Family{Name: "backoff_slept_seconds", Type: "histogram", Labels: operationLabels, Help: "What was really slept before an attempt."}
	for _, c := range all {
		perCall.histogram(c.perCall, c.with()...)
		delay.histogram(c.delay, c.with()...)
		wait.histogram(c.wait, c.with()...)
		slept.histogram(c.slept, c.with()...)
	}
	return []Family{perCall, delay, wait, slept}
}

// endpointFamilies has the attempts at endpoints: those in flight, and how long
// they took.
func endpointFamilies(all []shownEndpoint) []Family {
	inFlight := Family{Name: "backoff_attempts_in_flight", Type: "gauge", Labels: []string{"endpoint"}, Help: "Attempts that are under way."}
	took := Family{Name: "backoff_attempt_duration_seconds", Type: "histogram", Labels: []string{"endpoint", "outcome"}, Help: "How long attempts took, by whether they succeeded."}
	for _, e := range all {
		inFlight.count(uint64(max(0, e.inFlight)), "endpoint", e.name)
		took.histogram(e.succeeded, "endpoint", e.name, "outcome", "success")
		took.histogram(e.failed, "endpoint", e.name, "outcome", "failure")
	}
	return []Family{inFlight, took}
}

// breakerFamilies has the states, transitions and refusals of breakers.
func breakerFamilies(all []shownBreaker) []Family {
	state := Family{Name: "backoff_breaker_state", Type: "gauge", Labels: []string{"breaker", "state"}, Help: "1 for the state that the breaker is in."}
	transitions := Family{Name: "backoff_breaker_transitions_total", Type: "counter", Labels: []string{"breaker", "from", "to", "trigger"}, Help: "Changes of the breaker's state."}
	refused := Family{Name: "backoff_breaker_refusals_total", Type: "counter", Labels: []string{"breaker"}, Help: "Calls that the breaker refused."}
	for _, b := range all {
		for s := range backoff.State(states) {
			state.count(boolValue(s == b.state), "breaker", b.name, "state", s.String())
		}
		for from := range backoff.State(states) {
			for to := range backoff.State(states) {
				for trigger := range backoff.Trigger(triggers) {
					transitions.countIfAny(b.transitions[from][to][trigger].Load(), "breaker", b.name,
						"from", from.String(), "to", to.String(), "trigger", trigger.String())
				}
			}
		}
		refused.count(b.refusals(), "breaker", b.name)
	}
	return []Family{state, transitions, refused}
}

// boolValue returns 1 for true.
func boolValue(is bool) uint64 {
	if is {
		return 1
	}
	return 0
}

// budgetFamilies has the state of budgets.
func budgetFamilies(all []shownBudget) []Family {
	successes := Family{Name: "backoff_budget_successes", Type: "gauge", Labels: []string{"budget"}, Help: "Successes within the window of the budget."}
	retries := Family{Name: "backoff_budget_retries", Type: "gauge", Labels: []string{"budget"}, Help: "Retries granted within the window of the budget."}
	allowed := Family{Name: "backoff_budget_allowed", Type: "gauge", Labels: []string{"budget"}, Help: "Retries that these successes allow, and the spare ones that were granted."}
	for _, b := range all {
		successes.count(b.Successes, "budget", b.name)
		retries.count(b.Retries, "budget", b.name)
		allowed.count(b.Allowed, "budget", b.name)
	}
	return []Family{successes, retries, allowed}
}

// keyFamilies counts the evictions of keys.
func keyFamilies(all []shownKeys) []Family {
	evictions := Family{Name: "backoff_key_evictions_total", Type: "counter", Labels: []string{"keys"}, Help: "Keys that were forgotten for others."}
	for _, k := range all {
		evictions.count(k.evictions, "keys", k.name)
	}
	return []Family{evictions}
}

// overrideFamily counts the overrides in force. It shows in which processes one
// holds, and whether it was forgotten.
func (m *Metrics) overrideFamily() Family {
	f := Family{
		Name: "backoff_overrides", Type: "gauge", Labels: []string{"what", "name", "key"},
		Help: "Overrides in force.",
	}
	inForce := make(map[control.Target]uint64)
	for _, p := range m.watched.panels.sorted() {
		for _, o := range p.Overrides() {
			key := o.Key
			if key != "" {
				key = labelOf(key)
			}
			inForce[control.Target{What: o.What, Name: labelOf(o.Name), Key: key}]++
		}
	}
	for _, t := range slices.SortedFunc(maps.Keys(inForce), compareTargets) {
		labels := []string{"what", t.What, "name", t.Name}
		if t.Key != "" {
			labels = append(labels, "key", t.Key)
		}
		f.count(inForce[t], labels...)
	}
	return f
}

// compareTargets is the order in which overrides are listed.
func compareTargets(a, b control.Target) int {
	return cmp.Or(cmp.Compare(a.What, b.What), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key))
}
