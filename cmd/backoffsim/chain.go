package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gobackoff/backoff/internal/sim"
)

func aboutChain() string {
	return `Simulates three layers that each retry, before a service whose calls fail for 600 s with a
given probability. Calls take no time. What a layer has given up on is marked, so that the
layers above do not try it again; -no-mark takes that away from all but the peers, which
have it or not by their names.

Of one -p there is a chart of the layers, and of several one of the failure rate. In -json,
several are a list.
` + columns("of the second half of the fault", "time from the end of the fault until 99 % of the calls are\n                 answered, for 5 s", sim.References("chain"))
}

func runChain(t *terminal, c *command, args []string) error {
	var m modelFlags
	var j judgeFlags
	var f scenarioFlags
	set := c.flags()
	m.flags(set, 10)
	j.flags(set)
	f.flags(set, sim.Chain(1))
	probabilities := numbers{1}
	set.Var(&probabilities, "p", "the `probabilities` with which calls fail, separated by commas, from 0 to 1")
	noMark := set.Bool("no-mark", false, "layers do not see that the one below has given up, as behind a protocol that does not carry it")
	if err := t.parse(c, set, "", aboutChain(), args); err != nil {
		return err
	}
	if err := errors.Join(m.check(), j.check()); err != nil {
		return err
	}
	if f.given()["fault-errors"] {
		return errors.New("-fault-errors is called -p here")
	}
	subjects, err := t.subjects(m.policies, m.peers, sim.References("chain"))
	if err != nil {
		return err
	}
	if *noMark {
		unmark(subjects)
	}
	return t.chain(probabilities, subjects, &m, &j, &f)
}

func (t *terminal) chain(probabilities numbers, subjects []subject, m *modelFlags, j *judgeFlags, f *scenarioFlags) error {
	var trials []*trial
	for _, p := range probabilities {
		s := sim.Chain(p)
		if err := f.apply(&s); err != nil {
			return err
		}
		s.From, s.To = s.Fault.From+s.Fault.For/2, s.Fault.From+s.Fault.For
		if err := j.meaningful(&s); err != nil {
			return err
		}
		trials = append(trials, &trial{scenario: s, subjects: subjects})
	}
	if len(trials) == 1 {
		return t.simulate(trials[0].scenario, subjects, m, j)
	}
	for _, one := range trials {
		one.warn()
		if j.warnOnly {
			continue
		}
		if err := one.run(t, m, j); err != nil {
			return err
		}
	}
	if !j.warnOnly {
		if err := m.pictures.draw("chain", failureChart(probabilities, trials, m)); err != nil {
			return err
		}
	}
	return t.reportAll(trials, m)
}

// reportAll prints trials one after the other.
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

// unmark hides from the layers above that one has given up, of all but peers.
func unmark(subjects []subject) {
	for i := range subjects {
		if subjects[i].peer {
			continue
		}
		subjects[i].Client = subjects[i].Client.WithoutMarks()
	}
}

// numbers is a flag with a list of numbers from 0 to 1.
type numbers []float64

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
			return fmt.Errorf("%q is no number from 0 to 1", part)
		}
		*n = append(*n, x)
	}
	slices.Sort(*n)
	*n = slices.Compact(*n)
	return nil
}
