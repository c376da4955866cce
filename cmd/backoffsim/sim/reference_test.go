package sim

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/nightly"
)

// This file has the tables of the reference simulator, an independent program
// of another author. A normal run of the tests checks a part of them, with few
// seeds. At night, and by "make sim", they check all of them at full size.
//
// A figure agrees if it differs by no more than three times the combined
// standard error plus 2 %. A time may differ by one more second, because the
// reference has whole seconds.

// gone stands for a recovery that does not come.
const gone = -1

func TestTheDipDoesToEveryPolicyWhatItDoesInTheReference(t *testing.T) {
	seeds := nightly.Size(2, 20)
	for _, row := range []struct {
		name         string
		often        bool // also in the small run
		recovery, se float64
		lost         float64 // %
	}{
		{"no retries", true, 21.1, .3, 14.0},
		{"naive 3 retries", false, gone, 0, 99.7},
		{"exponential, no jitter", false, gone, 0, 99.7},
		{"full jitter", true, gone, 0, 99.7},
		{"full jitter, base 1 s", false, gone, 0, 99.7},
		{"decorrelated jitter", false, gone, 0, 99.7},
		{"budget 10 %", true, 41.7, .6, 23.7},
		{"naive + budget 10 %", false, 42.2, .6, 23.9},
		{"success-funded 10 %", false, 22.6, .2, 14.6},
		{"budget 20 %", false, 145.6, 3.5, 73.0},
		{"500-5-1", true, 31.6, .3, 19.0},
		{"gRPC 10/0.1", false, 21.6, .3, 14.2},
		{"breaker 50 %/30 s", false, 25.0, .1, 16.2},
		{"breaker 50 %/5 s", true, 6.0, .1, 7.3},
		{"budget 10 % + breaker 5 s", false, 7.2, .1, 7.5},
		{"adaptive K=2, 120 s", false, gone, 0, 92.7},
	} {
		if !nightly.On && !row.often {
			continue
		}
		r := run(t, Dip(), seeds, peer(t, row.name))[0]
		lost := Figure{Mean: 100 * (1 - r.Success.Mean), SE: 100 * r.Success.SE}
		agree(t, want{row.lost, .15 * row.se / .3, 20}, lost, seeds, 0.7, "lost by %s", row.name)
		if row.recovery == gone {
			require.Equal(t, seeds, r.Never, row.name)
			continue
		}
		require.Zero(t, r.Never, row.name)
		agree(t, want{row.recovery, row.se, 20}, r.Recovery, seeds, 1, "recovery of %s", row.name)
	}
}

// A row is the recovery times of a client, in seconds.
type row struct {
	client   Client
	recovery []float64
}

// recoverAs requires the recovery times of the rows, for each of the values that
// set changes the dip to. A normal run checks those that often names.
func recoverAs(t *testing.T, values []float64, set func(*Scenario, float64), rows []row, often func(client string, value float64) bool) {
	t.Helper()
	for _, row := range rows {
		for i, value := range values {
			if nightly.On || often(row.client.Name, value) {
				s := Dip()
				set(&s, value)
				recovers(t, s, row.client, row.recovery[i], "%s at %v", row.client.Name, value)
			}
		}
	}
}

func setLoad(s *Scenario, load float64)     { s.Rate = 1000 * load }
func setProcesses(s *Scenario, n float64)   { s.Processes = int(n) }
func setDip(s *Scenario, length float64)    { *s, _ = s.at(CliffDip, length) }
func peer(t *testing.T, name string) Client { return named(t, References("dip"), name) }

