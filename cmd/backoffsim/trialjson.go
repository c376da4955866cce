package main

import (
	"encoding/json"
	"io"

	"github.com/gobackoff/backoff/cmd/backoffsim/sim"
)

// A trialJSON is a trial in the output of -json.
type trialJSON struct {
	Model       string       `json:"model"`
	Conditions  string       `json:"conditions"`
	Seeds       int          `json:"seeds"`
	FirstSeed   uint64       `json:"firstSeed"`
	Least       float64      `json:"leastSeconds,omitempty"` // that a job takes
	Results     []resultJSON `json:"results"`
	Verdicts    []string     `json:"verdicts"`
	Warnings    []string     `json:"warnings"`
	FailedGates []string     `json:"failedGates"`
}

// A resultJSON is the result of one policy. The recovery times are null if the
// policy never recovers, or if there is nothing to recover from.
type resultJSON struct {
	Policy        string       `json:"policy"`
	Parameters    string       `json:"parameters"`
	Success       figureJSON   `json:"success"`
	Amplification []figureJSON `json:"amplification"`
	Peak          []figureJSON `json:"peakAmplification"`
	PeakArrivals  figureJSON   `json:"peakArrivalsPer100ms"`
	Recovery      *figureJSON  `json:"recoverySeconds"`
	Slowest       *float64     `json:"slowestRecoverySeconds"`
	Never         int          `json:"neverRecovered"`
	Lost          figureJSON   `json:"lost"`
	Wasted        figureJSON   `json:"wasted"`
	Throttled     figureJSON   `json:"throttled"`
	AddedP50      figureJSON   `json:"addedP50Seconds"`
	AddedP99      figureJSON   `json:"addedP99Seconds"`
	Mean          figureJSON   `json:"meanSeconds"`
	P99           figureJSON   `json:"p99Seconds"`
	Drain         figureJSON   `json:"drainSeconds"`
	Series        []pointJSON  `json:"perSecond"`
}

// A figureJSON is a mean over the seeds with its standard error.
type figureJSON struct {
	Mean float64 `json:"mean"`
	SE   float64 `json:"se"`
}

// A pointJSON is one second of a run.
type pointJSON struct {
	Calls    float64  `json:"calls"`
	Good     bandJSON `json:"good"`
	Lost     float64  `json:"lost"`
	Attempts bandJSON `json:"attempts"`
}

// A bandJSON is a mean with the 5 % and 95 % quantiles over the seeds.
type bandJSON struct {
	Mean float64 `json:"mean"`
	P5   float64 `json:"p5"`
	P95  float64 `json:"p95"`
}

// json returns the trial as JSON.
func (t *trial) json(m *modelFlags) trialJSON {
	out := trialJSON{
		Model: t.scenario.Name, Conditions: conditions(&t.scenario), Seeds: m.seeds, FirstSeed: m.first,
		Least:   t.scenario.LeastTime().Seconds(),
		Results: []resultJSON{}, Verdicts: nonNil(t.verdicts), Warnings: nonNil(t.warnings), FailedGates: nonNil(t.failed),
	}
	for i, r := range t.results {
		out.Results = append(out.Results, t.resultJSON(i, r))
	}
	return out
}

// encode writes v as indented JSON.
func encode(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// nonNil returns a list that is encoded as [] if it is empty, not as null.
func nonNil(list []string) []string { return append([]string{}, list...) }

// resultJSON returns the result of subject i as JSON.
func (t *trial) resultJSON(i int, r sim.Result) resultJSON {
	out := resultJSON{
		Policy: r.Client, Parameters: t.subjects[i].parameters,
		Success: figureJSON(r.Success), PeakArrivals: figureJSON(r.PeakArrivals), Never: r.Never,
		Lost: figureJSON(r.Lost), Wasted: figureJSON(r.Wasted), Throttled: figureJSON(r.Throttled),
		AddedP50: figureJSON(r.AddedP50), AddedP99: figureJSON(r.AddedP99),
		Mean: figureJSON(r.Mean), P99: figureJSON(r.P99), Drain: figureJSON(r.Drain),
	}
	for hop := range r.Amplification {
		out.Amplification = append(out.Amplification, figureJSON(r.Amplification[hop]))
		out.Peak = append(out.Peak, figureJSON(r.Peak[hop]))
	}
	if recovers(&t.scenario) && r.Never < r.Seeds {
		recovery := figureJSON(r.Recovery)
		out.Recovery, out.Slowest = &recovery, &r.Slowest
	}
	for _, p := range r.Series {
		out.Series = append(out.Series, pointJSON{p.Calls, bandJSON(p.Good), p.Lost, bandJSON(p.Attempts)})
	}
	return out
}
