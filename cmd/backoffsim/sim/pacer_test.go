package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/nightly"
)

// The tests of this file hold what docs/simulation.md says of pace.Pacer, the
// budget of each host of a Transport.

// job returns RateLimit with the given workers, whose API asks for a wait.
func job(workers int, hint time.Duration) Scenario {
	s := RateLimit()
	s.Users, s.Server.RetryAfter = workers, hint
	return s
}

func TestAJobLosesNothingToARateLimit(t *testing.T) {
	for _, workers := range []int{10, 50} {
		for _, hint := range []time.Duration{0, time.Second} {
			s, what := job(workers, hint), fmt.Sprintf("%d workers, hint of %v", workers, hint)
			r := run(t, s, nightly.Size(2, 20), HTTPDefault(), named(t, References("ratelimit"), "go-retryablehttp"))
			require.GreaterOrEqual(t, r[0].Success.Mean, 0.9999, what)
			require.LessOrEqual(t, r[0].Drain.Mean, 1.15*s.LeastTime().Seconds(), what)
			require.LessOrEqual(t, r[0].Throttled.Mean, .15, what)

			require.LessOrEqual(t, r[0].Drain.Mean, r[1].Drain.Mean, "%s: the peer", what)
			require.Less(t, r[0].Throttled.Mean, r[1].Throttled.Mean, "%s: the peer", what)
		}
	}
}

// lying returns Lying with the given fleet and load. In a normal run it ends
// sooner.
func lying(processes int, load float64) Scenario {
	s := Lying()
	s.Processes, s.Rate = processes, 1000*load
	s.Horizon = nightly.Size(100*time.Second, s.Horizon)
	return s
}

// believes requires that a service that answers "too much" because it is
// overloaded serves a Pacer at least as much as a RetryBudget, and recovers
// hardly later, each alone and inside a Breaker.
func believes(t *testing.T, s Scenario, what string, args ...any) {
	t.Helper()
	what = fmt.Sprintf(what, args...)
	budget := named(t, References("dip"), "Policy + RetryBudget")
	for _, pair := range nightly.Size([][2]Client{{budget, HTTPDefault()}}, [][2]Client{{budget, paced()}, {budget, HTTPDefault()}, {Default(), HTTPDefault()}}) {
		r := run(t, s, nightly.Size(1, 3), pair[0], pair[1])
		base, pacer := r[0], r[1]
		require.Zero(t, pacer.Never, what)
		require.GreaterOrEqual(t, pacer.Success.Mean, base.Success.Mean, "%s, %s", pacer.Client, what)
		require.LessOrEqual(t, pacer.Recovery.Mean, max(1.2*base.Recovery.Mean, base.Recovery.Mean+8), "%s, %s", pacer.Client, what)
		require.Less(t, pacer.Onset.Mean, base.Onset.Mean, "%s, %s: what the overloaded service gets", pacer.Client, what)
	}
}

func TestAnOverloadedServerThatSaysTooMuchIsHelped(t *testing.T) {
	for _, c := range []struct {
		processes int
		load      float64
		often     bool // also in the small run
	}{
		{20, .8, false}, {20, .9, true}, {200, .8, true}, {200, .9, false},
		{1000, .8, false}, {1000, .9, true}, {4000, .8, true}, {4000, .9, false},
		{1, .9, true}, {20000, .9, false},
	} {
		if c.often || nightly.On {
			believes(t, lying(c.processes, c.load), "%d processes at a load of %v", c.processes, c.load)
		}
	}
	if nightly.On {
		hint := lying(1000, .8)
		hint.Server.RetryAfter = time.Second
		believes(t, hint, "a server that asks for a second")

		long := lying(200, .8)
		long.Fault.For, long.Horizon = 60*time.Second, 300*time.Second
		believes(t, long, "a dip of a minute")
	}
}

func TestWithoutThrottlingAPacerIsItsRetryBudget(t *testing.T) {
	atOnce := backoff.Policy{Schedule: backoff.Constant(0)}
	half, down, short := chain(.5), chain(1), Dip()
	short.Server.Limit = 500 // rejects, and does not call it "too much"
	for _, c := range []struct {
		name     string
		scenario Scenario
		policy   backoff.Policy
	}{
		{"dip", Dip(), backoff.Policy{}}, {"short queue", short, backoff.Policy{}},
		{"half of the chain", half, atOnce}, {"all of the chain", down, atOnce},
	} {
		r := run(t, c.scenario, nightly.Size(1, 5), NewClient("", c.policy, retryBudget, nil), NewClient("", c.policy, newPacer, nil))
		require.Equal(t, r[0], r[1], c.name)
	}
}

func TestAnOutageIsAsCheapWithAPacer(t *testing.T) {
	const began = 600 * time.Millisecond // after 300 successes
	for _, budget := range []func() backoff.Budget{retryBudget, newPacer} {
		fleet := Fleet{Budget: budget, Every: 2 * time.Millisecond}
		all := Total(fleet.Run(1, &Faulty{Failing: Within(began, time.Hour, 1), Latency: time.Millisecond}, began+4*time.Second))
		t.Logf("%T: %.4f attempts per call", budget(), amplification(all))
		require.LessOrEqual(t, amplification(all), 1.03)
	}
}