func TestWhereThePoliciesOfTheReferenceStopToRecover(t *testing.T) {
	nightly.Long(t)
	recoverAs(t, []float64{.2, .3, .4, .5, .6, .7, .8, .85, .9, .95}, setLoad, []row{
		{peer(t, "no retries"), []float64{2, 0, 2, 4, 6, 11, 21, 33, 51, 108}},
		{peer(t, "naive 3 retries"), []float64{1, 0, gone, gone, gone, gone, gone, gone, gone, gone}},
		{peer(t, "full jitter"), []float64{1, 0, gone, gone, gone, gone, gone, gone, gone, gone}},
		{peer(t, "budget 10 %"), []float64{1, 1, 2, 5, 9, 18, 42, 84, gone, gone}},
		{peer(t, "budget 20 %"), []float64{0, 0, 3, 6, 12, 27, 150, gone, gone, gone}},
		{peer(t, "success-funded 10 %"), []float64{2, 0, 1, 3, 7, 12, 23, 33, 54, 121}},
		{peer(t, "500-5-1"), []float64{2, 0, 6, 7, 11, 18, 32, 44, 72, 158}},
	}, func(client string, load float64) bool { return load == .6 && len(client) <= 15 })
}

// recovers requires a recovery time that the reference gives to the second,
// over ten seeds. The standard error of the reference is not known. It is large
// at a high load, because little capacity is spare.
func recovers(t *testing.T, s Scenario, c Client, seconds float64, format string, args ...any) {
	t.Helper()
	what := fmt.Sprintf(format, args...)
	seeds := nightly.Size(2, 10)
	r := run(t, s, seeds, c)[0]
	if seconds == gone {
		require.GreaterOrEqual(t, 10*r.Never, 8*seeds, what)
		return
	}
	require.LessOrEqual(t, 10*r.Never, 2*seeds, what)
	tolerance := 3*math.Hypot(r.Recovery.SE, 0.05*seconds) + 0.02*seconds + 2.5
	require.InDelta(t, seconds, r.Recovery.Mean, tolerance, what)
}

func TestDipLengthsOfTheReference(t *testing.T) {
	nightly.Long(t)
	often := func(_ string, length float64) bool { return length == 2 }
	recoverAs(t, []float64{1, 2}, setDip, []row{
		{peer(t, "naive 3 retries"), []float64{1, gone}},
		{peer(t, "full jitter"), []float64{1, gone}},
	}, often)
	recoverAs(t, []float64{2, 5, 20}, setDip, []row{{peer(t, "budget 10 %"), []float64{3, 17, 90}}}, often)
}

// The reference's breaker opens again only if five of ten probes fail, and the
// library's if one fails. So the library's is sometimes open for another 5 s.
func TestABreakerRecoversAtAnyLoadAndFromAnyDipInSeconds(t *testing.T) {
	recovery := func(s Scenario) float64 {
		r := run(t, s, nightly.Size(2, 10), peer(t, "breaker 50 %/5 s"))[0]
		require.Zero(t, r.Never)
		return r.Recovery.Mean
	}
	for load, reference := range map[float64]float64{.5: 8, .6: 7, .7: 7, .8: 6, .85: 6, .9: 6, .95: 7} {
		if s := Dip(); nightly.On || load == .9 {
			setLoad(&s, load)
			require.InDelta(t, reference, recovery(s), 7, "at a load of %v", load)
		}
	}
	for _, length := range []float64{1, 2, 5, 10, 20} {
		s := Dip()
		setDip(&s, length)
		require.LessOrEqual(t, recovery(s), 13.0, "after a dip of %v s", length)
	}
}

func TestFleetSizesOfTheReference(t *testing.T) {
	nightly.Long(t)
	recoverAs(t, []float64{1, 20, 200, 1000, 4000}, setProcesses, []row{
		{peer(t, "budget 10 %"), []float64{40, 42, 55, 116, gone}},
		{peer(t, "success-funded 10 %"), []float64{21, 23, 31, 71, gone}},
		{funded(1), []float64{21, 22, 22, 26, 41}},
		{peer(t, "500-5-1"), []float64{21, 32, 121, gone, gone}},
		{peer(t, "gRPC 10/0.1"), []float64{22, 22, 26, 42, 91}},
	}, func(client string, size float64) bool {
		return size == 200 && client != "500-5-1" && client != "gRPC 10/0.1"
	})
}

