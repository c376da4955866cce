package main

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/gobackoff/backoff/cmd/backoffsim/internal/chart"
	"github.com/gobackoff/backoff/cmd/backoffsim/sim"
)

// aboutOCC is the help text of the command occ.
const aboutOCC = `Simulates optimistic concurrency control: clients that each want to update the same record
on one server, and read it again after a conflict. It is the model of "Exponential Backoff
And Jitter", AWS Architecture Blog, 2015, with its five strategies: base 5 ms, cap 2 s.

Every policy retries until it succeeds: its limits, budget and breaker are ignored. calls
is how many writes reach the server until every client has succeeded, and seconds is how
long that takes. Both are means over the seeds with their standard errors.`

func runOCC(t *terminal, c *command, args []string) error {
	var m modelFlags
	set := c.flags()
	m.define(set, 100)
	clients := numbers{all: []float64{10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120}, least: 1, most: 10_000, whole: true}
	set.Var(&clients, "clients", "the `numbers` of clients, separated by commas")
	if err := t.parse(c, set, "", aboutOCC, args); err != nil {
		return err
	}
	if err := m.check(); err != nil {
		return err
	}
	subjects, err := t.strategies(m.policies)
	if err != nil {
		return err
	}
	var counts []int
	for _, n := range clients.all {
		counts = append(counts, int(n))
	}
	cells, err := sim.RunOCC(clientsOf(subjects), counts, m.options())
	if err != nil {
		return err
	}
	printOCC(t, subjects, counts, cells)
	return drawPicture(m.svg, occChart(subjects, clients.all, cells, &m))
}

// strategies returns the strategies of the reference, and the default and the
// user's policies without their limits.
func (t *terminal) strategies(policies []string) ([]subject, error) {
	var all []subject
	for _, c := range sim.OCCReferences() {
		all = append(all, subject{Client: c, peer: true})
	}
	candidates, err := t.findAll([]string{"default"}, policies)
	if err != nil {
		return nil, err
	}
	for _, c := range candidates {
		if slices.ContainsFunc(all, func(s subject) bool { return s.Name == c.name }) {
			c.name += " (policy)"
		}
		p := c.policy
		p.MaxAttempts, p.MaxElapsed, p.Idempotency = -1, 0, nil
		all = append(all, subject{Client: sim.NewClient(c.name, p, nil, nil), parameters: c.parameters})
	}
	return all, nil
}

// printOCC prints a table of calls and a table of seconds.
func printOCC(t *terminal, subjects []subject, clients []int, cells []sim.OCC) {
	for i, column := range []struct {
		name string
		of   func(sim.OCC) sim.Figure
	}{
		{"calls, by clients", func(c sim.OCC) sim.Figure { return c.Calls }},
		{"seconds, by clients", func(c sim.OCC) sim.Figure { return c.Seconds }},
	} {
		if i > 0 {
			fmt.Fprintln(t.out)
		}
		rows := table{left: 1}
		rows.add(append([]string{column.name}, clientNames(clientsOf(subjects))...)...)
		for n, count := range clients {
			row := []string{strconv.Itoa(count)}
			for s := range subjects {
				row = append(row, figure(column.of(cells[s*len(clients)+n]), 1))
			}
			rows.add(row...)
		}
		rows.print(t.out)
	}
}

func occChart(subjects []subject, clients []float64, cells []sim.OCC, m *modelFlags) chart.Chart {
	c := chart.OCC{Frame: m.frame("", "one server, one version, messages of 10 ms"), Clients: clients}
	for i, s := range subjects {
		line := chart.Line{Policy: s.caption()}
		for n := range clients {
			cell := cells[i*len(clients)+n]
			addErrors(&line.First, cell.Calls)
			addErrors(&line.Second, cell.Seconds)
		}
		c.Lines = append(c.Lines, line)
	}
	c.Lines = limitLines(c.Lines, &c.Frame)
	return c
}

// addErrors appends a point to a band of two standard errors each way.
func addErrors(to *chart.Band, f sim.Figure) {
	addBand(to, sim.Band{Mean: f.Mean, P5: max(0, f.Mean-2*f.SE), P95: f.Mean + 2*f.SE}, 1)
}
