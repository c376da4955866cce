package main

import (
	"fmt"
	"math"

	"github.com/gobackoff/backoff/cmd/backoffsim/internal/chart"
	"github.com/gobackoff/backoff/internal/sim"
)

const mostLines = 12 // of a chart

// frame is what stands around a picture of a model.
func (f *modelFlags) frame(title, conditions string, notes ...string) chart.Frame {
	return chart.Frame{Title: title, Conditions: conditions, Notes: notes, Seed: f.first, Seeds: f.seeds, Version: version()}
}

// drawable keeps as many as there is room for.
func drawable[T any](lines []T, frame *chart.Frame) []T {
	if len(lines) <= mostLines {
		return lines
	}
	frame.Notes = append(frame.Notes, fmt.Sprintf("%d more policies are in the table only.", len(lines)-mostLines))
	return lines[:mostLines]
}

// chart is the picture that shows the point of a scenario.
func (t *trial) chart(m *modelFlags) chart.Chart {
	frame := m.frame("", conditions(&t.scenario), t.verdicts...)
	switch {
	case t.scenario.Failed:
		return t.herdChart(frame)
	case t.scenario.Name == "chain" && t.scenario.Layers < mostLines:
		return t.layersChart(frame)
	}
	return t.dipChart(frame)
}

func (t *trial) dipChart(frame chart.Frame) chart.Chart {
	fault := t.scenario.Fault
	c := chart.Dip{Frame: frame, From: fault.From.Seconds(), To: (fault.From + fault.For).Seconds(), Trigger: faultName(&t.scenario)}
	capacity := t.scenario.Server.Capacity()
	if math.IsInf(capacity, 1) { // against the load that is offered
		capacity = t.offered(t.results[0])
	}
	for i, r := range t.results {
		offered := t.offered(r)
		line := chart.DipLine{Policy: t.subjects[i].caption(), Recovery: r.Recovery.Mean}
		if r.Never > 0 {
			line.Recovery = math.Inf(1)
		}
		for _, p := range r.Series {
			addBand(&line.Goodput, p.Good, 100/offered)
			addBand(&line.Attempts, p.Attempts, 1/capacity)
		}
		single(r.Seeds, &line.Goodput, &line.Attempts)
		c.Lines = append(c.Lines, line)
	}
	for n := range t.results[0].Series {
		c.Seconds = append(c.Seconds, float64(n))
	}
	c.Lines = drawable(c.Lines, &c.Frame)
	return c
}

func faultName(s *sim.Scenario) string {
	if name := fault(s); name != "" {
		return name
	}
	return "no fault"
}

// offered is the calls per second before the fault, or of the whole run if it begins with that.
func (t *trial) offered(r sim.Result) float64 {
	n := int(t.scenario.Fault.From.Seconds())
	if n == 0 || n > len(r.Series) {
		n = len(r.Series)
	}
	sum := 0.0
	for _, p := range r.Series[:n] {
		sum += p.Calls
	}
	return max(1, sum/float64(n))
}

func addBand(to *chart.Band, b sim.Band, scale float64) {
	to.Mean = append(to.Mean, b.Mean*scale)
	to.Low = append(to.Low, b.P5*scale)
	to.High = append(to.High, b.P95*scale)
}

// single leaves out the quantiles of a single seed.
func single(seeds int, bands ...*chart.Band) {
	for _, b := range bands {
		if seeds == 1 {
			b.Low, b.High = nil, nil
		}
	}
}

func (t *trial) herdChart(frame chart.Frame) chart.Chart {
	fault := t.scenario.Fault
	c := chart.Herd{Frame: frame, From: fault.From.Seconds(), To: (fault.From + fault.For).Seconds(), Capacity: t.scenario.Server.Capacity() / 10}
	bins := 0
	for i, r := range t.results {
		drain := r.Drain.Mean
		if r.Lost.Mean > 0 || r.Unfinished.Mean > 0 {
			drain = math.Inf(1)
		}
		c.Panels = append(c.Panels, chart.HerdPanel{Policy: t.subjects[i].caption(), Arrivals: chart.Band{Mean: r.Arrivals}, Peak: r.PeakArrivals.Mean, Drain: drain})
		bins = max(bins, busy(r.Arrivals))
	}
	bins = min(bins+5, len(t.results[0].Arrivals), 300)
	for n := range bins {
		c.Seconds = append(c.Seconds, float64(n)/10)
	}
	for i := range c.Panels {
		c.Panels[i].Arrivals.Mean = c.Panels[i].Arrivals.Mean[:bins]
	}
	c.Panels = drawable(c.Panels, &c.Frame)
	return c
}

// busy returns in how many bins there is something to see.
func busy(arrivals []float64) int {
	n := len(arrivals)
	for n > 0 && arrivals[n-1] < 0.5 {
		n--
	}
	return n
}

func (t *trial) layersChart(frame chart.Frame) chart.Chart {
	c := chart.Layers{Frame: frame, Hops: []string{"user"}}
	for hop := range t.results[0].Amplification {
		c.Hops = append(c.Hops, fmt.Sprintf("layer %d", hop+1))
	}
	for i, r := range t.results {
		p := chart.LayersPolicy{Policy: t.subjects[i].caption(), Calls: []float64{1}}
		for _, a := range r.Amplification {
			p.Calls = append(p.Calls, a.Mean)
		}
		c.Policies = append(c.Policies, p)
	}
	c.Policies = drawable(c.Policies, &c.Frame)
	return c
}

func failureChart(probabilities numbers, trials []*trial, m *modelFlags) chart.Chart {
	s := trials[0].scenario
	c := chart.Failure{Frame: m.frame("", fmt.Sprintf("%s, %d layers", traffic(&s), max(1, s.Layers))), Probability: probabilities}
	for i, subject := range trials[0].subjects {
		line := chart.FailureLine{Policy: subject.caption()}
		for _, t := range trials {
			r := t.results[i]
			line.Calls.Mean = append(line.Calls.Mean, r.Amplification[len(r.Amplification)-1].Mean)
			line.Success.Mean = append(line.Success.Mean, 100*r.Success.Mean)
		}
		c.Lines = append(c.Lines, line)
	}
	c.Lines = drawable(c.Lines, &c.Frame)
	return c
}
