package main

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/gobackoff/backoff/cmd/backoffsim/internal/chart"
	"github.com/gobackoff/backoff/cmd/backoffsim/sim"
)

// The map has a cell for each of these loads and lengths of the fault.
var (
	mapLoads  = []float64{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95}
	mapFaults = []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second,
		20 * time.Second, 60 * time.Second}
)

// mapHorizon is how long after the fault a simulation runs.
const mapHorizon = 200 * time.Second

// recoveryMap simulates a scenario at many loads and with faults of many
// lengths.
func (t *terminal) recoveryMap(s sim.Scenario, subjects []subject, m *modelFlags) error {
	capacity := s.Server.Capacity()
	if s.Rate == 0 || math.IsInf(capacity, 1) || s.Fault.For == 0 {
		return errors.New("-map wants a rate of calls, a service that takes time, and a fault")
	}
	c := chart.Map{Frame: m.frame("", conditions(&s)), Horizon: mapHorizon.Seconds(), Mark: mark(&s)}
	for _, load := range mapLoads {
		c.Load = append(c.Load, 100*load)
	}
	for _, one := range subjects {
		c.Maps = append(c.Maps, chart.PolicyMap{Policy: one.caption()})
	}
	if err := simulateMap(&c, s, subjects, m); err != nil {
		return err
	}
	t.printMap(&c)
	c.Maps = limitLines(c.Maps, &c.Frame)
	return drawPicture(m.svg, c)
}

// simulateMap adds the rows of the map, one for each length of the fault.
func simulateMap(c *chart.Map, s sim.Scenario, subjects []subject, m *modelFlags) error {
	capacity := s.Server.Capacity()
	for _, length := range mapFaults {
		c.Fault = append(c.Fault, length.Seconds())
		for i := range c.Maps {
			c.Maps[i].Recovery = append(c.Maps[i].Recovery, nil)
		}
		for _, load := range mapLoads {
			s.Rate, s.Fault.For, s.Horizon = load*capacity, length, s.Fault.From+length+mapHorizon
			results, err := sim.Compare(s, clientsOf(subjects), m.options())
			if err != nil {
				return err
			}
			for i, r := range results {
				row := &c.Maps[i].Recovery[len(c.Fault)-1]
				*row = append(*row, recoveryOf(r))
			}
		}
	}
	return nil
}

// mark returns the point of the user's scenario, if it is on the map.
func mark(s *sim.Scenario) *chart.Mark {
	load, length := 100*s.Rate/s.Server.Capacity(), s.Fault.For
	if load < 100*mapLoads[0] || load > 100*mapLoads[len(mapLoads)-1] || length < mapFaults[0] ||
		length > mapFaults[len(mapFaults)-1] {
		return nil
	}
	return &chart.Mark{Load: load, Fault: length.Seconds()}
}

// recoveryOf returns the recovery time in seconds, and +Inf if a seed does not
// recover.
func recoveryOf(r sim.Result) float64 {
	if r.Never > 0 {
		return math.Inf(1)
	}
	return r.Recovery.Mean
}

// printMap prints a table for each policy.
func (t *terminal) printMap(c *chart.Map) {
	fmt.Fprintln(t.out, "recovery in seconds; - is never in at least one seed")
	for _, p := range c.Maps {
		fmt.Fprintln(t.out)
		rows := table{left: 1}
		head := []string{p.Name + ", fault"}
		for _, load := range c.Load {
			head = append(head, fmt.Sprintf("%.0f %%", load))
		}
		rows.add(head...)
		for y, row := range p.Recovery {
			cells := []string{fmt.Sprintf("%v s", c.Fault[y])}
			for _, x := range row {
				cell := "-"
				if !math.IsInf(x, 1) {
					cell = fmt.Sprintf("%.0f", x)
				}
				cells = append(cells, cell)
			}
			rows.add(cells...)
		}
		rows.print(t.out)
	}
}