// funded returns a client with a success-funded budget.
func funded(capacity float64) Client {
	bucket := &TokenBucket{Ratio: .1, Capacity: capacity, PaidBySuccess: true}
	return NewClient(fmt.Sprintf("success-funded, cap %v", capacity), fullJitter(), capped(bucket), nil)
}

func TestServersOfTheReference(t *testing.T) {
	nightly.Long(t)
	names := []string{"no retries", "naive 3 retries", "full jitter", "budget 10 %"}
	for _, row := range []struct {
		server   string
		often    bool
		set      func(*Scenario)
		recovery []float64
	}{
		{"queue limit 500", true, func(s *Scenario) { s.Server.Limit = 500 }, []float64{.6, .5, .6, .7}},
		{"queue limit 5000", false, func(s *Scenario) { s.Server.Limit = 5000 }, []float64{21, gone, gone, 35}},
		{"dropping expired work", true, func(s *Scenario) { s.Server.DropExpired = true }, []float64{0, 20, gone, .2}},
	} {
		for i, name := range names {
			if nightly.On || row.often && name == "full jitter" {
				s := Dip()
				row.set(&s)
				recovers(t, s, peer(t, name), row.recovery[i], "%s, %s", row.server, name)
			}
		}
	}
}

func TestClosedLoopsOfTheReference(t *testing.T) {
	nightly.Long(t)
	for _, row := range []struct {
		think    time.Duration
		name     string
		recovery float64
	}{
		{time.Second, "no retries", 1.9}, {time.Second, "naive 3 retries", 7.8},
		{time.Second, "full jitter", 6.2}, {time.Second, "full jitter, base 1 s", 1.1},
		{5 * time.Second, "naive 3 retries", gone}, {5 * time.Second, "full jitter", gone},
		{5 * time.Second, "full jitter, base 1 s", gone}, {5 * time.Second, "budget 10 %", 14},
		{20 * time.Second, "naive 3 retries", gone}, {20 * time.Second, "full jitter", gone},
		{20 * time.Second, "budget 10 %", 28},
	} {
		if !nightly.On && row.think != time.Second {
			continue
		}
		recovers(t, ClosedDip(row.think), peer(t, row.name), row.recovery, "%s, users who think %v", row.name, row.think)
	}
}

// chain returns Chain. In a normal run it has a shorter fault and ends soon
// after it.
func chain(p float64) Scenario {
	s := Chain(p)
	if !nightly.On {
		s.Fault.For = 240 * time.Second
		s.From, s.To = 240*time.Second, 360*time.Second
		s.Horizon = 365 * time.Second
	}
	return s
}

