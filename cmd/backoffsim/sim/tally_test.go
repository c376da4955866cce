package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

// patient never gives up.
var patient = exactly(backoff.Policy{
	MaxAttempts: -1, MaxElapsed: -1,
	Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter,
})

// outage returns a scenario with ten calls a second for a minute. The service
// is down from the tenth second on.
func outage() Scenario {
	return Scenario{
		Every: 100 * time.Millisecond, Horizon: time.Minute,
		Server: Server{Service: Exact(10 * time.Millisecond)},
		Fault:  Fault{From: 10 * time.Second, For: 55 * time.Second, Down: true},
	}
}

func TestACallUnderWayAtTheEndIsLost(t *testing.T) {
	s := outage()
	s.Fault.For = 50*time.Second - 1
	r := run(t, s, 1, patient)[0]
	require.Equal(t, 490, r.Calls, "calls that begin in the outage, but for the last second")
	require.Zero(t, r.Success.Mean)
	require.Equal(t, 490.0, r.Lost.Mean)
	require.InDelta(t, 25, r.AddedP50.Mean, 1, "half of the calls have waited for 25 s and more")
	require.Greater(t, r.P99.Mean, 45.0)
	require.Equal(t, 490.0, r.Series[59].Lost, "the chart shows them at the end")
	require.Equal(t, []string{"exactly: success 0.00 % < 50.00 %"}, Gates{MinSuccess: .5}.Check(r))
}

func TestACallUnderWayAtTheEndOfTheWindowIsLostInIt(t *testing.T) {
	s := outage()
	s.Fault.For = 30 * time.Second
	s.From, s.To = 10*time.Second, 30*time.Second
	r := run(t, s, 1, patient)[0]
	require.Equal(t, 190, r.Calls)
	require.Zero(t, r.Success.Mean)
	require.Equal(t, 190.0, r.Lost.Mean)

	s.To = 0
	r = run(t, s, 1, patient)[0]
	require.Equal(t, 1.0, r.Success.Mean, "what has just begun is not held against it")
}

func TestUsersWhoAllWaitHaveNotRecovered(t *testing.T) {
	s := outage()
	s.Every, s.Users, s.Think = 0, 10, 100*time.Millisecond
	s.Fault.For = 20 * time.Second
	late := exactly(backoff.Policy{
		MaxAttempts: -1, MaxElapsed: -1,
		Schedule: backoff.Constant(time.Hour), MaxDelay: time.Hour, Jitter: backoff.NoJitter,
	})
	r := run(t, s, 1, late)[0]
	require.Equal(t, 1, r.Never)
	require.Equal(t, 10.0, r.Lost.Mean)
}

func TestAGateHoldsNothingAgainstARunWithoutCalls(t *testing.T) {
	s := outage()
	s.Fault.For = time.Second
	s.Until = 5 * time.Second
	r := run(t, s, 1, patient)[0]
	require.Zero(t, r.Calls)
	require.Equal(t, []string{"exactly: there was no call to hold against a gate"}, Gates{MaxAmplification: 10}.Check(r))
	require.Empty(t, Gates{}.Check(r))
}
