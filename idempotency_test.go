package backoff_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

func TestRepeatable(t *testing.T) {
	plain := t.Context()
	for _, row := range []struct {
		operation     backoff.Idempotency
		unsent, other bool
	}{
		{backoff.Idempotent, true, true},
		{backoff.NonIdempotent, true, false},
		{backoff.Keyed, true, true},
	} {
		for _, ctx := range []context.Context{plain, backoff.WithIdempotencyKey(plain, "which nobody says is sent")} {
			require.Equal(t, row.unsent, row.operation.Repeatable(ctx, backoff.ClassNotSent), "%v", row.operation)
			for _, class := range []backoff.Class{backoff.ClassUnknown, backoff.ClassRetryable, backoff.ClassThrottled} {
				require.Equal(t, row.other, row.operation.Repeatable(ctx, class), "%v, %v", row.operation, class)
			}
		}
	}
}

// strict is an Idempotency of a user's own.
type strict struct{ asked *int }

// generation is what a request has that is safe to repeat.
type generation struct{}

func (s strict) Repeatable(ctx context.Context, c backoff.Class) bool {
	*s.asked++
	return c == backoff.ClassThrottled && ctx.Value(generation{}) != nil
}

func TestAnIdempotencyOfTheUsersOwnIsAskedOnceAFailure(t *testing.T) {
	asked := 0
	policy := backoff.Policy{Schedule: backoff.Constant(0), Idempotency: strict{&asked}}
	op := returning(backoff.OfClass(errBoom, backoff.ClassThrottled), errBoom)
	err := policy.Do(context.WithValue(t.Context(), generation{}, 7), op.do)
	require.Equal(t, backoff.ReasonNotIdempotent, gaveUp(t, err).Reason)
	require.Len(t, op.at, 2)
	require.Equal(t, 2, asked)

	asked = 0
	require.Error(t, policy.Do(t.Context(), returning(backoff.Permanent(errBoom)).do))
	require.Zero(t, asked, "not for what is permanent anyhow")
}

// RetryNever is a limit of one attempt, whatever may be repeated.
func TestOneAttemptIsTheLimitForEveryIdempotency(t *testing.T) {
	for _, i := range []backoff.Idempotency{nil, backoff.Idempotent, backoff.Keyed, backoff.NonIdempotent} {
		policy := backoff.Policy{Idempotency: i, MaxAttempts: 1}
		at, err := attempts(t, policy, backoff.OfClass(errBoom, backoff.ClassNotSent))
		require.Len(t, at, 1)
		require.Equal(t, backoff.ReasonAttempts, gaveUp(t, err).Reason)
	}
}

func TestAKeyMadeForTheCallerIsLongAndUnlike(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		key := backoff.IdempotencyKey(backoff.WithIdempotencyKey(t.Context(), ""))
		require.GreaterOrEqual(t, len(key), 26, "130 bits in base 32")
		seen[key] = true
	}
	require.Len(t, seen, 1000)
	require.Empty(t, backoff.IdempotencyKey(t.Context()))
}

func TestTheInnermostKeyIsRead(t *testing.T) {
	ctx := backoff.WithIdempotencyKey(backoff.WithIdempotencyKey(t.Context(), "outer"), "inner")
	require.Equal(t, "inner", backoff.IdempotencyKey(ctx))
}

// A Keyed call inside another sends the key of the outer one: to the server it
// is one operation.
func TestANestedKeyedCallKeepsTheOuterKey(t *testing.T) {
	policy := backoff.Policy{Idempotency: backoff.Keyed, MaxAttempts: 1}
	require.NoError(t, policy.Do(t.Context(), func(ctx context.Context) error {
		outer := backoff.IdempotencyKey(ctx)
		return policy.Do(ctx, func(ctx context.Context) error {
			require.Equal(t, outer, backoff.IdempotencyKey(ctx))
			return nil
		})
	}))
}

func TestIdempotenciesHaveNames(t *testing.T) {
	require.Equal(t, "[Idempotent NonIdempotent Keyed]", fmt.Sprint([]backoff.Idempotency{backoff.Idempotent, backoff.NonIdempotent, backoff.Keyed}))
}
