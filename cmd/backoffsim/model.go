package main

import (
	"errors"
	"flag"
	"fmt"

	"github.com/gobackoff/backoff/cmd/backoffsim/sim"
)

// modelFlags are the flags of all commands that simulate.
type modelFlags struct {
	policies []string
	peers    []string
	json     bool
	seeds    int
	first    uint64
	svg      string
}

// define defines the flags.
func (f *modelFlags) define(set *flag.FlagSet) {
	namesVar(set, &f.policies, "policy", "a policy `file or name` (see backoffsim policy -list); may be given more than once")
	set.IntVar(&f.seeds, "seeds", 10, "run every policy with so many `seeds`")
	set.Uint64Var(&f.first, "seed", 1, "the first `seed`; the same seed gives the same numbers")
	namesVar(set, &f.peers, "peer",
		"show a well-known algorithm, too, by its `name`, or all of them; may be given more than once")
	set.BoolVar(&f.json, "json", false, "print JSON instead of tables")
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
	if !recovers(s) && (f.gates.MustRecover > 0 || f.findCliff != "") {
		return errors.New("-must-recover and -find-cliff want a fault, with calls that go on after it")
	}
	return nil
}

// recovers reports whether a scenario has a fault to recover from, and calls
// after the fault.
func recovers(s *sim.Scenario) bool { return s.Fault.For > 0 && !s.Failed }

// runFlags are the flags of the commands that simulate a scenario.
type runFlags struct {
	*flag.FlagSet
	command  *command
	model    modelFlags
	verdict  verdictFlags
	scenario scenarioFlags
}

// runFlags defines the flags, with the values of a scenario as their defaults.
func (c *command) runFlags(s *sim.Scenario) *runFlags {
	set := c.flags()
	f := &runFlags{FlagSet: set, command: c}
	f.model.define(set)
	f.verdict.define(set)
	f.scenario.define(set, s)
	return f
}

// parse parses args and checks the flags that do not depend on the scenario.
func (f *runFlags) parse(t *terminal, about string, args []string) error {
	if err := t.parse(f.command, f.FlagSet, about, args); err != nil {
		return err
	}
	return errors.Join(f.model.check(), f.verdict.check())
}

// apply completes the scenario, and returns the subjects.
func (f *runFlags) apply(t *terminal, peers []sim.Client) ([]subject, error) {
	if err := f.scenario.apply(); err != nil {
		return nil, err
	}
	return t.subjects(f.model.policies, f.model.peers, peers)
}
