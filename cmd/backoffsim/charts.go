package main

import (
	"cmp"
	"fmt"
	"math"

	"github.com/gobackoff/backoff/cmd/backoffsim/internal/chart"
	"github.com/gobackoff/backoff/cmd/backoffsim/sim"
)

// frame returns what surrounds the picture of a model.
func (f *modelFlags) frame(title, conditions string, notes ...string) chart.Frame {
	return chart.Frame{Title: title, Conditions: conditions, Notes: notes, Seed: f.first, Seeds: f.seeds,
		Version: version()}
}

// limitLines returns the first lines, as many as a chart can show, and notes
// how many it leaves out.
func limitLines[T any](lines []T, frame *chart.Frame) []T {
	if len(lines) <= chart.MaxLines {
		return lines
	}
	frame.Notes = append(frame.Notes, fmt.Sprintf("%d more policies are in the table only.", len(lines)-chart.MaxLines))
	return lines[:chart.MaxLines]
}

// chart returns the chart that suits the scenario.
func (t *trial) chart(m *modelFlags) chart.Chart {
	frame := m.frame("", conditions(&t.scenario), t.verdicts...)
	switch {
	case t.scenario.Calls > 0:
		frame.Title = "Attempts per 100ms at an API, of a job"
		return t.herdChart(frame)
	case t.scenario.Failed:
		return t.herdChart(frame)
	}
	return t.dipChart(frame)
}

func (t *trial) dipChart(frame chart.Frame) chart.Chart {
	f := t.scenario.Fault
	c := chart.Dip{
		Frame: frame, From: f.From.Seconds(), To: (f.From + f.For).Seconds(),
		Trigger: cmp.Or(fault(&t.scenario), "no fault"),
	}
	capacity := t.scenario.Server.Capacity()
	if math.IsInf(capacity, 1) { // relative to the offered load instead
		capacity = t.offered(t.results[0])
	}
	for i, r := range t.results {
		offered := t.offered(r)
		line := chart.Line{Policy: t.subjects[i].caption(), Recovery: r.Recovery.Mean}
		if r.Never > 0 {
			line.Recovery = math.Inf(1)
		}
		for _, p := range r.Series {
			addBand(&line.First, p.Good, 100/offered)
			addBand(&line.Second, p.Attempts, 1/capacity)
		}
		if r.Seeds == 1 {
			line.First.Low, line.First.High, line.Second.Low, line.Second.High = nil, nil, nil, nil
		}
		c.Lines = append(c.Lines, line)
	}
	for n := range t.results[0].Series {
		c.Seconds = append(c.Seconds, float64(n))
	}
	c.Lines = limitLines(c.Lines, &c.Frame)
	return c
}

// offered returns the calls per second before the fault, or of the whole run if
// it begins with the fault.
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

// addBand appends a point to a band.
func addBand(to *chart.Band, b sim.Band, scale float64) {
	to.Mean = append(to.Mean, b.Mean*scale)
	to.Low = append(to.Low, b.P5*scale)
	to.High = append(to.High, b.P95*scale)
}

func (t *trial) herdChart(frame chart.Frame) chart.Chart {
	fault := t.scenario.Fault
	c := chart.Herd{
		Frame: frame, From: fault.From.Seconds(), To: (fault.From + fault.For).Seconds(), Capacity: t.accepted() / 10,
	}
	bins := 0
	for i, r := range t.results {
		drain := r.Drain.Mean
		if r.Lost.Mean > 0 {
			drain = math.Inf(1)
		}
		c.Panels = append(c.Panels, chart.HerdPanel{
			Policy: t.subjects[i].caption(), Arrivals: r.Arrivals, Peak: r.PeakArrivals.Mean, Drain: drain,
		})
		bins = max(bins, binsUsed(r.Arrivals))
	}
	bins = min(bins+5, len(t.results[0].Arrivals), 300)
	for n := range bins {
		c.Seconds = append(c.Seconds, float64(n)/10)
	}
	for i := range c.Panels {
		c.Panels[i].Arrivals = c.Panels[i].Arrivals[:bins]
	}
	c.Panels = limitLines(c.Panels, &c.Frame)
	return c
}

// accepted returns how many attempts the service takes per second, and 0 if
// there is no limit.
func (t *trial) accepted() float64 {
	most := t.scenario.Server.Capacity()
	if limit := t.scenario.Server.Rate; limit > 0 {
		most = min(most, limit)
	}
	if math.IsInf(most, 1) {
		return 0
	}
	return most
}

// binsUsed returns the number of bins up to the last one with arrivals.
func binsUsed(arrivals []float64) int {
	n := len(arrivals)
	for n > 0 && arrivals[n-1] < 0.5 {
		n--
	}
	return n
}

func failureChart(probabilities []float64, trials []*trial, m *modelFlags) chart.Chart {
	s := trials[0].scenario
	frame := m.frame("", fmt.Sprintf("%s, %d layers", traffic(&s), max(1, s.Layers)))
	c := chart.Failure{Frame: frame, Probability: probabilities}
	for i, subject := range trials[0].subjects {
		line := chart.Line{Policy: subject.caption()}
		for _, t := range trials {
			r := t.results[i]
			line.First.Mean = append(line.First.Mean, r.Amplification[len(r.Amplification)-1].Mean)
			line.Second.Mean = append(line.Second.Mean, 100*r.Success.Mean)
		}
		c.Lines = append(c.Lines, line)
	}
	c.Lines = limitLines(c.Lines, &c.Frame)
	return c
}
