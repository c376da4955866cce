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
	sim.Result
	Parameters string      `json:"parameters"`
	Recovery   *sim.Figure `json:"recoverySeconds"`
	Slowest    *float64    `json:"slowestRecoverySeconds"`
}

// json returns the trial as JSON.
func (t *trial) json(m *modelFlags) trialJSON {
	out := trialJSON{
		Model: t.scenario.Name, Conditions: conditions(&t.scenario), Seeds: m.seeds, FirstSeed: m.first,
		Least: t.scenario.LeastTime().Seconds(), Results: []resultJSON{},
		Verdicts: nonNil(t.verdicts), Warnings: nonNil(t.warnings), FailedGates: nonNil(t.failed),
	}
	for i, r := range t.results {
		one := resultJSON{Result: r, Parameters: t.subjects[i].parameters}
		if recovers(&t.scenario) && r.Never < r.Seeds {
			one.Recovery, one.Slowest = &r.Recovery, &r.Slowest
		}
		out.Results = append(out.Results, one)
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
