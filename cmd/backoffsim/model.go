package main

import (
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/gobackoff/backoff/cmd/backoffsim/sim"
)

// modelFlags are the flags of all commands that simulate.
type modelFlags struct {
	policies names
	peers    names
	json     bool
	seeds    int
	first    uint64
	svg      string
}

// define defines the flags. seeds is the default number of seeds.
func (f *modelFlags) define(set *flag.FlagSet, seeds int) {
	set.Var(&f.policies, "policy", "a policy `file or name` (see backoffsim policy -list); may be given more than once")
	set.IntVar(&f.seeds, "seeds", seeds, "run every policy with so many `seeds`")
	set.Uint64Var(&f.first, "seed", 1, "the first `seed`; the same seed gives the same numbers")
	set.StringVar(&f.svg, "svg", "", "draw the chart to this `file`, for light and dark colour schemes")
}

// check refuses values that are out of range, and files that cannot be written.
func (f *modelFlags) check() error {
	if f.seeds < 1 || f.seeds > 100_000 {
		return fmt.Errorf("-seeds is %d, want 1 to 100000", f.seeds)
	}
	return checkPicture(f.svg)
}

func (f *modelFlags) options() sim.Options {
	return sim.Options{Seeds: f.seeds, First: f.first}
}

// verdictFlags are the flags of the commands that print a verdict.
type verdictFlags struct {
	gates     sim.Gates
	findCliff string
	warnOnly  bool
}

func (f *verdictFlags) define(set *flag.FlagSet) {
	set.Float64Var(&f.gates.MaxAmplification, "max-amplification", 0,
		"fail, with exit status 1, if the service gets more attempts per call than this `number`")
	set.DurationVar(&f.gates.MustRecover, "must-recover", 0,
		"fail if a seed does not recover within this `time` after the fault")
	set.Float64Var(&f.gates.MinSuccess, "min-success", 0, "fail if a smaller `share` of the calls succeeds, from 0 to 1")
	set.StringVar(&f.findCliff, "find-cliff", "",
		"look for the load, or the length of the fault, from which on a policy does not recover: `load or dip`")
	set.BoolVar(&f.warnOnly, "warn-only", false, "print what can be told without running, and do not run")
}

// check refuses values that are out of range or contradict each other.
func (f *verdictFlags) check() error {
	if f.findCliff != "" && f.findCliff != "load" && f.findCliff != "dip" {
		return fmt.Errorf("-find-cliff is %q, want load or dip", f.findCliff)
	}
	if f.warnOnly && (f.hasGates() || f.findCliff != "") {
		return errors.New("-warn-only runs nothing, and so holds nothing against a gate")
	}
	return f.gates.Validate()
}

// hasGates reports whether a gate is set.
func (f *verdictFlags) hasGates() bool { return f.gates != sim.Gates{} }

// checkScenario refuses gates that need a recovery if a scenario has none.
func (f *verdictFlags) checkScenario(s *sim.Scenario) error {
	if recovers(s) {
		return nil
	}
	if f.gates.MustRecover > 0 || f.findCliff != "" {
		return errors.New("-must-recover and -find-cliff want a fault, with calls that go on after it")
	}
	return nil
}

// recovers reports whether a scenario has a fault to recover from, and calls
// after the fault.
func recovers(s *sim.Scenario) bool { return s.Fault.For > 0 && !s.Failed }

// runFlags are the flags of the commands that simulate a scenario.
type runFlags struct {
	model    modelFlags
	verdict  verdictFlags
	scenario scenarioFlags
}

// define defines the flags, with the values of a scenario as their defaults.
func (f *runFlags) define(set *flag.FlagSet, s *sim.Scenario) {
	f.model.define(set, 10)
	set.Var(&f.model.peers, "peer",
		"show a well-known algorithm, too, by its `name`, or all of them; may be given more than once")
	set.BoolVar(&f.model.json, "json", false, "print JSON instead of tables")
	f.verdict.define(set)
	f.scenario.define(set, s)
}

// parse parses args and checks the flags that do not depend on the scenario.
func (f *runFlags) parse(t *terminal, c *command, set *flag.FlagSet, about string, args []string) error {
	if err := t.parse(c, set, "", about, args); err != nil {
		return err
	}
	return errors.Join(f.model.check(), f.verdict.check())
}

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

// report prints a trial. It returns errGate if a gate failed.
func (t *trial) report(term *terminal, m *modelFlags) error {
	var err error
	if m.json {
		err = encode(term.out, t.json(m))
	} else {
		t.print(term)
	}
	for _, g := range t.failed {
		fmt.Fprintln(term.err, "gate: "+g)
	}
	return errors.Join(err, gateError(t.failed))
}

func gateError(failed []string) error {
	if len(failed) > 0 {
		return errGate
	}
	return nil
}
