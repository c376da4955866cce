package presets_test

import (
	"context"
	"maps"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backofftest"
	"github.com/gobackoff/backoff/presets"
)

func TestBudgetsKeepTheContractOfABudget(t *testing.T) {
	for name := range presets.Budgets() {
		t.Run(name, func(t *testing.T) {
			backofftest.Budget(t, func() backoff.Budget { return maps.Collect(presets.Budgets())[name] })
		})
	}
	backofftest.Budget(t, func() backoff.Budget { return presets.NewHalvingRate() })
}

func TestBudgetsRefuseWhatMakesNoSense(t *testing.T) {
	for want, b := range map[string]backoff.Budget{
		"AWSQuota.Capacity is -1, want 0 or more":               &presets.AWSQuota{Capacity: -1},
		"AWSQuota.Cost is -1, want 0 or more":                   &presets.AWSQuota{Cost: -1},
		"AWSQuota.TimeoutCost is -1, want 0 or more":            &presets.AWSQuota{TimeoutCost: -1},
		"AWSQuota.ThrottleCost is -1, want 0 or more":           &presets.AWSQuota{ThrottleCost: -1},
		"AWSQuota.Increment is -1, want 0 or more":              &presets.AWSQuota{Increment: -1},
		"GRPCThrottling.MaxTokens is 0, want 1 to 1000":         &presets.GRPCThrottling{TokenRatio: 1},
		"GRPCThrottling.MaxTokens is -10, want 1 to 1000":       &presets.GRPCThrottling{MaxTokens: -10, TokenRatio: 1},
		"GRPCThrottling.MaxTokens is 1001, want 1 to 1000":      &presets.GRPCThrottling{MaxTokens: 1001, TokenRatio: 1},
		"GRPCThrottling.TokenRatio is 0, want 0.001 or more":    &presets.GRPCThrottling{MaxTokens: 10},
		"GRPCThrottling.TokenRatio is -0.1, want 0.001 or more": &presets.GRPCThrottling{MaxTokens: 10, TokenRatio: -0.1},
		"GRPCThrottling.TokenRatio is NaN, want 0.001 or more":  &presets.GRPCThrottling{MaxTokens: 10, TokenRatio: math.NaN()},
		"GRPCThrottling.TokenRatio is +Inf, want 0.001 or more": &presets.GRPCThrottling{MaxTokens: 10, TokenRatio: math.Inf(1)},
		"SREBudget.Ratio is -0.1, want 0 to 1000":               &presets.SREBudget{Ratio: -0.1, Window: 1, MinInterval: 1},
		"SREBudget.Ratio is NaN, want 0 to 1000":                &presets.SREBudget{Ratio: math.NaN(), Window: 1, MinInterval: 1},
		"SREBudget.Ratio is +Inf, want 0 to 1000":               &presets.SREBudget{Ratio: math.Inf(1), Window: 1, MinInterval: 1},
		"SREBudget.Window is 0s, want more than 0":              &presets.SREBudget{MinInterval: 1},
		"SREBudget.MinRetries is -1, want 0 or more":            &presets.SREBudget{Window: 1, MinInterval: 1, MinRetries: -1},
		"SREBudget.MinInterval is 0s, want more than 0":         &presets.SREBudget{Window: 1},
		"GRPCThrottling is nil":                                 (*presets.GRPCThrottling)(nil),
		"AWSQuota is nil":                                       (*presets.AWSQuota)(nil),
		"AdaptiveRate is nil":                                   (*presets.AdaptiveRate)(nil),
		"SREBudget is nil":                                      (*presets.SREBudget)(nil),
	} {
		require.EqualError(t, b.Validate(), "backoff: presets."+want)
		never := func(context.Context) error { panic("called") }
		require.EqualError(t, backoff.Policy{Budget: b}.Do(t.Context(), never), "backoff: presets."+want)
	}
	b := new(presets.SREBudget)
	begin(t, b)
	_, ok := askRetry(b)
	require.False(t, ok, "an invalid one does not panic")
}

func TestAWSRateGivesNoTurnToAnAttemptThatOnlyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := presets.NewAWSRate()
		throttleOnce(t, b, 4)
		time.Sleep(time.Second)
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
