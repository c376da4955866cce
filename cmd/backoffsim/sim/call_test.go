package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

// lone returns a scenario with a call a minute, all of whose attempts fail.
func lone(latency time.Duration) Scenario {
	return Scenario{
		Every: time.Minute, Horizon: 10 * time.Minute,
		Server: Server{Service: Exact(latency), Errors: 1},
	}
}

// exactly returns a client with the given policy without jitter.
func exactly(p backoff.Policy) Client {
	p.Jitter = backoff.NoJitter
	return NewClient("exactly", p, nil, nil)
}

func TestWaitsAndAttemptsTakeTheirTime(t *testing.T) {
	s := lone(10 * time.Millisecond)
	s.Server.Errors = 0
	s.Fault = Fault{For: 600 * time.Millisecond, Down: true}
	s.Until = time.Second
	r := run(t, s, 1, exactly(backoff.Policy{}))[0]
	require.InDelta(t, .710, r.Mean.Mean, 1e-9, "100 + 200 + 400 ms, and an attempt")
	require.Equal(t, 4, r.Attempts)
	require.Equal(t, 3.0, r.Wasted.Mean)
}

func TestADeadlineEndsTheCallInEveryLayer(t *testing.T) {
	s := lone(10 * time.Millisecond)
	s.Layers = 3
	for deadline, attempts := range map[time.Duration]float64{
		5 * time.Millisecond:   1, // within the attempt
		100 * time.Millisecond: 1, // the retry would come too late
		200 * time.Millisecond: 2,
		400 * time.Millisecond: 3,
		time.Second:            4,
	} {
		s.Deadline = deadline
		r := run(t, s, 1, exactly(backoff.Policy{}))[0]
		require.Equal(t, attempts, r.Amplification[2].Mean, "deadline %v", deadline)
		require.Equal(t, 1.0, r.Amplification[0].Mean, "deadline %v: what gave up is permanent to the layers above", deadline)
		require.Zero(t, r.Success.Mean)
	}
}

func TestAnAttemptTimeoutOfALayerEndsTheCallsBelow(t *testing.T) {
	s := lone(0)
	s.Server = Server{Service: Exact(10 * time.Second)}
	s.Layers = 2
	outer := Client{Name: "timed", New: func(env Environment) Process {
		policy := backoff.Policy{Jitter: backoff.NoJitter}
		if env.Layer == 1 {
			policy.AttemptTimeout = time.Second
		}
		return Process{Policy: policy}
	}}
	r := run(t, s, 1, outer)[0]
	require.Equal(t, 4.0, r.Amplification[0].Mean, "an attempt that timed out is repeated")
	require.Equal(t, 4.0, r.Amplification[1].Mean, "and what it waited for is not")
}

func TestAnAttemptTimeoutGrowsWithItsSchedule(t *testing.T) {
	s := lone(0)
	s.Server = Server{Servers: 10, Service: Exact(35 * time.Millisecond)}
	p := backoff.Policy{Schedule: backoff.Constant(0), AttemptTimeoutSchedule: backoff.Linear{Initial: 10 * time.Millisecond}}
	r := run(t, s, 1, exactly(p))[0]
	require.Equal(t, 1.0, r.Success.Mean)
	require.InDelta(t, .095, r.Mean.Mean, 1e-9, "10 + 20 + 30 ms, and the fourth attempt within 40")

	s.Timeout = 20 * time.Millisecond
	require.Zero(t, run(t, s, 1, exactly(p))[0].Success.Mean, "the shorter of the two counts")

	s.Timeout = 0
	p.MaxElapsed = 90 * time.Millisecond
	r = run(t, s, 1, exactly(p))[0]
	require.Zero(t, r.Success.Mean, "30 ms are left for the fourth attempt")
	p.MaxElapsed = 60 * time.Millisecond
	require.Equal(t, r.Attempts/4*3, run(t, s, 1, exactly(p))[0].Attempts, "and now none")
}

func TestLayersMultiplyOnlyWhereTheMarkIsLost(t *testing.T) {
	s := lone(0)
	s.Layers = 3
	marked := NewClient("marked", backoff.Policy{Schedule: backoff.Constant(0)}, nil, nil)
	require.Equal(t, 4.0, run(t, s, 1, marked)[0].Amplification[2].Mean)
	r := run(t, s, 1, marked.WithoutMarks())[0]
	require.Equal(t, []Figure{{Mean: 4}, {Mean: 16}, {Mean: 64}}, r.Amplification)
	require.Zero(t, r.Success.Mean)
}

