package sim

import (
	"cmp"
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
	seeds := cmp.Or(max(0, o.Seeds), defaultSeeds)
	results := make([]Result, len(clients))
	for i, c := range clients {
		g := newAggregate(&s, c.Name, seeds)
		for n := range seeds {
			t, err := simulate(&s, c, newServerState(s.Server, s.Fault), o.First+uint64(n))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.Name, err)
			}
			g.add(t)
		}
		results[i] = g.result()
	}
	return results, nil
}

// An aggregate collects the runs of one client.
type aggregate struct {
	Result
	scenario *Scenario
	figures  map[*Figure]sample // of the Result
	seconds  []secondSample
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

// band returns the mean with the 5 % and 95 % quantiles.
func (s sample) band() Band {
	sorted := slices.Sorted(slices.Values(s))
	at := func(q float64) float64 { return sorted[int(math.Round(q*float64(len(s)-1)))] }
	return Band{Mean: s.figure().Mean, P5: at(0.05), P95: at(0.95)}
}

func newAggregate(s *Scenario, client string, seeds int) *aggregate {
	seconds := s.Horizon / time.Second
	return &aggregate{
		Result: Result{Client: client, Seeds: seeds, Amplification: make([]Figure, s.layers()),
			Peak: make([]Figure, s.layers()), Arrivals: make([]float64, 10*seconds)},
		scenario: s, figures: make(map[*Figure]sample), seconds: make([]secondSample, seconds),
	}
}

// note adds the number of one seed to a figure.
func (g *aggregate) note(f *Figure, x float64) { g.figures[f] = append(g.figures[f], x) }

// add adds a run.
func (g *aggregate) add(t *tally) {
	g.Attempts += t.arrivals
	if calls := t.good + t.lost; calls > 0 {
		g.Calls += calls
		g.note(&g.Success, float64(t.good)/float64(calls))
	}
	g.note(&g.Lost, float64(t.lost))
	g.note(&g.PeakArrivals, float64(t.peak.most))
	g.note(&g.Wasted, float64(t.arrivals-t.succeeded))
	if t.arrivals > 0 {
		g.note(&g.Throttled, float64(t.throttled)/float64(t.arrivals))
	}
	if r := t.recovery(g.scenario); r >= 0 {
		g.note(&g.Recovery, r.Seconds())
		g.Slowest = max(g.Slowest, r.Seconds())
	} else {
		g.Never++
	}
	if t.onsetCalls > 0 {
		g.note(&g.Onset, float64(t.onset)/float64(t.onsetCalls))
	}
	g.addLatencies(t)
	g.addHops(t)
	g.addSeries(t)
}

// addLatencies adds how long calls took that succeeded or were under way at the
// end.
func (g *aggregate) addLatencies(t *tally) {
	if t.latencies.total > 0 {
		added := func(q float64) float64 {
			unloaded := g.scenario.Server.Service.Quantile(q) + 2*g.scenario.Delay
			return t.latencies.quantile(q).Seconds() - unloaded.Seconds()
		}
		g.note(&g.AddedP50, added(0.5))
		g.note(&g.AddedP99, added(0.99))
	}
	if n := t.succeeded + t.unanswered; n > 0 {
		g.note(&g.Mean, t.totalLatency.Seconds()/float64(n))
		g.note(&g.P99, t.allLatencies.quantile(0.99).Seconds())
		g.note(&g.Drain, max(0, t.lastSuccess-g.scenario.drainFrom()).Seconds())
	}
}

// addHops adds the amplification of each hop.
func (g *aggregate) addHops(t *tally) {
	if t.calls == 0 {
		return
	}
	length := min(t.to, g.scenario.until()) - t.from
	mean := float64(t.calls) / max(1, length.Seconds())
	for hop, n := range t.attempts {
		g.note(&g.Amplification[hop], float64(n)/float64(t.calls))
		if !g.scenario.Failed { // all calls of a herd come in one second
			g.note(&g.Peak[hop], t.peakAmplification(hop, mean))
		}
	}
}

// addSeries adds the counts of each second and each 100 ms.
func (g *aggregate) addSeries(t *tally) {
	for i := range g.seconds {
		s := &g.seconds[i]
		s.calls.add(float64(t.seconds[i].calls))
		s.good.add(float64(t.seconds[i].good))
		s.lost.add(float64(t.seconds[i].lost))
		s.attempts.add(float64(t.hops[len(t.hops)-1][i]))
	}
	for i := range g.Arrivals {
		g.Arrivals[i] += float64(t.tenths[i])
	}
}

func (g *aggregate) result() Result {
	for f, s := range g.figures {
		*f = s.figure()
	}
	for i := range g.Arrivals {
		g.Arrivals[i] /= float64(g.Seeds)
	}
	for _, s := range g.seconds {
		g.Series = append(g.Series, Point{Calls: s.calls.figure().Mean, Good: s.good.band(),
			Lost: s.lost.figure().Mean, Attempts: s.attempts.band()})
	}
	return g.Result
}
