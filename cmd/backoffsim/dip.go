package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gobackoff/backoff/internal/sim"
)

// columns explains the tables: of what time the figures are, and what recovery is.
func columns(figures, recovery string, peers []sim.Client) string {
	return `
The policies none (no retries), naive (three, at once) and default (the zero Policy with
RetryBudget and Breaker) are always shown. Every figure is a mean over the seeds with its
standard error, and ` + figures + `:

  success        share of the calls that end well
  amplification  attempts that reach the service, per call of a user; below 1 where
                 breakers or budgets keep calls away from it
  peak           the same in the worst second; none of a herd
  peak/100ms     most attempts that reach the service in any 100 ms
  recovery       ` + recovery + `
  lost           number of calls that do not end well
  wasted         number of attempts, in the whole run, that reach the service and do not
                 make a call end well: they fail, or nobody waits for them any more
  added p50/p99  what queues, faults and retries add to the time of calls that end well

Below stand the verdict on your policies, or on default if there is none, and warnings:
what can be told without running. In -json, times are seconds.

Peers, for -peer:` + listed(peers)
}

// listed is the names of peers in lines.
func listed(peers []sim.Client) string {
	var b strings.Builder
	width := 80
	for i, name := range clientNames(slices.DeleteFunc(peers, shownAnyhow)) {
		if i > 0 {
			b.WriteByte(';')
		}
		if width+len(name) > 84 {
			b.WriteString("\n  ")
			width = 0
		} else {
			b.WriteByte(' ')
		}
		b.WriteString(name)
		width += len(name) + 2
	}
	return b.String()
}

const (
	sinceFault   = "of the time from the beginning of the fault on"
	steadyAnswer = "time from the end of the fault until 90 % of the calls are\n                 answered, for 5 s"
)

func aboutDip() string {
	return `Simulates metastable overload: one server at 80 % load that is slow for 10 s, and clients
whose attempts time out after 1 s, of which the server knows nothing. All that may be
changed by flags.
` + columns(sinceFault, steadyAnswer, sim.References("dip"))
}

func aboutRun() string {
	return `Simulates your service: your traffic (-rate, -load, -every, -users or -trace), its service
time (-service, or -p50 and -p99) or its -capacity, its queue, processes and layers, and a
fault. What is not said is as in backoffsim dip.
` + columns(sinceFault, steadyAnswer, sim.References("dip"))
}

func runDip(t *terminal, c *command, args []string) error {
	return simulateDip(t, c, args, sim.Dip(), aboutDip())
}

func runRun(t *terminal, c *command, args []string) error {
	s := sim.Dip()
	s.Name, s.Rate, s.Processes, s.Server = "run", 0, 1, sim.Server{}
	return simulateDip(t, c, args, s, aboutRun())
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
		if j.gated() || j.findCliff != "" || j.warnOnly {
			return errors.New("-map has no verdict, and so no gates, cliff or warnings")
		}
		return t.recoveryMap(s, subjects, &m)
	}
	return t.simulate(s, subjects, &m, &j)
}

// simulate is a whole run: warnings, simulation, report and pictures.
func (t *terminal) simulate(s sim.Scenario, subjects []subject, m *modelFlags, j *judgeFlags) error {
	run := trial{scenario: s, subjects: subjects}
	if err := j.meaningful(&s); err != nil {
		return err
	}
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
