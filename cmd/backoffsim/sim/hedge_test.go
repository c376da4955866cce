package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/hedge"
)

// hedging returns a client with the given hedge.
func hedging(h func() *hedge.Hedge) Client {
	return Client{Name: "hedge", New: func(Environment) Process { return Process{Hedge: h()} }}
}

// longTailed returns a scenario in which a few attempts take much longer than
// the others, at random.
func longTailed(t *testing.T) Scenario {
	t.Helper()
	service, err := LogNormal(10*time.Millisecond, 200*time.Millisecond)
	require.NoError(t, err)
	return Scenario{Rate: 100, Server: Server{Servers: 1000, Service: service}, Horizon: 300 * time.Second, From: 30 * time.Second}
}

func TestAHedgeCutsTheTailForAFewPercentMore(t *testing.T) {
	s := longTailed(t)
	r := run(t, s, 2, None(), Hedging())
	require.InDelta(t, 0, r[0].AddedP99.Mean, .02)
	require.Less(t, r[1].AddedP99.Mean, -.05, "of the 200 ms that the service itself takes")
	require.InDelta(t, 1.05, r[1].Amplification[0].Mean, .012)
	require.Equal(t, 1.0, r[1].Success.Mean)
}

func TestAHedgeWithAFixedDelayIsSentThen(t *testing.T) {
	s := Scenario{Every: time.Second, Server: Server{Servers: 10, Service: Exact(100 * time.Millisecond)}, Horizon: 10 * time.Second}
	at := func(h *hedge.Hedge) Result { return run(t, s, 1, hedging(func() *hedge.Hedge { return h }))[0] }
	fast := at(&hedge.Hedge{Delay: 150 * time.Millisecond})
	require.Equal(t, 10, fast.Attempts)
	slow := at(&hedge.Hedge{Delay: 40 * time.Millisecond, MaxAttempts: 3, MaxExtraLoad: -1})
	require.Equal(t, 30, slow.Attempts)
	require.InDelta(t, .1, slow.Mean.Mean, 1e-9, "the first attempt wins")
	all := at(&hedge.Hedge{Delay: -1, MaxAttempts: 4, MaxExtraLoad: -1})
	require.Equal(t, 40, all.Attempts)
}

func TestAHedgeIsNotSentWhereItWouldHurt(t *testing.T) {
	s := Dip()
	s.Horizon = 120 * time.Second
	r := run(t, s, 1, Hedging())[0]
	require.Zero(t, r.Never)
	require.Less(t, r.Peak[0].Mean, 1.3, "successes pay for hedges, and there are none")
}

func TestWhatAHedgeSendsAfterAFailureIsARetry(t *testing.T) {
	s := lone(0)
	r := run(t, s, 1, hedging(func() *hedge.Hedge { return &hedge.Hedge{MaxAttempts: 3, MaxExtraLoad: -1} }))[0]
	require.Equal(t, 3.0, r.Amplification[0].Mean)
	require.Zero(t, r.Success.Mean)
}

func TestAHedgeMindsTheDeadlineTheNetworkAndTheBreaker(t *testing.T) {
	s := lone(time.Second)
	s.Delay, s.Timeout = 10*time.Millisecond, 500*time.Millisecond
	fixed := func() *hedge.Hedge { return &hedge.Hedge{Delay: 100 * time.Millisecond, MaxExtraLoad: -1} }
	require.Equal(t, 2.0, run(t, s, 1, hedging(fixed))[0].Amplification[0].Mean)
	s.Deadline = 150 * time.Millisecond
	require.Equal(t, 1.0, run(t, s, 1, hedging(fixed))[0].Amplification[0].Mean, "no time is left for another")

	s = Scenario{Every: 10 * time.Millisecond, Horizon: 30 * time.Second, Server: Server{Errors: 1}}
	c := Client{Name: "both", New: func(Environment) Process {
		return Process{Hedge: fixed(), Guard: GuardAttempts, Breaker: &backoff.Breaker{OpenFor: backoff.Constant(time.Hour), Jitter: backoff.NoJitter, ConsecutiveFailures: -1}}
	}}
	require.Equal(t, 20, run(t, s, 1, c)[0].Attempts)
}

func TestHedgesThatCannotBeSimulatedAreRefused(t *testing.T) {
	for want, h := range map[string]*hedge.Hedge{
		"Hedge.MaxExtraLoad is 2":                      {MaxExtraLoad: 2},
		"Hedge.Budget is simulated only if it is a Re": {Budget: new(TokenBucket)},
	} {
		_, err := Compare(lone(0), []Client{hedging(func() *hedge.Hedge { return h })}, Options{})
		require.ErrorContains(t, err, want)
	}
	s := lone(0)
	s.Layers = 2
	_, err := Compare(s, []Client{Hedging()}, Options{})
	require.ErrorContains(t, err, "only in the layer that calls the service")
}
