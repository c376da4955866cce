package backoffmetrics

import (
	"slices"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/snapshot"
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
	s := m.read(true)
	all := slices.Concat(
		callFamilies(s.Operations),
		failureFamilies(s.Operations),
		timeFamilies(s.Operations),
		endpointFamilies(s.Endpoints),
		breakerFamilies(s.Breakers),
		budgetFamilies(s.Budgets),
		keyFamilies(s.Keys),
	)
	for _, read := range m.watched.families.sorted() {
		all = append(all, (*read)())
	}
	return all
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
func (f *Family) histogram(h snapshot.Histogram, labels ...string) {
	f.Samples = append(f.Samples, Sample{Labels: labels, Bounds: h.Bounds, Counts: h.Counts, Sum: h.Sum})
}

// with returns the labels of a series: the operation, the endpoint if it is
// known, and more.
func with(l snapshot.Labels, more ...string) []string {
	all := []string{"operation", l.Name}
	if l.Endpoint != "" {
		all = append(all, "endpoint", l.Endpoint)
	}
	return append(all, more...)
}

// callFamilies counts calls, attempts, runs and hedges.
func callFamilies(all []snapshot.Operation) []Family {
	calls := Family{Name: "backoff_calls_total", Type: "counter", Labels: append(operationLabels, "outcome"), Help: "Calls that ended: at the first attempt, after retries, or failed."}
	attempts := Family{Name: "backoff_attempts_total", Type: "counter", Labels: operationLabels, Help: "Attempts that ended."}
	reconnects := Family{Name: "backoff_reconnects_total", Type: "counter", Labels: operationLabels, Help: "Runs of a loop that ended and were followed by another."}
	hedges := Family{Name: "backoff_hedges_total", Type: "counter", Labels: append(operationLabels, "result"), Help: "Hedges that were sent, by whether their result was the call's."}
	for _, c := range all {
		calls.count(c.First, with(c.Labels, "outcome", "first")...)
		calls.count(c.Retried, with(c.Labels, "outcome", "retried")...)
		calls.count(c.Failed, with(c.Labels, "outcome", "failed")...)
		attempts.count(c.Attempts, with(c.Labels)...)
		reconnects.count(c.Reconnects, with(c.Labels)...)
		hedges.countIfAny(c.Won, with(c.Labels, "result", "won")...)
		hedges.countIfAny(c.Lost, with(c.Labels, "result", "lost")...)
	}
	return []Family{calls, attempts, reconnects, hedges}
}

// failureFamilies counts retries, failures and refusals.
func failureFamilies(all []snapshot.Operation) []Family {
	retries := Family{Name: "backoff_retries_total", Type: "counter", Labels: append(operationLabels, "class"), Help: "Retries announced, by the class of the failure before."}
	failed := Family{Name: "backoff_failed_attempts_total", Type: "counter", Labels: append(operationLabels, "class"), Help: "Attempts that failed, by the class of the failure."}
	failures := Family{Name: "backoff_failures_total", Type: "counter", Labels: append(operationLabels, "reason"), Help: "Calls that failed in the end, by the reason to give up."}
	refusals := Family{Name: "backoff_refusals_total", Type: "counter", Labels: append(operationLabels, "of"), Help: "What the budget refused."}
	for _, c := range all {
		for class := range backoff.Class(snapshot.Classes) {
			retries.countIfAny(c.Retries[class], with(c.Labels, "class", class.String())...)
			failed.countIfAny(c.FailedAttempts[class], with(c.Labels, "class", class.String())...)
		}
		for reason := range backoff.Reason(snapshot.Reasons) {
			failures.countIfAny(c.Failures[reason], with(c.Labels, "reason", reason.String())...)
		}
		for of := range snapshot.Refusal(snapshot.RefusalKinds) {
			refusals.count(c.Refused[of], with(c.Labels, "of", of.String())...)
		}
	}
	return []Family{retries, failed, failures, refusals}
}

// timeFamilies has the histograms of operations.
func timeFamilies(all []snapshot.Operation) []Family {
	perCall := Family{Name: "backoff_attempts_per_call", Type: "histogram", Labels: operationLabels, Help: "Attempts that a call took."}
	delay := Family{Name: "backoff_delay_seconds", Type: "histogram", Labels: operationLabels, Help: "Delays before a retry as the schedule says, before jitter."}
	wait := Family{Name: "backoff_wait_seconds", Type: "histogram", Labels: operationLabels, Help: "Waits before a retry, after jitter and Retry-After."}
	slept := Family{Name: "backoff_slept_seconds", Type: "histogram", Labels: operationLabels, Help: "What was really slept before an attempt."}
	for _, c := range all {
		perCall.histogram(c.PerCall, with(c.Labels)...)
		delay.histogram(c.Delay, with(c.Labels)...)
		wait.histogram(c.Wait, with(c.Labels)...)
		slept.histogram(c.Slept, with(c.Labels)...)
	}
	return []Family{perCall, delay, wait, slept}
}

// endpointFamilies has the attempts at endpoints: those in flight, and how long
// they took.
func endpointFamilies(all []snapshot.Endpoint) []Family {
	inFlight := Family{Name: "backoff_attempts_in_flight", Type: "gauge", Labels: []string{"endpoint"}, Help: "Attempts that are under way."}
	took := Family{Name: "backoff_attempt_duration_seconds", Type: "histogram", Labels: []string{"endpoint", "outcome"}, Help: "How long attempts took, by whether they succeeded."}
	for _, e := range all {
		inFlight.count(uint64(e.InFlight), "endpoint", e.Name)
		took.histogram(e.Succeeded, "endpoint", e.Name, "outcome", "success")
		took.histogram(e.Failed, "endpoint", e.Name, "outcome", "failure")
	}
	return []Family{inFlight, took}
}

// breakerFamilies has the states, transitions and refusals of breakers.
func breakerFamilies(all []*snapshot.Breaker) []Family {
	state := Family{Name: "backoff_breaker_state", Type: "gauge", Labels: []string{"breaker", "state"}, Help: "1 for the state that the breaker is in."}
	transitions := Family{Name: "backoff_breaker_transitions_total", Type: "counter", Labels: []string{"breaker", "from", "to", "trigger"}, Help: "Changes of the breaker's state."}
	refused := Family{Name: "backoff_breaker_refusals_total", Type: "counter", Labels: []string{"breaker"}, Help: "Calls that the breaker refused."}
	for _, b := range all {
		for s := range backoff.BreakerState(snapshot.States) {
			var is uint64
			if s == b.State {
				is = 1
			}
			state.count(is, "breaker", b.Name, "state", s.String())
		}
		for from := range backoff.BreakerState(snapshot.States) {
			for to := range backoff.BreakerState(snapshot.States) {
				for i, trigger := range snapshot.Triggers {
					transitions.countIfAny(b.Transitions[from][to][i], "breaker", b.Name,
						"from", from.String(), "to", to.String(), "trigger", trigger)
				}
			}
		}
		refused.count(b.Refused, "breaker", b.Name)
	}
	return []Family{state, transitions, refused}
}

// budgetFamilies has the state of budgets.
func budgetFamilies(all []snapshot.Budget) []Family {
	successes := Family{Name: "backoff_budget_successes", Type: "gauge", Labels: []string{"budget"}, Help: "Successes within the window of the budget."}
	retries := Family{Name: "backoff_budget_retries", Type: "gauge", Labels: []string{"budget"}, Help: "Retries granted within the window of the budget."}
	allowed := Family{Name: "backoff_budget_allowed", Type: "gauge", Labels: []string{"budget"}, Help: "Retries that these successes allow, and the spare ones that were granted."}
	for _, b := range all {
		successes.count(b.Successes, "budget", b.Name)
		retries.count(b.Retries, "budget", b.Name)
		allowed.count(b.Allowed, "budget", b.Name)
	}
	return []Family{successes, retries, allowed}
}

// keyFamilies counts the evictions of keys.
func keyFamilies(all []snapshot.Keys) []Family {
	evictions := Family{Name: "backoff_key_evictions_total", Type: "counter", Labels: []string{"keys"}, Help: "Keys that were forgotten for others."}
	for _, k := range all {
		evictions.count(k.Evictions, "keys", k.Name)
	}
	return []Family{evictions}
}
