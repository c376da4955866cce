package presets_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/presets"
)

// What is left, and whether a retry may be made, after attempts that fail (F)
// or succeed (s).
func TestGRPCThrottlingCountsInThousandths(t *testing.T) {
	for _, c := range []struct {
		tokens   int
		ratio    float64
		attempts string
		left     float64
		retry    bool
	}{
		{10, 0.1, "", 10, true},
		{10, 0.1, "ssss", 10, true}, // full
		{10, 0.1, "FFFF", 6, true},
		{10, 0.1, "FFFFF", 5, false}, // more than the half, not the half
		{10, 0.1, "FFFFFs", 5.1, true},
		{10, 0.1, "FFFFFssssssssssF", 5, false}, // floats would have it above, or below
		{10, 0.1, "FFFFFsssssssssssF", 5.1, true},
		{10, 0.1, "FFFFFFFFFFFFFFFFFFFF", 0, false}, // not below 0
		{10, 0.1, "FFFFFFFFFFFFs", 0.1, false},
		{1000, 0.1, "FFFF", 996, true},
		{1, 0.5, "F", 0, false},
		{1, 0.5, "Fs", 0.5, false},
		{1, 0.5, "Fss", 1, true},
		{3, 1, "F", 2, true},
		{3, 1, "FF", 1, false},
		{10, 0.0019, "Fs", 9.001, true}, // a fourth decimal is ignored
		{10, 0.001, "Fsss", 9.003, true},
		{10, 0.29, "Fs", 9.29, true},
		{10, 0.57, "FFs", 8.57, true},
		{10, 0.1, strings.Repeat("F", 100) + strings.Repeat("s", 60) + "F", 5, false}, // after an outage
		{10, 0.1, strings.Repeat("F", 100) + strings.Repeat("s", 61) + "F", 5.1, true},
	} {
		b := &presets.GRPCThrottling{MaxTokens: c.tokens, TokenRatio: c.ratio}
		require.NoError(t, b.Validate())
		for _, attempt := range c.attempts {
			if attempt == 'F' {
				finish(t, b, backoff.OutcomeTransient)
			} else {
				finish(t, b, backoff.OutcomeSuccess)
			}
		}
		require.Equal(t, c.left, b.Tokens(), "%+v", c)
		_, ok := askRetry(b)
		require.Equal(t, c.retry, ok, "%+v", c)
	}
}

func TestGRPCThrottlingCountsFailuresThatCouldBeRetried(t *testing.T) {
	for o, want := range map[backoff.Outcome]float64{
		backoff.OutcomeSuccess:    5.1,
		backoff.OutcomeDefinitive: 5,
		backoff.OutcomeTransient:  4,
		backoff.OutcomeThrottled:  4, // a "don't retry" pushback among them
		backoff.OutcomeTimeout:    4,
		backoff.OutcomeCanceled:   5,
		backoff.OutcomeNotSent:    5,
	} {
		b := presets.NewGRPCThrottling()
		repeat(5, func() { finish(t, b, backoff.OutcomeTransient) })
		finish(t, b, o)
		require.Equal(t, want, b.Tokens(), "outcome %d", o)
	}
}

// The last attempt of a call counts, and a pushback that
// forbids a retry.
func TestGRPCThrottlingCountsEveryFailedAttempt(t *testing.T) {
	b := presets.NewGRPCThrottling()
	p := presets.GRPCRetry()
	p.Budget, p.MaxAttempts, p.Schedule = b, 2, backoff.Constant(0)
	_ = p.Do(t.Context(), func(context.Context) error { return errTransient })
	require.Equal(t, 8.0, b.Tokens())
	_ = p.Do(t.Context(), func(context.Context) error { return backoff.RetryExactlyAfter(errors.New("no"), -1) })
	require.Equal(t, 7.0, b.Tokens())
	_ = p.Do(t.Context(), func(context.Context) error { return backoff.Permanent(errors.New("not found")) })
	require.Equal(t, 7.0, b.Tokens())
	require.NoError(t, p.Do(t.Context(), func(context.Context) error { return nil }))
	require.Equal(t, 7.1, b.Tokens())
}