func TestTheChainDoesToEveryPolicyWhatItDoesInTheReference(t *testing.T) {
	nightly.Long(t)
	rates := []float64{.01, .1, .5, 1}
	for _, row := range []struct {
		name     string
		calls    [4]float64
		success  [3]float64
		onset    float64
		recovery float64
	}{
		{"no retries", [4]float64{1, 1, 1, 1}, [3]float64{.9901, .8999, .5}, 1, 0},
		{"4 attempts per layer", [4]float64{1.01, 1.111, 2, 64}, [3]float64{1, 1, 1}, 64, 0},
		{"budget 10 % per layer", [4]float64{1.01, 1.111, 1.331, 1.331}, [3]float64{1, 1, .6653}, 1.36, 0},
		{"success-funded 10 %", [4]float64{1.01, 1.111, 1.176, 1}, [3]float64{1, 1, .5877}, 1.03, 0},
		{"500-5-1", [4]float64{1.01, 1.111, 1.953, 1}, [3]float64{1, 1, .9769}, 1.3, 0},
		{"gRPC 10/0.1", [4]float64{1.01, 1.061, 1, 1}, [3]float64{1, .9547, .5001}, 1.01, 0},
		{"adaptive K=2", [4]float64{1.01, 1.111, 2.001, .0001}, [3]float64{1, 1, 1}, 29.73, 761},
		{"adaptive K=2, reject <= 0.9", [4]float64{1.01, 1.111, 2.001, .0014}, [3]float64{1, 1, 1}, 29.73, 571},
		{"retry at top layer only", [4]float64{1.01, 1.111, 1.875, 4}, [3]float64{1, .9999, .9374}, 4, 0},
		{"retry at bottom layer only", [4]float64{1.01, 1.111, 1.874, 4}, [3]float64{1, .9999, .9377}, 4, 0},
		{"bottom only + budget 10 %", [4]float64{1.01, 1.098, 1.1, 1.1}, [3]float64{1, .9882, .5498}, 1.11, 0},
		{"mark on exhausted", [4]float64{1.01, 1.111, 1.876, 4}, [3]float64{1, .9999, .9375}, 4, 0},
		{"mark + budget 10 %", [4]float64{1.01, 1.098, 1.1, 1.1}, [3]float64{1, .9883, .5509}, 1.11, 0},
	} {
		for i, p := range rates {
			seeds := nightly.Size(1, 10)
			if !nightly.On && (p < .5 || row.recovery > 0) {
				continue
			}
			r := run(t, chain(p), seeds, named(t, References("chain"), row.name))[0]
			noise := nightly.Size(.015, .002)
			agree(t, want{row.calls[i], .001, 100}, r.Amplification[2], seeds, noise, "calls of %s at %v", row.name, p)
			if p < 1 {
				agree(t, want{row.success[i], .001, 100}, r.Success, seeds, noise, "success of %s at %v", row.name, p)
				continue
			}
			agree(t, want{row.onset, .01, 100}, r.Onset, seeds, .02, "onset of %s", row.name)
			if nightly.On {
				agree(t, want{row.recovery, max(.1, .03*row.recovery), 10}, r.Recovery, seeds, 5, "recovery of %s", row.name)
			}
		}
	}
}

// The library's breakers differ from the reference's by design. The purpose is
// the same.
func TestBreakersInTheChain(t *testing.T) {
	for _, name := range []string{"breaker 50 %/30 s", "default, no mark", "default"} {
		c := named(t, References("chain"), name)
		down := run(t, chain(1), 1, c)[0]
		require.Less(t, down.Amplification[2].Mean, .01, name)
		half := run(t, chain(.5), 1, c)[0]
		if name == "breaker 50 %/30 s" {
			require.Less(t, half.Success.Mean, .4, "at its own threshold a breaker does harm")
		} else {
			require.Greater(t, half.Success.Mean, .84, "%s: retries carry half, and nothing opens", name)
		}
	}
	retries := run(t, chain(1), 1, named(t, References("chain"), "breaker on retries only"))[0]
	require.InDelta(t, 1.008, retries.Amplification[2].Mean, .01)
}

