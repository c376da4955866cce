package presets_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backofftest"
	"github.com/gobackoff/backoff/pace"
	"github.com/gobackoff/backoff/presets"
)

func TestBudgetsKeepTheContractOfABudget(t *testing.T) {
	for name := range presets.Budgets() {
		t.Run(name, func(t *testing.T) {
			backofftest.Budget(t, func() backoff.Budget {
				for other, b := range presets.Budgets() {
					if other == name {
						return b
					}
				}
				return nil
			})
		})
	}
}

// slowAWSRate returns one that has seen four answers a second, and then
// throttling.
func slowAWSRate() *presets.AdaptiveRate {
	b := presets.NewAWSRate()
	for i := range 41 {
		ticket, _, _ := b.Reserve(backoff.Attempt{Number: 1})
		outcome := backoff.OutcomeSuccess
		if i == 40 {
			outcome = backoff.OutcomeThrottled
		}
		b.Done(ticket, backoff.Result{Outcome: outcome})
		time.Sleep(250 * time.Millisecond)
	}
	return b
}

func TestAWSRateGivesNoTurnToAnAttemptThatOnlyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := slowAWSRate()
		var tickets []backoff.Ticket
		for range 20 {
			ticket, wait, ok := b.Reserve(backoff.Attempt{Number: 2, Wait: time.Minute, Paced: true})
			require.True(t, ok)
			require.Zero(t, wait)
			tickets = append(tickets, ticket)
		}
		_, wait, _ := b.Reserve(backoff.Attempt{Number: 1, Paced: true})
		require.Zero(t, wait)
		b.Done(tickets[19], backoff.Result{Outcome: backoff.OutcomeNotSent})
		time.Sleep(time.Minute)

		var last time.Duration
		for _, ticket := range tickets[:18] {
			own, wait, ok := b.Pace(ticket)
			require.True(t, ok)
			require.GreaterOrEqual(t, wait, last)
			same, again, _ := b.Pace(own)
			require.Equal(t, own, same)
			require.InDelta(t, wait, again, float64(time.Microsecond), "it has its turn")
			last = wait
		}
		require.Greater(t, last, 3*time.Second)
		before := b.Rate()
		b.Done(tickets[18], backoff.Result{Outcome: backoff.OutcomeThrottled})
		require.Less(t, b.Rate(), before, "one that went without its turn is heard")
		_, wait, _ = b.Pace(tickets[18])
		require.Zero(t, wait, "and forgotten")
	})
}

func TestAWSRateSpacesCallsThatWereHeldOffTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rate, hold := slowAWSRate(), new(pace.HoldOff)
		b := backoff.JoinBudgets(rate, hold)
		hold.Hold(33 * time.Second)
		var tickets []backoff.Ticket
		for range 30 {
			ticket, _, ok := b.Reserve(backoff.Attempt{Number: 1, Paced: true})
			require.True(t, ok)
			tickets = append(tickets, ticket)
		}
		time.Sleep(40 * time.Second)
		var last time.Duration
		for _, ticket := range tickets {
			_, wait, ok := b.Pace(ticket)
			require.True(t, ok)
			last = max(last, wait)
		}
		require.Greater(t, last, 5*time.Second)
	})
}
