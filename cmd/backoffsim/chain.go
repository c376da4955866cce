package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gobackoff/backoff/cmd/backoffsim/sim"
)

// aboutChain is the help text of the command chain.
func aboutChain() string {
	return `Simulates three layers that each retry, before a service whose calls fail for 600 s with a
given probability. Calls take no time. A layer that gives up marks its error, so that the
layers above do not retry it; -no-mark removes the mark from all policies but the peers,
whose names say whether they have it.

With one -p the chart shows the layers, and with several it shows the failure rate. With
several -p, -json prints a list.
` + columns("the second half of the fault", "the time from the end of the fault until 99 % of the calls succeed, for 5 s", sim.References("chain"))
}

func runChain(t *terminal, c *command, args []string) error {
	var f runFlags
	set := c.flags()
	base := sim.Chain(1)
	f.define(set, &base)
	probabilities := numbers{1}
	set.Var(&probabilities, "p", "the `probabilities` with which calls fail, separated by commas, from 0 to 1")
	noMark := set.Bool("no-mark", false, "layers do not see that the one below has given up, as behind a protocol that does not carry it")
	if err := f.parse(t, c, set, aboutChain(), args); err != nil {
		return err
	}
	if f.scenario.given()["fault-errors"] {
		return errors.New("-fault-errors is called -p here")
	}
	if err := f.scenario.apply(); err != nil {
		return err
	}
	subjects, err := t.subjects(f.model.policies, f.model.peers, sim.References("chain"))
	if err != nil {
		return err
	}
	if *noMark {
		removeMarks(subjects)
	}
	return t.simulateChains(probabilities, subjects, &f)
}

// simulateChains runs the subjects with each of the probabilities.
func (t *terminal) simulateChains(probabilities numbers, subjects []subject, f *runFlags) error {
	var trials []*trial
	for _, p := range probabilities {
		s := *f.scenario.Scenario
		if s.Fault.For > 0 {
			s.Fault.Errors = p
		}
		s.From, s.To = s.Fault.From+s.Fault.For/2, s.Fault.From+s.Fault.For
		if err := f.verdict.checkScenario(&s); err != nil {
			return err
		}
		trials = append(trials, &trial{scenario: s, subjects: subjects})
	}
	if len(trials) == 1 {
		return t.simulate(trials[0].scenario, subjects, f)
	}
	for _, one := range trials {
		one.warn()
		if f.verdict.warnOnly {
			continue
		}
		if err := one.run(f); err != nil {
			return err
		}
	}
	if !f.verdict.warnOnly {
		if err := drawPicture(f.model.svg, failureChart(probabilities, trials, &f.model)); err != nil {
			return err
		}
	}
	return t.reportAll(trials, &f.model)
}

// reportAll prints the trials one after the other.
func (t *terminal) reportAll(trials []*trial, m *modelFlags) error {
	var errs []error
	var all []trialJSON
	for i, one := range trials {
		if m.json {
			all = append(all, one.json(m))
		} else {
			if i > 0 {
				fmt.Fprintln(t.out)
			}
			fmt.Fprintln(t.out, conditions(&one.scenario))
			one.print(t)
		}
		lines(t.err, "gate: "+fault(&one.scenario)+": ", one.failed)
		errs = append(errs, gateError(one.failed))
	}
	if m.json {
		errs = append(errs, encode(t.out, all))
	}
	return errors.Join(errs...)
}

// removeMarks hides from the layers above that a layer has given up, for all
// subjects but the peers.
func removeMarks(subjects []subject) {
	for i := range subjects {
		if !subjects[i].peer {
			subjects[i].Client = subjects[i].Client.WithoutMarks()
		}
	}
}

// numbers is the value of a flag with a list of numbers from 0 to 1.
type numbers []float64

// String implements flag.Value.
func (n *numbers) String() string {
	var all []string
	for _, x := range *n {
		all = append(all, strconv.FormatFloat(x, 'g', -1, 64))
	}
	return strings.Join(all, ",")
}

// Set implements flag.Value.
func (n *numbers) Set(value string) error {
	*n = nil
	for part := range strings.SplitSeq(value, ",") {
		x, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil || !(x >= 0 && x <= 1) {
			return fmt.Errorf("%q is not a number from 0 to 1", part)
		}
		*n = append(*n, x)
	}
	slices.Sort(*n)
	*n = slices.Compact(*n)
	return nil
}
