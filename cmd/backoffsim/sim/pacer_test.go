package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/nightly"
	"github.com/gobackoff/backoff/limit"
	"github.com/gobackoff/backoff/pace"
)

// The tests of this file hold what docs/results/simulation.md says of pace.Pacer, the
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
	nightly.Long(t)
	for _, c := range []struct {
		processes int
		load      float64
		often     bool // also in the small run
	}{
		{20, .8, false}, {20, .9, true}, {200, .8, true}, {200, .9, false},
		{1000, .8, false}, {1000, .9, false}, {4000, .8, false}, {4000, .9, false},
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

// atOnce are 20 calls at the same time, whose attempts all fail.
var atOnce = Scenario{Trace: Trace{{Count: 20}}, Horizon: 10 * time.Second, Server: Server{Errors: 1}}

// tenPerSecond returns a client whose retries wait for two seconds and are made
// at ten a second.
func tenPerSecond(p backoff.Policy, budget func(*limit.Rate) backoff.Budget) Client {
	p.MaxAttempts, p.Schedule, p.Jitter = 2, backoff.Constant(2*time.Second), backoff.NoJitter
	return NewClient("paced", p, func() backoff.Budget {
		return budget(&limit.Rate{Limiter: rate.NewLimiter(10, 1), RetriesOnly: true})
	}, nil)
}

func alone(b *limit.Rate) backoff.Budget { return b }

func TestRetriesWhoseWaitEndsTogetherKeepThePace(t *testing.T) {
	for name, budget := range map[string]func(*limit.Rate) backoff.Budget{
		"alone": alone,
		"joined": func(b *limit.Rate) backoff.Budget {
			return backoff.JoinBudgets(&limit.Concurrency{}, b)
		},
	} {
		r := run(t, atOnce, 1, tenPerSecond(backoff.Policy{}, budget))[0]
		require.Equal(t, 20.0, r.Arrivals[0], name)
		require.Equal(t, 40, r.Attempts, name)
		for tenth := 20; tenth < 40; tenth++ {
			require.Equal(t, 1.0, r.Arrivals[tenth], "%s: after %d tenths of a second", name, tenth)
		}
	}
}

func TestACallThatThePaceWouldKeepTooLongEnds(t *testing.T) {
	r := run(t, atOnce, 1, tenPerSecond(backoff.Policy{MaxElapsed: 2450 * time.Millisecond}, alone))[0]
	require.Equal(t, 20+5, r.Attempts, "at 2, 2.1, 2.2, 2.3 and 2.4 s")
	require.Zero(t, r.Success.Mean)

	s := atOnce
	s.Deadline = 2300 * time.Millisecond
	r = run(t, s, 1, tenPerSecond(backoff.Policy{}, alone))[0]
	require.Equal(t, 20+3, r.Attempts, "at 2, 2.1 and 2.2 s")
}

// An askedBudget is asked for every first attempt.
type askedBudget struct{ backoff.Budget }

func (askedBudget) GrantsFirst() bool { return false }

// Calls that a budget grants unasked take a shorter way, here as in the loop of
// a policy, and to the same end.
func TestFirstAttemptsThatAreGrantedUnaskedCountAsOthers(t *testing.T) {
	asked := NewClient("Policy + Pacer", backoff.Policy{}, func() backoff.Budget { return askedBudget{new(pace.Pacer)} }, nil)
	for _, s := range []Scenario{RateLimit(), Lying()} {
		r := run(t, s, 1, paced(), asked)
		require.Equal(t, r[1], r[0], s.Name)
	}
	b := &pacedBudget{Budget: new(pace.Pacer)}
	for range 10_000 {
		b.Done(backoff.Ticket{}, backoff.Result{Took: time.Millisecond})
	}
	require.True(t, grantsSome(b), "those that nobody needs to measure")
	for range 4 {
		b.Done(backoff.Ticket{}, backoff.Result{Failed: true, Class: backoff.ClassThrottled})
	}
	require.False(t, grantsSome(b), "calls are paced")
	b.Budget = &limit.Rate{Limiter: rate.NewLimiter(1, 1)}
	require.False(t, grantsSome(b), "it must be asked")
}

// grantsSome reports whether a budget grants one of many first attempts unasked.
func grantsSome(b *pacedBudget) bool {
	for range 1000 {
		if b.GrantsFirst() {
			return true
		}
		b.Done(backoff.Ticket{}, backoff.Result{})
	}
	return false
}

// A shutBudget grants every retry, and refuses its pace.
type shutBudget struct {
	backoff.BudgetDefaults

	under int
}

func (b *shutBudget) Reserve(backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	b.under++
	return backoff.Ticket{}, 0, true
}

func (b *shutBudget) Pace(t backoff.Ticket) (backoff.Ticket, time.Duration, bool) {
	return t, 0, false
}

func (b *shutBudget) Done(backoff.Ticket, backoff.Result) { b.under-- }

func TestACallEndsWhosePaceTheBudgetRefuses(t *testing.T) {
	shut := new(shutBudget)
	r := run(t, atOnce, 1, NewClient("shut", backoff.Policy{}, func() backoff.Budget { return shut }, nil))[0]
	require.Equal(t, 20, r.Attempts)
	require.Zero(t, r.Success.Mean)
	require.Zero(t, shut.under, "and the budget hears of it")
}

// Naive retries recover at a load of 30 % and not of 40 %, and from a dip of
// one second and not of two.
func TestTheCliffIsFound(t *testing.T) {
	s := Dip()
	s.Server.Service = Exponential(nightly.Size(10*ms, ms))
	s.Rate = .8 * s.Server.Capacity()
	cliff, err := FindCliff(s, Naive(), CliffLoad, .2, .8, nightly.Size(.1, .02), Options{Seeds: nightly.Size(1, 5)})
	require.NoError(t, err)
	require.GreaterOrEqual(t, cliff.Safe, .2)
	require.Less(t, cliff.Unsafe, .45)
	require.LessOrEqual(t, cliff.Unsafe-cliff.Safe, nightly.Size(.1, .02))

	cliff, err = FindCliff(s, Naive(), CliffDip, .5, 4, nightly.Size(.5, .1), Options{Seeds: nightly.Size(1, 5)})
	require.NoError(t, err)
	require.GreaterOrEqual(t, cliff.Unsafe, 1.0)
	require.LessOrEqual(t, cliff.Safe, 2.0)
}

func TestWhereThereIsNoCliffNoneIsFound(t *testing.T) {
	short := Dip()
	short.Horizon = 100 * time.Second
	cliff, err := FindCliff(short, Default(), CliffLoad, .5, .8, .1, Options{Seeds: 1})
	require.NoError(t, err)
	require.Equal(t, Cliff{Safe: .8}, cliff)
	cliff, err = FindCliff(short, Naive(), CliffLoad, .6, .8, .1, Options{Seeds: 2})
	require.NoError(t, err)
	require.Equal(t, Cliff{Unsafe: .6}, cliff)

	for want, s := range map[string]Scenario{
		"has no fault":    {Rate: 1, Horizon: time.Second},
		"takes no time":   Chain(1),
		"load of a trace": {Trace: Trace{{Count: 1}}, Server: Server{Service: Exact(1)}, Fault: Fault{For: 1}, Horizon: 2},
	} {
		_, err = FindCliff(s, Naive(), CliffLoad, .1, .2, .1, Options{})
		require.ErrorContains(t, err, want)
	}
	_, err = FindCliff(Dip(), Naive(), CliffLoad, .5, .4, .1, Options{})
	require.ErrorContains(t, err, "from 0.5 to 0.4 within 0.1")
	users, err := ClosedDip(time.Second).at(CliffLoad, .5)
	require.NoError(t, err)
	require.InDelta(t, 500.5, users.Users, .5)
}