func TestABreakerGuardsWhatItsGuardSays(t *testing.T) {
	s := Scenario{Every: 10 * time.Millisecond, Horizon: 30 * time.Second, Server: Server{Errors: 1}}
	policy := backoff.Policy{Schedule: backoff.Constant(0)}
	open := func() *backoff.Breaker {
		return &backoff.Breaker{OpenFor: backoff.Constant(time.Hour), Jitter: backoff.NoJitter, ConsecutiveFailures: -1}
	}
	at := func(g Guard) Result { return run(t, s, 1, NewClient("guarded", policy, nil, open).withGuard(g))[0] }
	require.Equal(t, 80, at(GuardCalls).Attempts, "20 calls of four attempts")
	require.Equal(t, 20, at(GuardAttempts).Attempts)
	require.Equal(t, 3000+15, at(GuardRetries).Attempts, "15 retries among the first 20, and every first attempt")
}

func TestABudgetIsAskedAndAnInvalidPolicyRefused(t *testing.T) {
	s := lone(0)
	bucket := capped(&TokenBucket{Capacity: 5})
	r := run(t, s, 1, NewClient("five", backoff.Policy{}, bucket, nil))[0]
	require.Equal(t, 10+5, r.Attempts)

	_, err := Compare(s, []Client{NewClient("bad", backoff.Policy{Schedule: backoff.Constant(-1)}, nil, nil)}, Options{})
	require.ErrorContains(t, err, "bad: ")
	require.ErrorContains(t, err, "Policy.Schedule")
	_, err = Compare(s, []Client{NewClient("bad", backoff.Policy{}, nil, func() *backoff.Breaker { return &backoff.Breaker{FailureRate: 2} })}, Options{})
	require.ErrorContains(t, err, "Breaker.FailureRate is 2")
}

func TestThePolicysTimeIsTheSimulations(t *testing.T) {
	s := lone(time.Second)
	p := backoff.Policy{MaxAttempts: -1, Schedule: backoff.Constant(time.Second), MaxElapsed: 9500 * time.Millisecond}
	r := run(t, s, 1, exactly(p))[0]
	require.Equal(t, 5.0, r.Amplification[0].Mean, "at 0, 2, 4, 6 and 8 s; the next would be at 10")
}

func TestUsersThinkWaitAndThinkAgain(t *testing.T) {
	s := Scenario{Users: 100, Think: time.Second, Server: Server{Servers: 1000, Service: Exact(time.Second)}, Horizon: 200 * time.Second}
	calls := 0.0
	for _, p := range run(t, s, 1, None())[0].Series {
		calls += p.Calls
	}
	require.InEpsilon(t, 100*200/2, calls, .02)
}

func TestAJobEndsWhenItsCallsAreMade(t *testing.T) {
	s := Scenario{Users: 10, Calls: 25, Server: Server{Servers: 10, Service: Exact(time.Second), Errors: .5}, Horizon: 200 * time.Second}
	r := run(t, s, 1, None())[0]
	require.Equal(t, 25, r.Calls)
	require.Equal(t, 25, r.Attempts, "a call that fails is not made again")
	require.Equal(t, 10.0, r.Series[0].Calls, "each user makes one at a time")
	require.Less(t, r.Drain.Mean, 4.0)

	s.Server.Errors, s.Server.Service = 0, Distribution{}
	require.Equal(t, 25, run(t, s, 1, None())[0].Calls)
}

func TestTheLeastTimeOfAJobIsThatOfItsNarrowestPart(t *testing.T) {
	s := RateLimit()
	require.Equal(t, 9*time.Second, s.LeastTime(), "what the API accepts")
	s.Server.Rate = 0
	require.Equal(t, 40*time.Millisecond, s.LeastTime(), "the network, for 20 calls of each worker")
	s.Server.Service = Exact(20 * time.Millisecond)
	require.Equal(t, 20*time.Second, s.LeastTime(), "the server")
	s.Calls = 0
	require.Zero(t, s.LeastTime())
}

func TestATraceIsReplayed(t *testing.T) {
	s := Scenario{Trace: Trace{{At: 0, For: 2 * time.Second, Count: 1000}, {At: 5 * time.Second, Count: 30}, {At: 7 * time.Second, Count: 1}}, Horizon: 7 * time.Second}
	r := run(t, s, 1, None())[0]
	require.InDelta(t, 500, r.Series[0].Calls, 70)
	require.InDelta(t, 1000, r.Series[0].Calls+r.Series[1].Calls, 0)
	require.Equal(t, 30.0, r.Series[5].Calls)
	require.Equal(t, 30.0, r.Arrivals[50], "at once")
	require.Equal(t, 1030, r.Attempts, "the horizon cuts the rest")
}

func TestRegularCallsAreExactlySpaced(t *testing.T) {
	s := Scenario{Every: 300 * time.Millisecond, Horizon: 3 * time.Second}
	require.Equal(t, 10, run(t, s, 1, None())[0].Attempts, "at 0, 0.3, up to 2.7 s")
}
