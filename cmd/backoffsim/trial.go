package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/gobackoff/backoff/cmd/backoffsim/internal/chart"
	"github.com/gobackoff/backoff/cmd/backoffsim/sim"
)

// A trial is a scenario, the subjects that are simulated in it, and the
// results.
type trial struct {
	scenario sim.Scenario
	subjects []subject
	results  []sim.Result
	warnings []string
	verdicts []string
	failed   []string // a line for each gate that failed
}

// warn collects the warnings about the service and about the judged subjects.
func (t *trial) warn() {
	t.warnings = sim.ServiceWarnings(t.scenario)
	for _, s := range t.subjects {
		if !s.judged {
			continue
		}
		for _, w := range sim.Warnings(t.scenario, s.Client) {
			t.warnings = append(t.warnings, s.Name+": "+w)
		}
	}
}

// run simulates the subjects and collects the verdicts and the failed gates.
func (t *trial) run(f *runFlags) error {
	var err error
	t.results, err = sim.Compare(t.scenario, clientsOf(t.subjects), f.model.options())
	if err != nil {
		return err
	}
	for i, s := range t.subjects {
		if s.judged {
			t.verdicts = append(t.verdicts, sim.Verdict(t.scenario, t.results[i]))
			t.failed = append(t.failed, f.verdict.gates.Check(t.results[i])...)
		}
	}
	return t.findCliffs(f)
}

// simulateOne runs the subjects in one scenario.
func (t *terminal) simulateOne(s sim.Scenario, subjects []subject, f *runFlags) error {
	one := &trial{scenario: s, subjects: subjects}
	return t.simulate([]*trial{one}, f, func() chart.Chart { return one.chart(&f.model) })
}

// simulate runs the trials, draws the picture of their results, and prints them.
func (t *terminal) simulate(trials []*trial, f *runFlags, picture func() chart.Chart) error {
	for _, one := range trials {
		if err := f.verdict.checkScenario(&one.scenario); err != nil {
			return err
		}
		one.warn()
	}
	if f.verdict.warnOnly {
		return t.report(trials, &f.model)
	}
	for _, one := range trials {
		if err := one.run(f); err != nil {
			return err
		}
	}
	if err := drawPicture(f.model.svg, picture()); err != nil {
		return err
	}
	return t.report(trials, &f.model)
}

// report prints the trials, one after the other. It returns errGate if a gate
// failed.
func (t *terminal) report(trials []*trial, m *modelFlags) (err error) {
	var all []trialJSON
	for i, one := range trials {
		gate := "gate: "
		if len(trials) > 1 {
			gate += fault(&one.scenario) + ": "
		}
		all = append(all, one.json(m))
		if !m.json {
			if i > 0 {
				fmt.Fprintln(t.out)
			}
			if len(trials) > 1 {
				fmt.Fprintln(t.out, conditions(&one.scenario))
			}
			one.print(t)
		}
		if lines(t.err, gate, one.failed); len(one.failed) > 0 {
			err = errGate
		}
	}
	switch {
	case m.json && len(all) == 1:
		err = errors.Join(err, encode(t.out, all[0]))
	case m.json:
		err = errors.Join(err, encode(t.out, all))
	}
	return err
}

// findCliffs adds to the verdicts the point from which on each judged subject
// does not recover.
func (t *trial) findCliffs(f *runFlags) error {
	if f.verdict.findCliff == "" {
		return nil
	}
	axis, lo, hi, within := sim.CliffLoad, 0.05, 0.99, 0.01
	if f.verdict.findCliff == "dip" {
		axis, lo, hi, within = sim.CliffDip, 0.25, 60, 0.25
	}
	for _, s := range t.subjects {
		if !s.judged {
			continue
		}
		found, err := sim.FindCliff(t.scenario, s.Client, axis, lo, hi, within, f.model.options())
		if err != nil {
			return err
		}
		t.verdicts = append(t.verdicts, s.Name+": "+cliff(axis, found))
	}
	return nil
}

// cliff describes a cliff.
func cliff(axis sim.CliffAxis, c sim.Cliff) string {
	unit := func(x float64) string { return fmt.Sprintf("%.3g %% load", 100*x) }
	if axis == sim.CliffDip {
		unit = func(x float64) string {
			return "a fault of " + time.Duration(x*float64(time.Second)).Round(10*time.Millisecond).String()
		}
	}
	switch {
	case c.Unsafe == 0:
		return "recovers up to " + unit(c.Safe) + ", the most that was tried"
	case c.Safe == 0:
		return "does not recover even at " + unit(c.Unsafe)
	}
	return "recovers up to " + unit(c.Safe) + ", and not at " + unit(c.Unsafe)
}
