package backoffmetrics

import (
	"math"
	"strconv"
	"strings"

	"github.com/gobackoff/backoff"
)

// The exposition formats of Prometheus: text 0.0.4, and OpenMetrics 1.0.0. In
// OpenMetrics the family of a counter is named without "_total", bounds are
// always floats, and the end is marked.
const (
	textType = "text/plain; version=0.0.4; charset=utf-8"
	openType = "application/openmetrics-text; version=1.0.0; charset=utf-8"
)

// exposition is a text that is being written.
type exposition struct {
	text []byte
	open bool   // OpenMetrics
	name string // of the family
}

// expose returns all series as text.
func (m *Metrics) expose(open bool) []byte {
	x := &exposition{open: open}
	x.operations(m.snapshots())
	x.breakers(m.breakers.sorted())
	x.budgets(&m.budgets)
	x.keys(&m.keys)
	if open {
		x.text = append(x.text, "# EOF\n"...)
	}
	return x.text
}

// operations writes the families of operations.
func (x *exposition) operations(all []counts) {
	x.calls(all)
	x.byClass("backoff_retries_total", "Retries announced, by the class of the failure before.", all,
		func(c *counts) []uint64 { return c.retriesBy[:] })
	x.byClass("backoff_failed_attempts_total", "Attempts that failed, by the class of the failure.", all,
		func(c *counts) []uint64 { return c.failedBy[:] })
	x.failures(all)
	x.histogram("backoff_attempts_per_call", "Attempts that a call took.", all, func(c *counts) distribution { return c.perCall })
	x.histogram("backoff_delay_seconds", "Delays before a retry as the schedule says, before jitter.", all, func(c *counts) distribution { return c.delay })
	x.histogram("backoff_wait_seconds", "Waits before a retry, after jitter and Retry-After.", all, func(c *counts) distribution { return c.wait })
	x.histogram("backoff_slept_seconds", "What was really slept before a retry.", all, func(c *counts) distribution { return c.slept })
}

// calls writes the families that count calls, attempts, runs and hedges.
func (x *exposition) calls(all []counts) {
	x.family("backoff_calls_total", "counter", "Calls that ended: at the first attempt, after retries, or failed.")
	for _, c := range all {
		x.count(c.first, "operation", c.name, "outcome", "first")
		x.count(c.retried, "operation", c.name, "outcome", "retried")
		x.count(c.failed, "operation", c.name, "outcome", "failed")
	}
	x.family("backoff_attempts_total", "counter", "Attempts that ended.")
	for _, c := range all {
		x.count(c.attempts, "operation", c.name)
	}
	x.family("backoff_reconnects_total", "counter", "Runs of a loop that ended and were followed by another.")
	for _, c := range all {
		x.count(c.reconnects, "operation", c.name)
	}
	x.family("backoff_hedges_total", "counter", "Hedges that were sent, by whether their result was the call's.")
	for _, c := range all {
		x.countIfAny(c.won, "operation", c.name, "result", "won")
		x.countIfAny(c.lost, "operation", c.name, "result", "lost")
	}
}

// byClass writes a family with a sample for each class.
func (x *exposition) byClass(name, help string, all []counts, of func(*counts) []uint64) {
	x.family(name, "counter", help)
	for i := range all {
		for class, n := range of(&all[i]) {
			x.countIfAny(n, "operation", all[i].name, "class", backoff.Class(class).String())
		}
	}
}

// failures writes the families that count failures and refusals.
func (x *exposition) failures(all []counts) {
	x.family("backoff_failures_total", "counter", "Calls that failed in the end, by the reason to give up.")
	for _, c := range all {
		for reason, n := range c.failuresFor {
			x.countIfAny(n, "operation", c.name, "reason", backoff.Reason(reason).String())
		}
	}
	x.family("backoff_refusals_total", "counter", "What the budget refused.")
	for _, c := range all {
		for of, n := range c.refusedOf {
			x.count(n, "operation", c.name, "of", refusal(of).String())
		}
	}
}

// breakers writes the families of breakers.
func (x *exposition) breakers(all []*named[breaker]) {
	x.family("backoff_breaker_state", "gauge", "1 for the state that the breaker is in.")
	for _, b := range all {
		is := b.value.state()
		for s := range backoff.State(states) {
			x.count(boolValue(s == is), "breaker", b.label, "state", s.String())
		}
	}
	x.family("backoff_breaker_transitions_total", "counter", "Changes of the breaker's state.")
	for _, b := range all {
		x.transitions(b)
	}
	x.family("backoff_breaker_refusals_total", "counter", "Calls that the breaker refused.")
	for _, b := range all {
		x.count(b.value.refused.Load(), "breaker", b.label)
	}
}

