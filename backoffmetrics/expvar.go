package backoffmetrics

import (
	"encoding/json"
	"math"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffmetrics/internal/snapshot"
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
	Name            string            `json:"name"`
	Endpoint        string            `json:"endpoint,omitempty"`
	Calls           uint64            `json:"calls"`
	First           uint64            `json:"first"`
	Retried         uint64            `json:"retried"`
	Failed          uint64            `json:"failed"`
	Attempts        uint64            `json:"attempts"`
	Retries         uint64            `json:"retries"`
	Refused         uint64            `json:"refused"`
	Hedges          uint64            `json:"hedges"`
	Reconnects      uint64            `json:"reconnects"`
	Amplification   float64           `json:"amplification"` // 0 without calls
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
	text, _ := json.Marshal(m.report()) // none of its types can fail
	return string(text)
}

// report returns the report.
func (m *Metrics) report() *report {
	r := &report{Bounds: delayBounds, Operations: []operationReport{}, Breakers: []breakerReport{}, Budgets: []budgetReport{}, Keys: []keysReport{}}
	all := m.read()
	for i := range all.Operations {
		r.Operations = append(r.Operations, operationReportOf(&all.Operations[i]))
	}
	for i := range all.Breakers {
		r.Breakers = append(r.Breakers, breakerReportOf(&all.Breakers[i]))
	}
	for _, b := range all.Budgets {
		r.Budgets = append(r.Budgets, budgetReport{b.Name, b.Successes, b.Retries, b.Allowed})
	}
	for _, k := range all.Keys {
		r.Keys = append(r.Keys, keysReport{k.Name, k.Evictions})
	}
	return r
}

// operationReportOf returns the report of an operation.
func operationReportOf(o *snapshot.Operation) operationReport {
	r := operationReport{
		Name: o.Name, Endpoint: o.Endpoint, Calls: o.Calls(), First: o.First, Retried: o.Retried, Failed: o.Failed, Attempts: o.Attempts,
		Retries: sum(o.Retries[:]), Refused: sum(o.Refused[:]), Hedges: o.Won + o.Lost, Reconnects: o.Reconnects, Won: o.Won, Lost: o.Lost,
		Failures:       byName[backoff.Reason](o.Failures[:]),
		RetriesByClass: byName[backoff.Class](o.Retries[:]),
		FailedByClass:  byName[backoff.Class](o.FailedAttempts[:]),
		Refusals:       byName[snapshot.Refusal](o.Refused[:]),

		AttemptsPerCall: o.PerCall.Counts, Delay: o.Delay.Counts, Wait: o.Wait.Counts, Slept: o.Slept.Counts,
	}
	if r.Calls > 0 {
		r.Amplification = round(float64(r.Attempts) / float64(r.Calls))
	}
	return r
}

// sum returns the sum of numbers.
func sum(numbers []uint64) (total uint64) {
	for _, n := range numbers {
		total += n
	}
	return total
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

// breakerReportOf returns the report of a breaker.
func breakerReportOf(b *snapshot.Breaker) breakerReport {
	r := breakerReport{Name: b.Name, State: b.State.String(), Refused: b.Refused}
	for from := range b.Transitions {
		for to := range b.Transitions[from] {
			r.Changes += sum(b.Transitions[from][to][:])
		}
	}
	if b.Last != nil {
		r.Trigger, r.Since = b.Last.Trigger.String(), round(clock.Since(b.Last.At).Seconds())
	}
	return r
}

// round rounds to two decimals.
func round(f float64) float64 { return math.Round(f*100) / 100 }
