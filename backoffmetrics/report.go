package backoffmetrics

import (
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/clock"
)

// report is everything, as JSON: for expvar without what only the page shows.
type report struct {
	Conclusion *conclusion       `json:"conclusion,omitempty"` // for the page
	Bounds     []float64         `json:"delay_bounds_seconds"`
	Operations []operationReport `json:"operations"`
	Breakers   []breakerReport   `json:"breakers"`
	Budgets    []budgetReport    `json:"budgets"`
}

type operationReport struct {
	Name string `json:"name"`
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

	// For the page.
	Now       *figures   `json:"now,omitempty"`
	Lately    *figures   `json:"lately,omitempty"`
	History   *curves    `json:"history,omitempty"`
	Diagnosis *diagnosis `json:"diagnosis,omitempty"`
}

// figures are what was counted in some time.
type figures struct {
	Seconds       float64 `json:"seconds,omitempty"` // 0 for all the time there was
	Calls         uint64  `json:"calls"`
	First         uint64  `json:"first"`
	Retried       uint64  `json:"retried"`
	Failed        uint64  `json:"failed"`
	Attempts      uint64  `json:"attempts"`
	Retries       uint64  `json:"retries"`
	Refused       uint64  `json:"refused"`
	Hedges        uint64  `json:"hedges"`
	Reconnects    uint64  `json:"reconnects"`
	Amplification float64 `json:"amplification"` // attempts per call; 0 if there was none
}

func figuresOf(t totals, d time.Duration) figures {
	f := figures{Seconds: round(d.Seconds()), Calls: t.calls(), First: t.first, Retried: t.retried, Failed: t.failed,
		Attempts: t.attempts, Retries: t.retries, Refused: t.refused, Hedges: t.hedges, Reconnects: t.reconnects}
	if f.Calls > 0 {
		f.Amplification = round(float64(f.Attempts) / float64(f.Calls))
	}
	return f
}

// curves are rates per second, in columns of some seconds; -1 where nothing is known.
type curves struct {
	Step     float64   `json:"step"`
	Calls    []float64 `json:"calls"`
	Attempts []float64 `json:"attempts"`
	Failed   []float64 `json:"failed"`
}

type breakerReport struct {
	Name    string  `json:"name"`
	State   string  `json:"state"`
	Trigger string  `json:"trigger,omitempty"` // of the last change
	Since   float64 `json:"since,omitempty"`   // in seconds before now
	Changes uint64  `json:"changes"`
	Refused uint64  `json:"refused"`
}

type budgetReport struct {
	Name      string `json:"name"`
	Successes uint64 `json:"successes"`
	Retries   uint64 `json:"retries"`
	Allowed   uint64 `json:"allowed"`
}

// String returns all counters as JSON, by which a Metrics is an expvar.Var. Histograms are
// lists of counts, the delays' by the bounds beside them, the last one beyond all bounds.
func (m *Metrics) String() string {
	m.history.keep(m)
	text, _ := json.Marshal(m.totals()) // there is nothing in it that could fail
	return string(text)
}

func (m *Metrics) totals() *report {
	r := &report{Bounds: delayBounds, Operations: []operationReport{}, Breakers: []breakerReport{}, Budgets: []budgetReport{}}
	for _, c := range m.read() {
		r.Operations = append(r.Operations, operationReportOf(c))
	}
	for _, b := range m.breakers.sorted() {
		r.Breakers = append(r.Breakers, b.value.report(b.label))
	}
	for _, b := range m.watchedBudgets() {
		r.Budgets = append(r.Budgets, budgetReport{b.name, b.stats.Successes, b.stats.Retries, b.stats.Allowed})
	}
	return r
}

func operationReportOf(c counts) operationReport {
	return operationReport{
		Name: c.name, figures: figuresOf(c.totals, 0), Won: c.won, Lost: c.lost,
		Failures:       byName[backoff.Reason](c.failuresFor[:]),
		RetriesByClass: byName[backoff.Class](c.retriesBy[:]),
		FailedByClass:  byName[backoff.Class](c.failedBy[:]),
		Refusals:       byName[refusal](c.refusedOf[:]),

		AttemptsPerCall: c.perCall.buckets, Delay: c.delay.buckets, Wait: c.wait.buckets, Slept: c.slept.buckets,
	}
}

// byName has those that are not 0 under their names.
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

func (b *breaker) report(name string) breakerReport {
	r := breakerReport{Name: name, State: b.state().String(), Refused: b.refused.Load()}
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

// whole is totals with what the page shows besides.
func (m *Metrics) whole() *report {
	p := m.past()
	r := m.totals()
	numbers := make(map[string]int)
	for i, o := range m.operations.inOrder() {
		numbers[o.label] = i
	}
	for i := range r.Operations {
		r.Operations[i].look(p, numbers[r.Operations[i].Name])
	}
	r.Conclusion = conclude(r.Operations, r.Breakers)
	slices.SortStableFunc(r.Operations, func(a, b operationReport) int {
		return b.Diagnosis.Level.urgency() - a.Diagnosis.Level.urgency()
	})
	return r
}

// look adds what the last minutes were like.
func (o *operationReport) look(p past, number int) {
	now, recent, lately := p.now(), p.recent(), p.lately()
	o.Now = since(recent, now, number)
	o.Lately = since(lately, now, number)
	d := p.examine(number)
	o.Diagnosis = &d
	o.History = &curves{
		Step:     step.Seconds(),
		Calls:    known(p.series(number, totals.calls)),
		Attempts: known(p.series(number, func(t totals) uint64 { return t.attempts })),
		Failed:   known(p.series(number, func(t totals) uint64 { return t.failed })),
	}
}

func since(then, now point, number int) *figures {
	f := figuresOf(now.of(number).minus(then.of(number)), now.at.Sub(then.at))
	return &f
}

// known rounds, for there is no NaN in JSON.
func known(rates []float64) []float64 {
	for i, r := range rates {
		if math.IsNaN(r) {
			rates[i] = -1
			continue
		}
		rates[i] = round(r)
	}
	return rates
}

func round(f float64) float64 { return math.Round(f*100) / 100 }