// transitions writes the samples of a breaker's transitions.
func (x *exposition) transitions(b *named[breaker]) {
	for from := range b.value.transitions {
		for to := range b.value.transitions[from] {
			for trigger := range b.value.transitions[from][to] {
				x.countIfAny(b.value.transitions[from][to][trigger].Load(), "breaker", b.label,
					"from", backoff.State(from).String(), "to", backoff.State(to).String(), "trigger", backoff.Trigger(trigger).String())
			}
		}
	}
}

// boolValue returns 1 for true.
func boolValue(is bool) uint64 {
	if is {
		return 1
	}
	return 0
}

// budgets writes the families of budgets.
func (x *exposition) budgets(all *watched[*backoff.RetryBudget]) {
	for _, g := range []struct {
		name, help string
		of         func(backoff.RetryBudgetStats) uint64
	}{
		{"backoff_budget_successes", "Successes within the window of the budget.", func(s backoff.RetryBudgetStats) uint64 { return s.Successes }},
		{"backoff_budget_retries", "Retries granted within the window of the budget.", func(s backoff.RetryBudgetStats) uint64 { return s.Retries }},
		{"backoff_budget_allowed", "Retries that these successes allow.", func(s backoff.RetryBudgetStats) uint64 { return s.Allowed }},
	} {
		x.family(g.name, "gauge", g.help)
		for name, b := range all.sorted() {
			x.count(g.of(b.Stats()), "budget", name)
		}
	}
}

// keys writes the family of keyed breakers and budgets.
func (x *exposition) keys(all *watched[keyed]) {
	x.family("backoff_key_evictions_total", "counter", "Keys that were forgotten for others.")
	for name, k := range all.sorted() {
		x.count(k.Evictions(), "keys", name)
	}
}

// family begins the samples of a metric.
func (x *exposition) family(name, kind, help string) {
	x.name = name
	if x.open {
		name = strings.TrimSuffix(name, "_total")
	}
	x.text = append(x.text, "# HELP "+name+" "+help+"\n# TYPE "+name+" "+kind+"\n"...)
}

// histogram writes the family of a histogram.
func (x *exposition) histogram(name, help string, all []counts, of func(*counts) distribution) {
	x.family(name, "histogram", help)
	for i := range all {
		x.buckets(of(&all[i]), all[i].name)
	}
}

// buckets writes the samples of a histogram.
func (x *exposition) buckets(t distribution, operation string) {
	var total uint64
	for i, n := range t.buckets {
		total += n
		bound := math.Inf(1)
		if i < len(t.bounds) {
			bound = t.bounds[i]
		}
		x.sample("_bucket", "operation", operation, "le", x.float(bound))
		x.text = append(strconv.AppendUint(x.text, total, 10), '\n')
	}
	x.sample("_sum", "operation", operation)
	x.text = append(x.text, x.float(t.sum)+"\n"...)
	x.sample("_count", "operation", operation)
	x.text = append(strconv.AppendUint(x.text, total, 10), '\n')
}

// float returns f in the exposition format.
func (x *exposition) float(f float64) string {
	if math.IsInf(f, 1) {
		return "+Inf"
	}
	text := strconv.FormatFloat(f, 'g', -1, 64)
	if x.open && !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return text
}

// countIfAny is count for a series that begins when there is something to
// count.
func (x *exposition) countIfAny(n uint64, labels ...string) {
	if n > 0 {
		x.count(n, labels...)
	}
}

// count writes a sample.
func (x *exposition) count(n uint64, labels ...string) {
	x.sample("", labels...)
	x.text = append(strconv.AppendUint(x.text, n, 10), '\n')
}

// sample writes a line up to its value. Labels are pairs of a name and a value.
func (x *exposition) sample(suffix string, labels ...string) {
	x.text = append(append(x.text, x.name...), suffix...)
	for i := 0; i < len(labels); i += 2 {
		x.text = append(x.text, "{,"[min(i, 1)])
		x.text = append(append(x.text, labels[i]...), `="`...)
		x.text = append(append(x.text, escape.Replace(labels[i+1])...), '"')
	}
	x.text = append(x.text, "} "...)
}

// escape replaces what must not stand in the value of a label.
var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