func TestTheHerdIsServedAsInTheReference(t *testing.T) {
	names := []string{"constant 1 s", "exponential", "exponential ±50 %", "equal jitter", "full jitter", "decorrelated jitter"}
	for variant, rows := range map[string][6]struct{ wasted, se, peak, drain, drainSE float64 }{
		"A1": {{8365, 2, 1000, 18.26, 0}, {8365, 2, 1000, 122.96, 0}, {2139, 1, 994, 3.67, .05}, {2697, 1, 1000, 2.95, 0}, {2868, 1, 1176, 5.95, .09}, {1826, 2, 552, 3.59, .02}},
		"A2": {{12056, 2, 1000, 17.26, 0}, {12999, 2, 1000, 167.91, .05}, {5113, 1, 46, 9.38, .01}, {5639, 1, 70, 6.34, .01}, {6274, 1, 36, 9.72, .01}, {6847, 6, 76, 8.11, .05}},
		"A3": {{512, 1, 0, 5.02, 0}, {1027, 1, 0, 4.74, 0}, {852, 1, 0, 3.76, 0}, {1071, 1, 0, 4.46, 0}, {1155, 1, 0, 4.41, 0}, {450, 1, 0, 3.02, 0}},
		"A4": {{8365, 2, 1000, 18.26, 0}, {8367, 2, 1000, 155.26, 0}, {452, 1, 124, 4.44, 0}, {795, 1, 226, 6.54, .01}, {564, 1, 141, 6.72, .11}, {1, 0, 70, 3.53, .10}},
		"A5": {{36218, 5, 0, 16.2, .05}, {15852, 3, 0, 168, .5}, {}, {9220, 2, 0, 9.8, .05}, {11369, 3, 0, 9.7, .05}, {14597, 15, 0, 10, .01}},
		"A6": {{}, {4560, 3, 0, 51.6, .3}, {}, {}, {2659, 2, 0, 5.41, .1}, {1678, 2, 0, 3.59, .02}},
	} {
		seeds := nightly.Size(6, 200)
		s, base := Herd(), 100*ms
		switch variant {
		case "A2":
			s.Fault = Fault{For: 5 * time.Second, Down: true}
		case "A3":
			s.Server.Limit = 0
		case "A4":
			base = time.Second
		case "A5":
			s.Fault = Fault{For: 30 * time.Second, Down: true}
		case "A6":
			s.Delay, s.DelaySD = 25*ms, 10*ms
		}
		for i, name := range names {
			row := rows[i]
			if row.wasted == 0 || !nightly.On && i < 2 {
				continue
			}
			r := run(t, s, seeds, named(t, HerdReferences(base), name))[0]
			agree(t, want{row.wasted, row.se, 200}, r.Wasted, seeds, 1.5, "%s: wasted by %s", variant, name)
			agree(t, want{row.drain, max(row.drainSE, .005), 200}, r.Drain, seeds, .05, "%s: drain of %s", variant, name)
			if row.peak > 0 {
				agree(t, want{row.peak, 1, 200}, r.PeakArrivals, seeds, 1.5, "%s: peak of %s", variant, name)
			}
		}
	}
}

// If the waits of clients are equal, a recovering server gets a thousand attempts at once. With the
// zero Policy it gets no more than it can serve.
func TestTheZeroPolicyIsNoHerd(t *testing.T) {
	s, peers := Herd(), HerdReferences(100*ms)
	s.Fault = Fault{For: 5 * time.Second, Down: true}
	zero := NewClient("zero", backoff.Policy{MaxAttempts: -1}, nil, nil)
	r := run(t, s, nightly.Size(3, 50), named(t, peers, "constant 1 s"), named(t, peers, "exponential"), zero)
	require.Equal(t, 1000.0, r[0].PeakArrivals.Mean)
	require.Equal(t, 1000.0, r[1].PeakArrivals.Mean)
	require.Less(t, r[2].PeakArrivals.Mean, 60.0, "500 a second are 50 in 100 ms")
	require.Zero(t, r[2].Lost.Mean)
	require.Less(t, r[2].Wasted.Mean, .6*r[1].Wasted.Mean)
}

func TestTheHerdThatDoesNotWait(t *testing.T) {
	s, immediate := Herd(), HerdReferences(100 * ms)[0]
	r := run(t, s, nightly.Size(1, 10), immediate)[0]
	require.InEpsilon(t, 90022, r.Wasted.Mean, .01)
	require.InDelta(t, 2.01, r.Drain.Mean, .02)

	s.Server.Limit = 0
	r = run(t, s, 1, immediate)[0]
	require.InDelta(t, 504, r.Lost.Mean, 8, "a queue that is full of what nobody waits for serves half of them, ever")
	require.InEpsilon(t, 302664, r.Wasted.Mean, .01)
}

