package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/limit"
	"github.com/gobackoff/backoff/pace"
)

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
		b.Done(backoff.Ticket{}, backoff.Result{Outcome: backoff.OutcomeThrottled})
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
