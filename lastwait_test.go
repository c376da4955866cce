package backoff_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

// cutShort is a policy whose first wait is cut to the time left.
var cutShort = backoff.Policy{
	MaxElapsed:      200 * time.Millisecond,
	Schedule:        backoff.Constant(20 * time.Second),
	Jitter:          backoff.NoJitter,
	ShortenLastWait: true,
}

// In earnest: outside of a bubble the clock goes on between two readings.
func TestAWaitThatIsCutToTheTimeLeftFitsIntoIt(t *testing.T) {
	t.Parallel()
	for _, budget := range []backoff.Budget{nil, slowBudget{}} {
		policy, attempts := cutShort, 0
		policy.Budget = budget
		err := policy.Do(t.Context(), func(context.Context) error { attempts++; return errBoom })
		require.ErrorIs(t, err, backoff.ErrExhausted)
		require.Equal(t, 2, attempts)
	}
}

// A slowBudget grants everything, and takes a while to say so.
type slowBudget struct{}

func (slowBudget) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	time.Sleep(time.Microsecond)
	return backoff.Ticket{}, a.Wait, true
}

func (slowBudget) Pace(t backoff.Ticket) (backoff.Ticket, time.Duration, bool) {
	time.Sleep(time.Microsecond)
	return t, 0, true
}

func (slowBudget) Done(backoff.Ticket, backoff.Result) {}

func TestTheLastAttemptIsMadeThoughABudgetTakesTimeToGrantIt(t *testing.T) {
	for name, call := range map[string]func(backoff.Policy, context.Context, func(context.Context) error) error{
		"Do":        backoff.Policy.Do,
		"Supervise": backoff.Policy.Supervise,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				policy, attempts := cutShort, 0
				policy.Budget = slowBudget{}
				err := call(policy, t.Context(), func(context.Context) error { attempts++; return errBoom })
				require.ErrorIs(t, err, backoff.ErrExhausted)
				require.Equal(t, 2, attempts)
			})
		})
	}
}
