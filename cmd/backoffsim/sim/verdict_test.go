package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/cmd/backoffsim/internal/foreign"
	"github.com/gobackoff/backoff/presets"
)

var passing = Result{
	Client: "mine", Seeds: 10, Calls: 1000, Success: Figure{Mean: .95}, Recovery: Figure{Mean: 12.3}, Slowest: 14,
	Amplification: []Figure{{Mean: 1}, {Mean: 1.2}}, Peak: []Figure{{Mean: 1}, {Mean: 2}},
}

func TestAResultWithinTheGatesPasses(t *testing.T) {
	require.Empty(t, Gates{}.Check(passing))
	require.Empty(t, Gates{MaxAmplification: 1.2, MustRecover: 14 * time.Second, MinSuccess: .95}.Check(passing))
	require.NoError(t, Gates{MaxAmplification: 1.2, MustRecover: 14 * time.Second, MinSuccess: .95}.Validate())
}

func TestGatesNameWhatExceedsThem(t *testing.T) {
	g := Gates{MaxAmplification: 1.1, MustRecover: 13 * time.Second, MinSuccess: .99}
	require.Equal(t, []string{
		"mine: amplification 1.20x > 1.10x",
		"mine: recovers in up to 14s > 13s",
		"mine: success 95.00 % < 99.00 %",
	}, g.Check(passing))
	never := passing
	never.Never = 3
	require.Equal(t, []string{"mine: never recovers in 3 of 10 seeds, and must within 1m0s"}, Gates{MustRecover: time.Minute}.Check(never))
	require.Empty(t, Gates{MinSuccess: .5}.Check(never))
	require.ErrorContains(t, Gates{MinSuccess: 99}.Validate(), "-min-success is 99, want 0 (for no limit) to 1")
	require.ErrorContains(t, Gates{MustRecover: -1}.Validate(), "-must-recover")
	require.ErrorContains(t, Gates{MaxAmplification: -1}.Validate(), "-max-amplification")
}

func TestAVerdictIsALine(t *testing.T) {
	require.Equal(t, "mine: recovers from a 10s dip to 30 % of capacity at 80 % load in 12.3 s; success 95.0 %, amplification 1.20x, at worst 2.00x in a second", Verdict(Dip(), passing))
	gone := passing
	gone.Never = 10
	require.Contains(t, Verdict(Dip(), gone), "mine: never recovers from a 10s dip to 30 % of capacity at 80 % load;")
	gone.Never = 1
	require.Contains(t, Verdict(Dip(), gone), "does not recover from a 10s dip to 30 % of capacity at 80 % load in 1 of 10 seeds")
	require.Contains(t, Verdict(Chain(.5), passing), "recovers from 10m0s of 50 % errors in 12.3 s")
	herd := Herd()
	herd.Fault = Fault{For: 5 * time.Second, Down: true}
	drained := passing
	drained.Drain = Figure{Mean: 6.34}
	require.Contains(t, Verdict(herd, drained), "mine: answers all 1000 calls that had failed together, in an outage of 5s, the last after 6.3 s; success")
	drained.Lost = Figure{Mean: 9.2}
	require.Equal(t, "mine: does not answer 9 of 1000 calls that had failed together, in an outage of 5s; success 95.0 %, amplification 1.20x", Verdict(herd, drained))
	require.Contains(t, Verdict(Scenario{Rate: 1, Horizon: time.Second}, passing), "no fault")
}

func TestWarningsNameProblemsThatNeedNoRun(t *testing.T) {
	limited := Dip()
	limited.Server.Limit = 500
	many := limited
	many.Processes = 4000
	herd := Herd()
	fleet := herd
	fleet.Processes = 1000
	long := limited
	long.Server.Limit = 5000
	full := limited
	full.Rate = 1100
	finagle := func() backoff.Budget { return foreign.NewFinagle() }
	impatient := NewClient("impatient", backoff.Policy{AttemptTimeout: 250 * time.Millisecond}, nil, nil)
	for want, lines := range map[string][]string{
		"a load of 80 % x (1 + 3 retries per call) = 320 % of capacity":                                        Warnings(limited, Naive()),
		"a load of 80 % x (1 + 0.25 retries per call) = 100 % of capacity":                                     Warnings(limited, NewClient("b", backoff.Policy{}, requestFunded(.25), nil)),
		"the load is 110 % of capacity without any retry":                                                      ServiceWarnings(full),
		"grants some: 20 processes x 10 retries per second = 200 per second, and 200":                          Warnings(limited, NewClient("f", backoff.Policy{}, finagle, nil)),
		"saves some up: 4000 processes x 10 retries = 40000 attempts":                                          Warnings(many, NewClient("r", backoff.Policy{}, successFunded(.1), nil)),
		"the first retries of 1000 calls that fail together come within 100ms, and the service needs 2s":       Warnings(herd, HerdReferences(100 * ms)[5]),
		"3 layers make up to 64 attempts":                                                                      Warnings(Chain(1), References("chain")[1]),
		"a process makes 2 calls in 10s, and the rate of failures wants 20; only consecutive failures open it": Warnings(many, Default()),
		"a process makes 1 calls in 10s":                                                                       Warnings(fleet, Default()),
		"it never opens":                                                                                       Warnings(many, NewClient("b", backoff.Policy{}, nil, rateBreaker(time.Second))),
		"the queue of the service has no limit: with more than 1000 in it":                                     ServiceWarnings(Dip()),
		"with more than 250 in it, the service works for attempts that have timed out after 250ms":             Warnings(Dip(), impatient),
		"in a full queue of 5000 attempts wait 5s, and they time out after 1s":                                 ServiceWarnings(long),
	} {
		found := false
		for _, line := range lines {
			found = found || strings.Contains(line, want)
		}
		require.True(t, found, "%q in %q", want, lines)
	}
}

func TestThereAreNoWarningsWithoutAProblem(t *testing.T) {
	s := Dip()
	s.Server.Limit = 500
	s.Deadline = time.Minute
	require.Empty(t, Warnings(s, Default()))
	require.Empty(t, Warnings(s, None()))
	require.Empty(t, Warnings(Chain(.5), Default()))
	forever := NewClient("for ever", backoff.Policy{MaxAttempts: -1}, retryBudget, nil)
	require.Empty(t, Warnings(s, forever))
	require.Empty(t, ServiceWarnings(s))
	require.Empty(t, ServiceWarnings(Chain(.5)))
	require.Empty(t, ServiceWarnings(Herd()), "a herd has no load")
}

func TestTheAllowanceOfEveryPresetBudgetIsKnown(t *testing.T) {
	for name, b := range foreign.Budgets() {
		f := allowanceOf(&Process{Policy: backoff.Policy{Budget: b}})
		require.Equal(t, name != "aws-adaptive", f.known, name) // joined budgets do not show their parts
	}
	require.Equal(t, allowance{ratio: .2, floor: 10, known: true}, allowanceOf(&Process{Policy: backoff.Policy{Budget: foreign.NewFinagle()}}))
	require.Equal(t, 100.0, allowanceOf(&Process{Policy: backoff.Policy{Budget: presets.NewAWSQuota()}}).reserve)
}

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