// The formula is that of docs/results/simulation.md.
func TestRecoveriesAreWhatTheClosedFormSays(t *testing.T) {
	nightly.Long(t)
	for _, c := range []struct {
		name                 string
		ratio, reserve, most float64
	}{
		{"no retries", 0, 0, 20}, {"budget 10 %", .1, 10, 41.7}, {"budget 20 %", .2, 10, 145},
		{"success-funded 10 %", 0, 10, 21}, {"500-5-1", 0, 100, 30},
	} {
		const rate, capacity, dip, timeout, processes, length = 800.0, 1000.0, 300.0, 1.0, 20.0, 10.0
		formula := ((rate*(1+c.ratio)-dip)*length + processes*c.reserve - capacity*timeout) / (capacity - rate*(1+c.ratio))
		require.InEpsilon(t, c.most, formula, .02, "the formula itself")
		if !nightly.On && c.ratio == .2 {
			continue
		}
		r := run(t, Dip(), nightly.Size(3, 20), peer(t, c.name))[0]
		require.InDelta(t, formula, r.Recovery.Mean, 3*r.Recovery.SE+.05*formula+1.5, c.name)
	}
}

func TestChainsAreWhatTheClosedFormsSay(t *testing.T) {
	const attempts, layers = 4, 3
	for _, p := range []float64{.3, .5, .7, 1} {
		r := run(t, chain(p), 1, named(t, References("chain"), "4 attempts per layer"))[0]
		hops := make([]float64, layers) // attempts per call of a layer, from the leaf up
		f := p
		for i := range hops {
			hops[i] = attempts
			if f < 1 {
				hops[i] = (1 - math.Pow(f, attempts)) / (1 - f)
			}
			f = math.Pow(f, attempts)
		}
		calls := 1.0
		for i := range hops {
			calls *= hops[layers-1-i]
			require.InEpsilon(t, calls, r.Amplification[i].Mean, .02, "hop %d at %v", i, p)
		}
		require.InDelta(t, 1-f, r.Success.Mean, .01)
	}
	single := func(name string, p float64) float64 {
		s := chain(p)
		s.Layers = 1
		return run(t, s, nightly.Size(1, 5), named(t, References("chain"), name))[0].Amplification[0].Mean - 1
	}
	for _, p := range []float64{.4, .5, .9} {
		require.InDelta(t, (1-p)/(5*p), single("500-5-1", p), .01, "500-5-1, drained, at %v", p)
		require.InDelta(t, .1*(1-p)/(1-.1*(1-p)), single("success-funded 10 %", p), .01, "success-funded at %v", p)
	}
	require.InDelta(t, 1.1*1.1*1.1, run(t, chain(.9), 1, named(t, References("chain"), "budget 10 % per layer"))[0].Amplification[2].Mean, .02)
}

// With a budget in each layer, the last service
// of a chain gets at most 1.1 times the load.
func TestTheDefaultsKeepTheirPromises(t *testing.T) {
	ours := run(t, Dip(), nightly.Size(2, 20), libraryClients()...)
	for _, r := range ours {
		require.Zero(t, r.Never, r.Client)
	}
	require.Less(t, ours[1].Recovery.Mean, 30.0, "%s", ours[1].Client)
	require.Less(t, ours[3].Recovery.Mean, 15.0, "%s", ours[3].Client)

	for _, name := range []string{"RetryBudget, no mark", "default, Breaker at the top layer, no mark"} {
		c := named(t, References("chain"), name)
		require.LessOrEqual(t, run(t, chain(1), 1, c)[0].Amplification[2].Mean, 1.1, name)
		require.GreaterOrEqual(t, run(t, chain(.5), 1, c)[0].Success.Mean, .55, name)
	}
	marked := run(t, chain(1), 1, named(t, References("chain"), "RetryBudget"))[0]
	require.LessOrEqual(t, marked.Amplification[2].Mean, 1.1)
}

