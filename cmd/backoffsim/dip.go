package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gobackoff/backoff/cmd/backoffsim/sim"
)

// columns returns the help text for the columns of the tables: figures says
// which time they cover, and recovery what the column of that name is.
func columns(figures, recovery string, peers []sim.Client) string {
	return `
The policies none (no retries), naive (three, at once) and default (the zero Policy with
RetryBudget and Breaker) are always shown. Every figure is a mean over the seeds with its
standard error, and covers ` + figures + `.
Recovery is ` + recovery + `.
docs/results/simulation.md explains the columns.

Below the table are the verdict on your policies, or on default if you give none, and
warnings, which need no simulation. In -json, times are seconds.

Peers, for -peer:` + nameLines(peers)
}

// nameLines returns the names of peers, each on a line of the help text.
func nameLines(peers []sim.Client) string {
	return "\n  " + strings.Join(clientNames(slices.DeleteFunc(peers, isReference)), "\n  ")
}

// The figures and the recovery of the commands dip and run.
const (
	sinceFault    = "the time from the beginning of the fault on"
	untilRecovery = "the time from the end of the fault until 90 % of the calls succeed, for 5 s"
)

// aboutDip is the help text of the command dip.
func aboutDip() string {
	return `Simulates metastable overload: one server at 80 % load that is slow for 10 s, and clients
whose attempts time out after 1 s, which the server does not notice. Flags change all of
this.
` + columns(sinceFault, untilRecovery, sim.References("dip"))
}

// aboutRun is the help text of the command run.
func aboutRun() string {
	return `Simulates your service: your traffic (-rate, -load, -every, -users or -trace), its service
time (-service, or -p50 and -p99) or its -capacity, its queue, processes and layers, and a
fault. Everything else is as in backoffsim dip.
` + columns(sinceFault, untilRecovery, sim.References("dip"))
}

func runDip(t *terminal, c *command, args []string) error {
	return simulateDip(t, c, args, sim.Dip(), aboutDip())
}

func runRun(t *terminal, c *command, args []string) error {
	s := sim.Dip()
	s.Name, s.Rate, s.Processes, s.Server = "run", 0, 1, sim.Server{}
	return simulateDip(t, c, args, s, aboutRun())
}

// simulateDip runs a command whose scenario is s as changed by flags.
func simulateDip(t *terminal, c *command, args []string, s sim.Scenario, about string) error {
	f := c.runFlags(&s)
	if err := f.parse(t, about, args); err != nil {
		return err
	}
	if c.name == "run" {
		if err := f.scenario.checkComplete(); err != nil {
			return err
		}
	}
	subjects, err := f.apply(t, sim.References("dip"))
	if err != nil {
		return err
	}
	return t.simulateOne(s, subjects, f)
}

// checkComplete refuses flags of the command run that give no traffic or no
// service.
func (f *scenarioFlags) checkComplete() error {
	given := f.given()
	anyGiven := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return given[n] })
	}
	if !anyGiven(trafficFlags...) {
		return fmt.Errorf("there is no traffic: want one of -rate, -load, -every, -users, -trace")
	}
	if !anyGiven("capacity", "service", "p50") {
		return fmt.Errorf("there is no service: want -capacity, -service, or -p50 and -p99")
	}
	return nil
}
