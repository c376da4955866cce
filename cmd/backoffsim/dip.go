package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gobackoff/backoff/internal/sim"
)

const tableHelp = `
In the tables, every figure is a mean over the seeds with its standard error. success is
the share of calls that end well from the beginning of the fault on; amplification is the attempts
per call that reach the service, and peak that of the worst second; peak/100ms is the
most arrivals in any 100 ms; recovery is the time from the end of the fault until 90 % of the
calls are answered for 5 s. The last lines are the verdict on your policies, or on default
if there is none, and what can be told without running. In -json, times are seconds.`

const aboutDip = `Simulates metastable overload: one server at 80 % load that is slow for 10 s, and clients
whose attempts time out after 1 s, of which the server knows nothing. The policies none
(no retries), naive (three, at once) and default are always shown.

All that the reference has chosen may be changed by flags.
` + tableHelp

const aboutRun = `Simulates your service: your traffic (-rate, -load, -every, -users or -trace), its service
time (-service, or -p50 and -p99) or its -capacity, its queue, processes and layers, and a
fault. What is not said is as in backoffsim dip. The policies none (no retries), naive
(three, at once) and default are always shown.
` + tableHelp

func runDip(t *terminal, c *command, args []string) error {
	return simulateDip(t, c, args, sim.Dip(), aboutDip)
}

func runRun(t *terminal, c *command, args []string) error {
	s := sim.Dip()
	s.Name, s.Rate, s.Processes, s.Server = "run", 0, 1, sim.Server{}
	return simulateDip(t, c, args, s, aboutRun)
}

func simulateDip(t *terminal, c *command, args []string, s sim.Scenario, about string) error {
	var m modelFlags
	var j judgeFlags
	var f scenarioFlags
	set := c.flags()
	m.flags(set, 10)
	j.flags(set)
	f.flags(set, s)
	recoveryMap := set.Bool("map", false, "show the recovery for loads of 10 to 95 % and faults of 1 to 60 s; takes long")
	if err := t.parse(c, set, "", about, args); err != nil {
		return err
	}
	if err := errors.Join(m.check(), j.check()); err != nil {
		return err
	}
	if c.name == "run" {
		if err := f.complete(); err != nil {
			return err
		}
	}
	if err := f.apply(&s); err != nil {
		return err
	}
	subjects, err := t.subjects(m.policies, m.peers, sim.References("dip"))
	if err != nil {
		return err
	}
	if *recoveryMap {
		return t.recoveryMap(s, subjects, &m)
	}
	return t.simulate(s, subjects, &m, &j)
}

// simulate is a whole run: warnings, simulation, report and pictures.
func (t *terminal) simulate(s sim.Scenario, subjects []subject, m *modelFlags, j *judgeFlags) error {
	run := trial{scenario: s, subjects: subjects}
	run.warn()
	if !j.warnOnly {
		if err := run.run(t, m, j); err != nil {
			return err
		}
		if err := m.pictures.draw(s.Name, run.chart(m)); err != nil {
			return err
		}
	}
	return run.report(t, m)
}

// complete refuses a run without traffic or service.
func (f *scenarioFlags) complete() error {
	given := f.given()
	any := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return given[n] })
	}
	if !any("rate", "load", "every", "users", "trace") {
		return fmt.Errorf("there is no traffic: want one of -rate, -load, -every, -users, -trace")
	}
	if !any("capacity", "service", "p50") {
		return fmt.Errorf("there is no service: want -capacity, -service, or -p50 and -p99")
	}
	return nil
}
