package backoffmetrics

import (
	"encoding/json"
	"math"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/clock"
)

// report is everything since the start, as JSON.
type report struct {
	Bounds     []float64         `json:"delay_bounds_seconds"`
	Operations []operationReport `json:"operations"`
	Breakers   []breakerReport   `json:"breakers"`
	Budgets    []budgetReport    `json:"budgets"`
	Keys       []keysReport      `json:"keys"`
}

// operationReport is what is reported of an operation.
type operationReport struct {
	Name     string `json:"name"`
	Endpoint string `json:"endpoint,omitempty"`
	figures
	Won             uint64            `json:"hedges_won"`
	Lost            uint64            `json:"hedges_lost"`
	Failures        map[string]uint64 `json:"failures"`
	RetriesByClass  map[string]uint64 `json:"retries_by_class"`
	FailedByClass   map[string]uint64 `json:"failed_attempts_by_class"`
	Refusals        map[string]uint64 `json:"refusals"`
	AttemptsPerCall []uint64          `json:"attempts_per_call"`
	Delay           []uint64          `json:"delay"`
	Wait            []uint64          `json:"wait"`
	Slept           []uint64          `json:"slept"`
}

// figures are what was counted.
type figures struct {
	Calls         uint64  `json:"calls"`
	First         uint64  `json:"first"`
	Retried       uint64  `json:"retried"`
	Failed        uint64  `json:"failed"`
	Attempts      uint64  `json:"attempts"`
	Retries       uint64  `json:"retries"`
	Refused       uint64  `json:"refused"`
	Hedges        uint64  `json:"hedges"`
	Reconnects    uint64  `json:"reconnects"`
	Amplification float64 `json:"amplification"` // 0 without calls
}

// figuresOf returns what was counted.
func figuresOf(t totals) figures {
	f := figures{Calls: t.calls(), First: t.first, Retried: t.retried, Failed: t.failed,
		Attempts: t.attempts, Retries: t.retries, Refused: t.refused, Hedges: t.hedges, Reconnects: t.reconnects}
	if f.Calls > 0 {
		f.Amplification = round(float64(f.Attempts) / float64(f.Calls))
	}
	return f
}

// breakerReport is what is reported of a breaker.
type breakerReport struct {
	Name    string  `json:"name"`
	State   string  `json:"state"`
	Trigger string  `json:"trigger,omitempty"` // of the last change
	Since   float64 `json:"since,omitempty"`   // in seconds before now
	Changes uint64  `json:"changes"`
	Refused uint64  `json:"refused"`
}

// budgetReport is what is reported of a budget.
type budgetReport struct {
	Name      string `json:"name"`
	Successes uint64 `json:"successes"`
	Retries   uint64 `json:"retries"`
	Allowed   uint64 `json:"allowed"`
}

// keysReport is what is reported of keyed breakers or budgets.
type keysReport struct {
	Name      string `json:"name"`
	Evictions uint64 `json:"evictions"`
}

// String returns all counters as JSON, so that a Metrics is an expvar.Var. A
// histogram is a list of counts. Those of delays belong to the bounds in the
// report; the last count is that of all values beyond the last bound.
func (m *Metrics) String() string {
	m.history.record(m)
	text, _ := json.Marshal(m.report()) // none of its types can fail
	return string(text)
}

// report returns the report.
func (m *Metrics) report() *report {
	r := &report{Bounds: delayBounds, Operations: []operationReport{}, Breakers: []breakerReport{}, Budgets: []budgetReport{}, Keys: []keysReport{}}
	for _, c := range m.snapshots() {
		r.Operations = append(r.Operations, operationReportOf(c))
	}
	for _, b := range m.shownBreakers() {
		r.Breakers = append(r.Breakers, b.report())
	}
	for _, b := range m.shownBudgets() {
		r.Budgets = append(r.Budgets, budgetReport{b.name, b.Successes, b.Retries, b.Allowed})
	}
	for _, k := range m.shownKeys() {
		r.Keys = append(r.Keys, keysReport{k.name, k.evictions})
	}
	return r
}

// operationReportOf returns the report of an operation.
func operationReportOf(c counts) operationReport {
	return operationReport{
		Name: c.name, Endpoint: c.endpoint, figures: figuresOf(c.totals), Won: c.won, Lost: c.lost,
		Failures:       byName[backoff.Reason](c.failuresFor[:]),
		RetriesByClass: byName[backoff.Class](c.retriesBy[:]),
		FailedByClass:  byName[backoff.Class](c.failedBy[:]),
		Refusals:       byName[refusal](c.refusedOf[:]),

		AttemptsPerCall: c.perCall.buckets, Delay: c.delay.buckets, Wait: c.wait.buckets, Slept: c.slept.buckets,
	}
}

// byName returns the numbers that are not 0 under their names.
func byName[K interface {
	~int | ~uint8
	String() string
}](counted []uint64) map[string]uint64 {
	named := make(map[string]uint64)
	for i, n := range counted {
		if n > 0 {
			named[K(i).String()] = n
		}
	}
	return named
}

// report returns the report of a breaker.
func (b shownBreaker) report() breakerReport {
	r := breakerReport{Name: b.name, State: b.state.String(), Refused: b.refusals()}
	for from := range b.transitions {
		for to := range b.transitions[from] {
			r.Changes += sum(b.transitions[from][to][:])
		}
	}
	if last := b.last.Load(); last != nil {
		r.Trigger, r.Since = last.Trigger.String(), round(clock.Since(last.At).Seconds())
	}
	return r
}

// round rounds to two decimals.
func round(f float64) float64 { return math.Round(f*100) / 100 }
