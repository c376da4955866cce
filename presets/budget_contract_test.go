package presets_test

import (
	"context"
	"maps"
	"math"
	"testing"

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
		"GRPCThrottling is nil":                                 (*presets.GRPCThrottling)(nil),
		"AWSQuota is nil":                                       (*presets.AWSQuota)(nil),
	} {
		require.EqualError(t, b.Validate(), "backoff: presets."+want)
		never := func(context.Context) error { panic("called") }
		require.EqualError(t, backoff.Policy{Budget: b}.Do(t.Context(), never), "backoff: presets."+want)
	}
}
