package page

import (
	"math"
	"net/url"
	"time"

	"github.com/gobackoff/backoff/guard/endpoint"
	"github.com/gobackoff/backoff/internal/snapshot"
)

// card is what the page shows of an operation. Its numbers are those of the
// page's window.
type card struct {
	ID       string      `json:"id"` // of the element, for links
	Name     string      `json:"name"`
	Endpoint string      `json:"endpoint,omitempty"`
	Level    level       `json:"level"`
	Text     string      `json:"text"`
	Circuit  *breakerRow `json:"circuit,omitempty"`

	numbers                // members of the card, too
	Errors     []errorRow  `json:"errors"` // of all attempts that failed
	Attempting *attempting `json:"attempting,omitempty"`
	Chart      *chart      `json:"chart"`

	finding finding
	since   string

	retriesOff bool // by hand
}

// numbers are what an operation counted in the page's window.
type numbers struct {
	Calls           uint64    `json:"calls"`
	Attempts        uint64    `json:"attempts"`
	BudgetRefused   uint64    `json:"budget_refused"`
	AttemptsPerCall float64   `json:"attempts_per_call"` // 0 without calls
	CallsPerSecond  float64   `json:"calls_per_second"`
	FailedShare     string    `json:"failed_share"`
	Outcomes        []outcome `json:"outcomes"` // of all calls

	failures uint64
}

// outcome is how many calls ended in a way.
type outcome struct {
	Name  string `json:"name"`
	Label string `json:"label"`
	Count uint64 `json:"count"`
	Share string `json:"share"` // of all calls
}

// attempting describes the attempts at an endpoint, of all operations: how many
// are in flight, and estimates of how many seconds they take, or -1.
type attempting struct {
	InFlight int     `json:"in_flight"`
	Count    uint64  `json:"count"`
	P50      float64 `json:"p50"`
	P95      float64 `json:"p95"`
	P99      float64 `json:"p99"`
}

// chart has rates per second, in columns of Step seconds. -1 means that nothing
// is known.
type chart struct {
	Step      float64   `json:"step"`
	Succeeded []float64 `json:"succeeded"` // calls
	Failed    []float64 `json:"failed"`    // calls
	Extra     []float64 `json:"extra"`     // retries and hedges
}

// cardOf returns the card of an operation.
func (h *history) cardOf(t timeline, o *snapshot.Operation) card {
	w := t.now().totals[o.Labels].minus(t.lately().totals[o.Labels])
	d := t.diagnose(o.Labels)
	if o.Labels == (snapshot.Labels{Name: snapshot.Other}) {
		d.text += " These are all operations beyond MaxNames, counted together."
	}
	return card{
		ID: idOf(o.Labels), Name: o.Name, Endpoint: o.Endpoint,
		Level: d.finding.level(), Text: d.text, finding: d.finding, since: d.since,
		numbers: numbersOf(w, t.length()), Errors: h.errorRows(o.Labels, w.errors), Chart: t.chart(o.Labels),
	}
}

// numbersOf returns what was counted in a window of that length.
func numbersOf(w totals, length time.Duration) numbers {
	n := numbers{
		Calls: w.calls(), Attempts: w.attempts, BudgetRefused: w.refused, failures: w.failed,
		CallsPerSecond: round(float64(w.calls())/length.Seconds(), 100),
		FailedShare:    failedShare(w), Outcomes: outcomesOf(w),
	}
	if n.Calls > 0 {
		n.AttemptsPerCall = round(float64(w.attempts)/float64(n.Calls), 100)
	}
	return n
}

// idOf returns the id of an operation's card, which can be a link as it is. No
// other element has an id that begins like that.
func idOf(l snapshot.Labels) string {
	return "op-" + url.QueryEscape(l.Name) + "/" + url.QueryEscape(l.Endpoint)
}

// outcomesOf returns how the calls ended.
func outcomesOf(t totals) []outcome {
	list := []outcome{
		{Name: "first", Label: "at once", Count: t.first},
		{Name: "retried", Label: "after retries", Count: t.retried},
		{Name: "refused", Label: "refused by the breaker", Count: t.open},
		{Name: "failed", Label: "failed", Count: t.failed - t.open},
	}
	if t.open > 0 {
		list[3].Label = "failed otherwise"
	}
	for i := range list {
		list[i].Share = share(list[i].Count, t.calls())
	}
	return list
}

// attemptingOf describes the attempts at an endpoint.
func attemptingOf(t timeline, name string, inFlight int) *attempting {
	now, start := t.now().endpoints[name], t.lately().endpoints[name]
	d := endpoint.Durations{Counts: make([]uint64, len(now))}
	for i := range now {
		d.Counts[i] = now[i] - min(now[i], start[i]) // the first point of the history may be newer
	}
	return &attempting{
		InFlight: inFlight, Count: d.Count(),
		P50: round(d.Quantile(0.5), 1e4), P95: round(d.Quantile(0.95), 1e4), P99: round(d.Quantile(0.99), 1e4),
	}
}

// chart returns the rates of an operation.
func (t timeline) chart(operation snapshot.Labels) *chart {
	return &chart{
		Step:      step.Seconds(),
		Succeeded: jsonRates(t.rates(operation, func(t totals) uint64 { return t.first + t.retried })),
		Failed:    jsonRates(t.rates(operation, func(t totals) uint64 { return t.failed })),
		Extra:     jsonRates(t.rates(operation, func(t totals) uint64 { return t.retries + t.hedges })),
	}
}

// jsonRates rounds the rates.
func jsonRates(rates []float64) []float64 {
	for i, r := range rates {
		rates[i] = round(r, 100)
	}
	return rates
}

// round rounds to a part of 1, such as a hundredth. It returns -1 for NaN, which JSON
// has not.
func round(f, parts float64) float64 {
	if math.IsNaN(f) {
		return -1
	}
	return math.Round(f*parts) / parts
}
