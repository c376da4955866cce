package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gobackoff/backoff/cmd/backoffsim/internal/chart"
	"github.com/gobackoff/backoff/cmd/backoffsim/sim"
)

// aboutChain is the help text of the command chain.
func aboutChain() string {
	return `Simulates three layers that each retry, before a service whose calls fail for 600 s with a
given probability. Calls take no time. A layer that gives up marks its error, so that the
layers above do not retry it; -no-mark removes the mark from all policies but the peers,
whose names say whether they have it.

With several -p the chart shows the calls and the success for each, and -json prints a list.
` + columns("the second half of the fault", "the time from the end of the fault until 99 % of the calls succeed, for 5 s", sim.References("chain"))
}

func runChain(t *terminal, c *command, args []string) error {
	base := sim.Chain(1)
	f := c.runFlags(&base)
	probabilities := probabilities{1}
	f.Var(&probabilities, "p", "the `probabilities` with which calls fail, separated by commas, from 0 to 1")
	noMark := f.Bool("no-mark", false, "layers do not see that the one below has given up, as behind a protocol that does not carry it")
	if err := f.parse(t, aboutChain(), args); err != nil {
		return err
	}
	if f.scenario.given()["fault-errors"] {
		return errors.New("-fault-errors is called -p here")
	}
	subjects, err := f.apply(t, sim.References("chain"))
	if err != nil {
		return err
	}
	for i := range subjects {
		if *noMark && !subjects[i].peer {
			subjects[i].Client = subjects[i].Client.WithoutMarks()
		}
	}
	var trials []*trial
	for _, p := range probabilities {
		s := base
		if s.Fault.For > 0 {
			s.Fault.Errors = p
		}
		s.From, s.To = s.Fault.From+s.Fault.For/2, s.Fault.From+s.Fault.For
		trials = append(trials, &trial{scenario: s, subjects: subjects})
	}
	return t.simulate(trials, f, func() chart.Chart {
		if len(trials) == 1 {
			return trials[0].chart(&f.model)
		}
		return failureChart(probabilities, trials, &f.model)
	})
}

// probabilities is the value of a flag: numbers from 0 to 1, separated by commas.
type probabilities []float64

// String implements flag.Value.
func (p *probabilities) String() string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint([]float64(*p)), "[]"), " ", ",")
}

// Set implements flag.Value.
func (p *probabilities) Set(value string) error {
	*p = nil
	for part := range strings.SplitSeq(value, ",") {
		x, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil || !(x >= 0 && x <= 1) {
			return fmt.Errorf("%q is not a number from 0 to 1", part)
		}
		*p = append(*p, x)
	}
	slices.Sort(*p)
	*p = slices.Compact(*p)
	return nil
}
