package backoffmetrics

import (
	_ "embed" // the table of families
	"encoding/json"
	"slices"
	"sync"

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

//go:embed families.json
var table []byte

// described are all families without their samples, in the order of Families.
var described = sync.OnceValue(func() (all []Family) {
	if err := json.Unmarshal(table, &all); err != nil {
		panic(err) // the table is part of the program
	}
	return all
})

// Families returns all series. It is safe for concurrent use, and takes a few
// milliseconds for 100 operations, endpoints and breakers.
func (m *Metrics) Families() []Family {
	read, s := m.read(true), newSheet()
	for i := range read.Operations {
		s.operation(&read.Operations[i])
	}
	for _, e := range read.Endpoints {
		s.count("backoff_attempts_in_flight", uint64(e.InFlight), "endpoint", e.Name)
		s.histogram("backoff_attempt_duration_seconds", e.Succeeded, "endpoint", e.Name, "outcome", "success")
		s.histogram("backoff_attempt_duration_seconds", e.Failed, "endpoint", e.Name, "outcome", "failure")
	}
	for _, b := range read.Breakers {
		s.breaker(b)
	}
	for _, b := range read.Budgets {
		s.count("backoff_budget_successes", b.Successes, "budget", b.Name)
		s.count("backoff_budget_retries", b.Retries, "budget", b.Name)
		s.count("backoff_budget_allowed", b.Allowed, "budget", b.Name)
	}
	for _, k := range read.Keys {
		s.count("backoff_key_evictions_total", k.Evictions, "keys", k.Name)
	}
	for _, read := range m.watched.families.sorted() {
		s.all = append(s.all, (*read)())
	}
	return s.all
}

// A sheet is all families of one moment.
type sheet struct {
	all    []Family
	byName map[string]*Family
}

func newSheet() *sheet {
	s := &sheet{slices.Clone(described()), make(map[string]*Family)}
	for i := range s.all {
		s.byName[s.all[i].Name] = &s.all[i]
	}
	return s
}

// add adds a series to the family of a name.
func (s *sheet) add(family string, one Sample) {
	f := s.byName[family]
	f.Samples = append(f.Samples, one)
}

// count adds a series with a number.
func (s *sheet) count(family string, n uint64, labels ...string) {
	s.add(family, Sample{Labels: labels, Value: float64(n)})
}

// countIfAny is count for a series that begins when there is something to
// count.
func (s *sheet) countIfAny(family string, n uint64, labels ...string) {
	if n > 0 {
		s.count(family, n, labels...)
	}
}

// histogram adds a series with a histogram.
func (s *sheet) histogram(family string, h snapshot.Histogram, labels ...string) {
	s.add(family, Sample{Labels: labels, Bounds: h.Bounds, Counts: h.Counts, Sum: h.Sum})
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

// operation adds the series of an operation.
func (s *sheet) operation(o *snapshot.Operation) {
	s.count("backoff_calls_total", o.First, with(o.Labels, "outcome", "first")...)
	s.count("backoff_calls_total", o.Retried, with(o.Labels, "outcome", "retried")...)
	s.count("backoff_calls_total", o.Failed, with(o.Labels, "outcome", "failed")...)
	s.count("backoff_attempts_total", o.Attempts, with(o.Labels)...)
	s.count("backoff_reconnects_total", o.Reconnects, with(o.Labels)...)
	s.countIfAny("backoff_hedges_total", o.Won, with(o.Labels, "result", "won")...)
	s.countIfAny("backoff_hedges_total", o.Lost, with(o.Labels, "result", "lost")...)
	for class := range backoff.Class(snapshot.Classes) {
		s.countIfAny("backoff_retries_total", o.Retries[class], with(o.Labels, "class", class.String())...)
		s.countIfAny("backoff_failed_attempts_total", o.FailedAttempts[class], with(o.Labels, "class", class.String())...)
	}
	for reason := range backoff.Reason(snapshot.Reasons) {
		s.countIfAny("backoff_failures_total", o.Failures[reason], with(o.Labels, "reason", reason.String())...)
	}
	for of := range snapshot.Refusal(snapshot.RefusalKinds) {
		s.count("backoff_refusals_total", o.Refused[of], with(o.Labels, "of", of.String())...)
	}
	s.histogram("backoff_attempts_per_call", o.PerCall, with(o.Labels)...)
	s.histogram("backoff_delay_seconds", o.Delay, with(o.Labels)...)
	s.histogram("backoff_wait_seconds", o.Wait, with(o.Labels)...)
	s.histogram("backoff_slept_seconds", o.Slept, with(o.Labels)...)
}

// breaker adds the series of a breaker.
func (s *sheet) breaker(b *snapshot.Breaker) {
	for state := range backoff.BreakerState(snapshot.States) {
		var is uint64
		if state == b.State {
			is = 1
		}
		s.count("backoff_breaker_state", is, "breaker", b.Name, "state", state.String())
		for to := range backoff.BreakerState(snapshot.States) {
			for i, trigger := range snapshot.Triggers {
				s.countIfAny("backoff_breaker_transitions_total", b.Transitions[state][to][i], "breaker", b.Name,
					"from", state.String(), "to", to.String(), "trigger", trigger)
			}
		}
	}
	s.count("backoff_breaker_refusals_total", b.Refused, "breaker", b.Name)
}
