package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/nightly"
)

// The tests of this file hold what docs/results/simulation.md says of breakers.

// A circuit stays open a fifth longer each time: an outage costs hardly more
// attempts than with waits that double, and its end is noticed far earlier.
func TestTheDefaultBreakerNoticesTheEndOfAnOutageInTime(t *testing.T) {
	nightly.Long(t)
	doubling := NewClient("doubling", backoff.Policy{}, retryBudget, func() *backoff.Breaker {
		return &backoff.Breaker{OpenFor: backoff.Exponential{Initial: 5 * time.Second, Max: time.Minute}}
	})
	for _, c := range []struct {
		name      string
		processes int
		fault     Fault
		costs     float64 // times the attempts that are wasted with waits that double
	}{
		{"dip", 20, Fault{For: 10 * time.Second, Capacity: 0.3}, 1.5},
		{"dip, many processes", 1000, Fault{For: 10 * time.Second, Capacity: 0.3}, 1.3},
		{"long dip", 200, Fault{For: 30 * time.Second, Capacity: 0.3}, 2},
		{"outage", 20, Fault{For: time.Minute, Down: true}, 2},
		{"outage, many processes", 1000, Fault{For: time.Minute, Down: true}, 3.1},
	} {
		if c.processes != 20 && !nightly.On {
			continue
		}
		s := Dip()
		c.fault.From = s.Fault.From
		s.Processes, s.Fault = c.processes, c.fault
		r := run(t, s, 3, Default(), doubling)
		require.Zero(t, r[0].Never, c.name)
		require.Less(t, r[0].Recovery.Mean, r[1].Recovery.Mean, c.name)
		require.Greater(t, r[0].Success.Mean, r[1].Success.Mean-0.002, c.name)
		require.LessOrEqual(t, r[0].Wasted.Mean, c.costs*r[1].Wasted.Mean, c.name)
	}
}

// The peer has no budget, and opens for 5 s each time.
func TestTheDefaultIsAsGoodInTheDipAsTheBestPeer(t *testing.T) {
	for _, processes := range nightly.Size([]int{20}, []int{20, 1000}) {
		for _, rate := range nightly.Size([]float64{900}, []float64{800, 900}) {
			s := Dip()
			s.Processes, s.Rate = processes, rate
			r := run(t, s, 3, Default(), named(t, References("dip"), "breaker 50 %/5 s"))
			require.GreaterOrEqual(t, r[0].Success.Mean, r[1].Success.Mean, "%d processes, %v/s", processes, rate)
			require.Less(t, r[0].Wasted.Mean, r[1].Wasted.Mean/2, "%d processes, %v/s", processes, rate)
		}
	}
}

func TestNoGuardWinsInAllPartialOutages(t *testing.T) {
	clients := []Client{Default(), named(t, References("dip"), "Policy + RetryBudget"), throttled()}
	const breaker, budget, throttle = 0, 1, 2
	success := func(processes int, f Fault) (of [3]float64, attempts [3]int) {
		s := Dip()
		f.From, f.For = s.Fault.From, time.Minute
		s.Processes, s.Fault, s.Horizon = processes, f, 2*time.Minute
		for i, r := range run(t, s, 1, clients...) {
			of[i], attempts[i] = r.Success.Mean, r.Attempts
		}
		return of, attempts
	}
	for _, processes := range nightly.Size([]int{20}, []int{20, 1000}) {
		for _, f := range []Fault{{Down: true, Part: 0.1}, {Errors: 0.3}} {
			got, _ := success(processes, f)
			require.InDelta(t, got[budget], got[breaker], 0.01, "what the breaker costs: %+v", f)
			require.InDelta(t, got[budget], got[throttle], 0.01, "what the throttle costs: %+v", f)
		}
		most, _ := success(processes, Fault{Down: true, Part: 0.6})
		require.Greater(t, most[budget], most[throttle])
		require.Greater(t, most[throttle], most[breaker])
		require.Greater(t, most[breaker], 0.0)

		_, attempts := success(processes, Fault{Down: true})
		require.Less(t, attempts[breaker], attempts[throttle])
		require.Less(t, attempts[throttle], attempts[budget])
	}
}

// A call needs the same part for all of its attempts.
func TestAPartOfTheServiceIsDownForItsOwnCallsOnly(t *testing.T) {
	s := Dip()
	s.Fault = Fault{From: 30 * time.Second, For: time.Minute, Down: true, Part: 0.25}
	s.From, s.To = 30*time.Second, 85*time.Second
	r := run(t, s, 1, Naive(), Hedging())
	require.InDelta(t, 0.75, r[0].Success.Mean, 0.01, "retries do not help")
	require.InDelta(t, 0.75+4*0.25, r[0].Amplification[0].Mean, 0.02)
	require.InDelta(t, 0.75, r[1].Success.Mean, 0.01, "nor does a second attempt")

	for _, f := range []Fault{{For: 1, Part: 0.5}, {For: 1, Down: true, Part: -1}, {For: 1, Down: true, Part: 1.1}} {
		s.Fault = f
		require.ErrorContains(t, s.Validate(), "-part")
	}
}
