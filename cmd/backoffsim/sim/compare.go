package sim

import (
	"fmt"
	"math"
	"slices"
	"time"
)

const defaultSeeds = 10

// Compare runs each client in the scenario, once for every seed, and returns
// the results in the order of the clients. All clients of a seed get the same
// arrivals. Compare refuses an invalid scenario and invalid policies.
//
// A program runs one simulation at a time: a second call waits for the first.
func Compare(s Scenario, clients []Client, o Options) ([]Result, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	seeds := o.Seeds
	if seeds <= 0 {
		seeds = defaultSeeds
	}
	results := make([]Result, len(clients))
	for i, c := range clients {
		g := aggregate{scenario: &s}
		for n := range seeds {
			t, err := simulate(&s, c, newServerState(s.Server, s.Fault), o.First+uint64(n))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.Name, err)
			}
			g.add(t)
		}
		results[i] = g.result(c.Name)
	}
	return results, nil
}

// An aggregate collects the runs of one client.
type aggregate struct {
	scenario *Scenario
	seeds    int
	never    int // seeds without recovery
	attempts int
	calls    int // that count in the figures

	success, lost, peakArrivals, recovery, wasted sample
	throttled                                     sample
	addedP50, addedP99, mean, p99, drain, onset   sample
	amplification, peak                           []sample // by hop

	seconds  []secondSample
	arrivals []float64 // per 100 ms
}

// A secondSample is one second of all runs.
type secondSample struct{ calls, good, lost, attempts sample }

// A sample is one number from each seed.
type sample []float64

func (s *sample) add(x float64) { *s = append(*s, x) }

// figure returns the mean with its standard error.
func (s sample) figure() Figure {
	if len(s) == 0 {
		return Figure{}
	}
	var sum, squares float64
	for _, x := range s {
		sum += x
	}
	f := Figure{Mean: sum / float64(len(s))}
	for _, x := range s {
		squares += (x - f.Mean) * (x - f.Mean)
	}
	if len(s) > 1 {
		f.SE = math.Sqrt(squares / float64(len(s)-1) / float64(len(s)))
	}
	return f
}

// max returns the largest number, and 0 if there is none.
func (s sample) max() float64 {
	if len(s) == 0 {
		return 0
	}
	return slices.Max(s)
}

// band returns the mean with the 5 % and 95 % quantiles.
func (s sample) band() Band {
	sorted := slices.Sorted(slices.Values(s))
	at := func(q float64) float64 { return sorted[int(math.Round(q*float64(len(s)-1)))] }
	return Band{Mean: s.figure().Mean, P5: at(0.05), P95: at(0.95)}
}

// add adds a run.
func (g *aggregate) add(t *tally) {
	s := g.scenario
	g.seeds++
	g.attempts += t.arrivals
	if calls := t.good + t.lost; calls > 0 {
		g.calls += calls
		g.success.add(float64(t.good) / float64(calls))
	}
	g.lost.add(float64(t.lost))
	g.peakArrivals.add(float64(t.peak.most))
	g.wasted.add(float64(t.arrivals - t.succeeded))
	if t.arrivals > 0 {
		g.throttled.add(float64(t.throttled) / float64(t.arrivals))
	}
	if r := t.recovery(s); r >= 0 {
		g.recovery.add(r.Seconds())
	} else {
		g.never++
	}
	g.addLatencies(t)
	g.addHops(t)
	if t.onsetCalls > 0 {
		g.onset.add(float64(t.onset) / float64(t.onsetCalls))
	}
	g.addSeries(t)
}

// addLatencies adds how long calls took that succeeded or were under way at the
// end.
func (g *aggregate) addLatencies(t *tally) {
	if t.latencies.total > 0 {
		unloaded := func(q float64) float64 {
			return (g.scenario.Server.Service.Quantile(q) + 2*g.scenario.Delay).Seconds()
		}
		g.addedP50.add(t.latencies.quantile(0.5).Seconds() - unloaded(0.5))
		g.addedP99.add(t.latencies.quantile(0.99).Seconds() - unloaded(0.99))
	}
	if n := t.succeeded + t.unanswered; n > 0 {
		g.mean.add(t.totalLatency.Seconds() / float64(n))
		g.p99.add(t.allLatencies.quantile(0.99).Seconds())
		g.drain.add(max(0, t.lastSuccess-g.scenario.drainFrom()).Seconds())
	}
}

// addHops adds the amplification of each hop.
func (g *aggregate) addHops(t *tally) {
	if g.amplification == nil {
		g.amplification = make([]sample, len(t.attempts))
		g.peak = make([]sample, len(t.attempts))
	}
	if t.calls == 0 {
		return
	}
	length := min(t.to, g.scenario.until()) - t.from
	mean := float64(t.calls) / max(1, length.Seconds())
	for hop, n := range t.attempts {
		g.amplification[hop].add(float64(n) / float64(t.calls))
		if !g.scenario.Failed { // all calls of a herd come in one second
			g.peak[hop].add(t.peakAmplification(hop, mean))
		}
	}
}

// addSeries adds the counts of each second and each 100 ms.
func (g *aggregate) addSeries(t *tally) {
	if g.seconds == nil {
		g.seconds = make([]secondSample, g.scenario.Horizon/time.Second)
		g.arrivals = make([]float64, 10*len(g.seconds))
	}
	for i := range g.seconds {
		s := &g.seconds[i]
		s.calls.add(float64(t.seconds[i].calls))
		s.good.add(float64(t.seconds[i].good))
		s.lost.add(float64(t.seconds[i].lost))
		s.attempts.add(float64(t.hops[len(t.hops)-1][i]))
	}
	for i := range g.arrivals {
		g.arrivals[i] += float64(t.tenths[i])
	}
}

func (g *aggregate) result(name string) Result {
	r := Result{
		Client: name, Seeds: g.seeds, Never: g.never, Attempts: g.attempts, Calls: g.calls,
		Success: g.success.figure(), Lost: g.lost.figure(), PeakArrivals: g.peakArrivals.figure(),
		Recovery: g.recovery.figure(), Slowest: g.recovery.max(), Wasted: g.wasted.figure(), Throttled: g.throttled.figure(),
		AddedP50: g.addedP50.figure(), AddedP99: g.addedP99.figure(), Mean: g.mean.figure(), P99: g.p99.figure(),
		Drain: g.drain.figure(), Onset: g.onset.figure(), Arrivals: g.arrivals,
	}
	for hop := range g.amplification {
		r.Amplification = append(r.Amplification, g.amplification[hop].figure())
		r.Peak = append(r.Peak, g.peak[hop].figure())
	}
	for i := range r.Arrivals {
		r.Arrivals[i] /= float64(g.seeds)
	}
	for _, s := range g.seconds {
		r.Series = append(r.Series, Point{Calls: s.calls.figure().Mean, Good: s.good.band(),
			Lost: s.lost.figure().Mean, Attempts: s.attempts.band()})
	}
	return r
}
