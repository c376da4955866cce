package backoffmetrics

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// contentType is that of the exposition format of Prometheus.
const contentType = "text/plain; version=0.0.4; charset=utf-8"

// exposition is a text that is being written.
type exposition struct{ text []byte }

// expose returns all series as text.
func (m *Metrics) expose() []byte {
	var x exposition
	for _, f := range m.Families() {
		x.family(&f)
	}
	return x.text
}

// family writes a family.
func (x *exposition) family(f *Family) {
	x.text = append(x.text, "# HELP "+f.Name+" "+f.Help+"\n# TYPE "+f.Name+" "+f.Type+"\n"...)
	for _, s := range f.Samples {
		if f.Type == "histogram" {
			x.histogram(f.Name, &s)
			continue
		}
		x.series(f.Name, s.Labels...)
		x.text = append(strconv.AppendFloat(x.text, s.Value, 'f', -1, 64), '\n')
	}
}

// histogram writes the lines of a histogram.
func (x *exposition) histogram(name string, s *Sample) {
	var total uint64
	for i, n := range s.Counts {
		total += n
		bound := math.Inf(1)
		if i < len(s.Bounds) {
			bound = s.Bounds[i]
		}
		x.series(name+"_bucket", append(slices.Clip(s.Labels), "le", float(bound))...)
		x.text = append(strconv.AppendUint(x.text, total, 10), '\n')
	}
	x.series(name+"_sum", s.Labels...)
	x.text = append(x.text, float(s.Sum)+"\n"...)
	x.series(name+"_count", s.Labels...)
	x.text = append(strconv.AppendUint(x.text, total, 10), '\n')
}

// float returns f in the exposition format.
func float(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// series writes a line up to its value.
func (x *exposition) series(name string, labels ...string) {
	x.text = append(append(x.text, seriesName(name, labels)...), ' ')
}

// seriesName returns a name with its labels, which are pairs of a name and a
// value.
func seriesName(name string, labels []string) string {
	text := []byte(name)
	for i := 0; i < len(labels); i += 2 {
		text = append(text, "{,"[min(i, 1)])
		text = append(append(text, labels[i]...), `="`...)
		text = append(append(text, escape.Replace(labels[i+1])...), '"')
	}
	return string(append(text, '}'))
}

// escape replaces what must not stand in the value of a label.
var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// Handler serves the text for Prometheus at the path that it is mounted at, in
// the format 0.0.4. Package page serves it beside its page.
//
//	http.Handle("/debug/backoff/metrics", metrics.Handler())
//
// The handler does not authenticate: everyone who may reach it sees the names of
// operations.
//
// # Series
//
// These are the series for Prometheus. An operation is the Name of a policy or
// a hedge. All series of an operation also have the label endpoint, if it is
// known what the calls are sent to: see package endpoint.
//
//	backoff_calls_total{operation,outcome}
//		calls that ended: first (success at the first attempt), retried
//		(success at a later one), failed (also if the breaker of the
//		operation's name refused them)
//	backoff_attempts_total{operation}
//		attempts that ended; divided by calls, this is the amplification
//	backoff_retries_total{operation,class}
//		retries announced, by the class of the failure before
//	backoff_failed_attempts_total{operation,class}
//		attempts that failed
//	backoff_failures_total{operation,reason}
//		calls that failed in the end
//	backoff_attempts_per_call{operation}
//		histogram; 0 for a call that made no attempt
//	backoff_refusals_total{operation,of}
//		what the budget refused: call, retry, hedge, run
//	backoff_delay_seconds{operation}
//		histogram of delays before a retry, as the schedule says
//	backoff_wait_seconds{operation}
//		histogram of waits before a retry, after jitter and Retry-After
//	backoff_slept_seconds{operation}
//		histogram of the time slept before an attempt: a retry, or a first
//		one that waited for its turn
//	backoff_hedges_total{operation,result}
//		hedges sent: won, lost; divided by calls, this is the extra load
//	backoff_reconnects_total{operation}
//		runs under a Supervisor that ended and were followed by another
//	backoff_attempts_in_flight{endpoint}
//		attempts that are under way
//	backoff_attempt_duration_seconds{endpoint,outcome}
//		histogram of the time that attempts took: success, failure
//	backoff_breaker_state{breaker,state}
//		1 for the state that the breaker is in: closed, open, half-open
//	backoff_breaker_transitions_total{breaker,from,to,trigger}
//		changes of the breaker's state
//	backoff_breaker_refusals_total{breaker}
//		calls that the breaker refused; if an operation has its name, they
//		are among backoff_calls_total, too
//	backoff_budget_successes{budget}
//		successes within the window of the budget
//	backoff_budget_retries{budget}
//		retries granted within the window of the budget
//	backoff_budget_allowed{budget}
//		retries that these successes allow, and the spare ones granted
//	backoff_key_evictions_total{keys}
//		keys of services that were forgotten for others
//
// Package page adds backoff_overrides{what,name} for the overrides in force of
// its panels; those of a key also have the label key.
//
// Series by class, reason, trigger and result begin when they are first
// counted. The others begin with the operation. A breaker appears when it is
// watched, with the first call to an endpoint behind it, or else with its first
// change of state or its first refusal.
//
// A run under a Supervisor counts as a reconnect, not as an attempt,
// except for the last one: a loop that runs for days would otherwise hide the
// calls.
func (m *Metrics) Handler() http.Handler { return http.HandlerFunc(m.serve) }

// serve is the handler.
func (m *Metrics) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	body := m.expose()
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(body)
}