func TestScenariosThatCannotBeAreRefusedByTheirField(t *testing.T) {
	for want, change := range map[string]func(*Scenario){
		"0 of -rate, -every, -users and -trace": func(s *Scenario) { s.Rate = 0 },
		"2 of -rate, -every, -users and -trace": func(s *Scenario) { s.Users = 1 },
		"-rate is -1":                           func(s *Scenario) { s.Rate = -1 },
		"-rate is NaN":                          func(s *Scenario) { s.Rate = math.NaN() },
		"-every is -1s":                         func(s *Scenario) { s.Rate, s.Every = 0, -time.Second },
		"-users is -1":                          func(s *Scenario) { s.Rate, s.Users = 0, -1 },
		"-calls is -1":                          func(s *Scenario) { s.Rate, s.Users, s.Calls = 0, 1, -1 },
		"-calls is 1, want 0 (for no limit) or more, and only with -users": func(s *Scenario) { s.Calls = 1 },
		"-think is -1s":                               func(s *Scenario) { s.Think = -time.Second },
		"are more than 100000000 calls":               func(s *Scenario) { s.Rate = 1e7 },
		"-trace is empty, want calls":                 func(s *Scenario) { s.Rate, s.Trace = 0, Trace{} },
		"-trace, line 2 is {1s 0s 1}":                 func(s *Scenario) { s.Rate, s.Trace = 0, Trace{{0, 2 * time.Second, 1}, {time.Second, 0, 1}} },
		"-processes is -1":                            func(s *Scenario) { s.Processes = -1 },
		"-layers is 33":                               func(s *Scenario) { s.Layers = 33 },
		"-timeout is -1s":                             func(s *Scenario) { s.Timeout = -time.Second },
		"-deadline is -1s":                            func(s *Scenario) { s.Deadline = -time.Second },
		"-delay-sd is -1s":                            func(s *Scenario) { s.DelaySD = -time.Second },
		"Server.Servers is -2":                        func(s *Scenario) { s.Server.Servers = -2 },
		"-service is -1s":                             func(s *Scenario) { s.Server.Service = Exact(-time.Second) },
		"-queue is -1":                                func(s *Scenario) { s.Server.Limit = -1 },
		"-limit is -1, want 0 (for no limit) or more": func(s *Scenario) { s.Server.Rate = -1 },
		"-limit is NaN":                               func(s *Scenario) { s.Server.Rate = math.NaN() },
		"-burst is -1, want 0 (for 1) or more":        func(s *Scenario) { s.Server.Burst = -1 },
		"-reject-cost is -1":                          func(s *Scenario) { s.Server.RejectCost = -1 },
		"-retry-after is -1s":                         func(s *Scenario) { s.Server.RetryAfter = -time.Second },
		"-errors is 1.5":                              func(s *Scenario) { s.Server.Errors = 1.5 },
		"-fault-at is -1s":                            func(s *Scenario) { s.Fault.From = -time.Second },
		"-fault is -1s":                               func(s *Scenario) { s.Fault.For = -time.Second },
		"-depth is 2":                                 func(s *Scenario) { s.Fault.Capacity = 2 },
		"-fault-errors is NaN":                        func(s *Scenario) { s.Fault.Errors = math.NaN() },
		"-fault-at + -fault is 5m0s, want less than the -horizon of 4m0s": func(s *Scenario) { s.Fault.From = 290 * time.Second },
		"-horizon is 0s":         func(s *Scenario) { s.Horizon, s.Fault = 0, Fault{} },
		"Until is -1s":           func(s *Scenario) { s.Until = -time.Second },
		"From and To is [2s 1s]": func(s *Scenario) { s.From, s.To = 2*time.Second, time.Second },
		"Recovered is 90":        func(s *Scenario) { s.Recovered = 90 },
	} {
		s := Dip()
		change(&s)
		require.ErrorContains(t, s.Validate(), want)
		_, err := Compare(s, []Client{None()}, Options{Seeds: 1})
		require.ErrorContains(t, err, want)
	}
}
