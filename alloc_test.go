//go:build !race

package backoff_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

// The race detector allocates, so these run without it.

// requireAllocs holds fn to a number of allocations.
func requireAllocs(t *testing.T, want float64, name string, fn func()) {
	t.Helper()
	require.Equal(t, want, testing.AllocsPerRun(100, fn), name)
}

// requireFreeValue holds a DoValue in fn to no allocation. While coverage is measured,
// DoValue is too large to be inlined.
func requireFreeValue(t *testing.T, name string, fn func()) {
	t.Helper()
	if testing.CoverMode() == "" {
		requireAllocs(t, 0, name, fn)
	}
}

func TestASuccessAllocatesNothing(t *testing.T) {
	ctx := t.Context()
	n := 0 // captured, so that the closures are real ones
	op := func(context.Context) error { n++; return nil }
	for name, policy := range map[string]*backoff.Policy{
		"zero":       {},
		"unlimited":  {MaxAttempts: -1, Schedule: backoff.Exponential{Multiplier: 3}, Jitter: backoff.EqualJitter},
		"observed":   {Observer: func(context.Context, backoff.Event) {}},
		"timed":      {MaxElapsed: time.Hour},
		"by success": {Budget: &backoff.RetryBudget{}},
	} {
		requireAllocs(t, 0, name+": Do", func() { _ = policy.Do(ctx, func(context.Context) error { n++; return nil }) })
		requireAllocs(t, 0, name+": Do of a variable", func() { _ = policy.Do(ctx, op) })
		requireFreeValue(t, name+": DoValue", func() {
			v, _ := backoff.DoValue(ctx, policy, func(context.Context) (int, error) { n++; return n, nil })
			n += v
		})
		requireAllocs(t, 0, name+": range", func() {
			r := policy.Start(ctx)
			for range r.Attempts() {
				n++
				break
			}
		})
	}
}

// retryThrice makes a call whose first three attempts fail.
func retryThrice(ctx context.Context, policy backoff.Policy) {
	n := 0
	_ = policy.Do(ctx, func(context.Context) error {
		if n++; n <= 3 {
			return errBoom
		}
		return nil
	})
}

// A retry has no price of its own, nor has the timer of a wait, or an event. (The
// fourth failure has: the *Error.)
func TestARetryAllocatesNothing(t *testing.T) {
	ctx := t.Context()
	policy := backoff.Policy{Schedule: backoff.Constant(0)}
	requireAllocs(t, 0, "Do", func() { retryThrice(ctx, policy) })
	observed := backoff.Policy{Schedule: backoff.Constant(0), Observer: func(context.Context, backoff.Event) {}}
	requireAllocs(t, 0, "observed", func() { retryThrice(ctx, observed) })
	waiting := backoff.Policy{Schedule: backoff.Constant(time.Microsecond), Jitter: backoff.NoJitter}
	requireAllocs(t, 0, "waiting", func() { retryThrice(ctx, waiting) })
	requireFreeValue(t, "DoValue", func() {
		n := 0
		_, _ = backoff.DoValue(ctx, &policy, func(context.Context) (int, error) {
			if n++; n <= 3 {
				return 0, errBoom
			}
			return n, nil
		})
	})
	requireAllocs(t, 0, "range", func() {
		n := 0
		r := policy.Start(ctx)
		for range r.Attempts() {
			if n++; n > 3 {
				break
			}
			r.Fail(errBoom)
		}
	})
	requireAllocs(t, 1, "giving up", func() { _ = policy.Do(ctx, func(context.Context) error { return errBoom }) })
}

func TestASentinelMarkedOnceCostsNothing(t *testing.T) {
	policy, sentinel := backoff.Policy{}, backoff.Permanent(errFinal)
	ctx := t.Context()
	requireAllocs(t, 0, "Do", func() { _ = policy.Do(ctx, func(context.Context) error { return sentinel }) })
}

func TestThePartsOfAPolicyAllocateNothing(t *testing.T) {
	policy := backoff.Policy{}
	requireAllocs(t, 0, "Delay", func() { policy.WaitBefore(3) })
	requireAllocs(t, 0, "Decide", func() { policy.Decide(3, errBoom) })
	requireAllocs(t, 0, "Retryable", func() { policy.Retryable(errBoom) })
	requireAllocs(t, 0, "Validate", func() { _ = policy.Validate() })
}

// They are the operation, the value, and the function that keeps it.
func TestAValueThroughAnInterfaceAllocatesThrice(t *testing.T) {
	ctx, n := t.Context(), 0
	for _, d := range []backoff.Doer{&backoff.Policy{}, &backoff.Breaker{}} {
		requireAllocs(t, 3, "DoValue", func() {
			v, _ := backoff.DoValue(ctx, d, func(context.Context) (int, error) { n++; return n, nil })
			n += v
		})
	}
}

func TestAValueThroughABreakerAllocatesNothing(t *testing.T) {
	ctx, b, n := t.Context(), &backoff.Breaker{}, 0
	requireFreeValue(t, "DoValue", func() {
		_, _ = backoff.DoValue(ctx, b, func(context.Context) (int, error) { n++; return n, nil })
	})
}

// A policy may be made where it is used.
func TestAPolicyMadePerCallAllocatesNothing(t *testing.T) {
	ctx := t.Context()
	n := 0
	budget := &backoff.RetryBudget{}
	requireAllocs(t, 0, "Do", func() {
		_ = backoff.Policy{Name: "a", MaxAttempts: 3}.Do(ctx, func(context.Context) error { n++; return nil })
	})
	requireFreeValue(t, "for a value", func() {
		_, _ = backoff.DoValue(ctx, backoff.Policy{Name: "a"}, func(context.Context) (string, error) { n++; return "", nil })
	})
	requireAllocs(t, 0, "with a budget", func() {
		_ = backoff.Policy{Name: "a", Budget: budget}.Do(ctx, func(context.Context) error { n++; return nil })
	})
}
