package guard_test

import (
	"context"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

// keyed is a policy whose key the service makes, for all attempts and turns.
var keyed = backoff.Policy{Idempotency: backoff.Keyed, Schedule: backoff.Constant(0)}

// madeElsewhere is the Idempotency of a call whose key somebody else has made.
type madeElsewhere struct{ backoff.Idempotency }

func (madeElsewhere) MadeKey() string { return "made" }

// One that is not made here is that of every turn, too.
func TestACallThatWaitsHasOneKey(t *testing.T) {
	for _, policy := range []backoff.Policy{keyed, {Schedule: backoff.Constant(0), Idempotency: madeElsewhere{backoff.Idempotent}}} {
		synctest.Test(t, func(t *testing.T) {
			var keys []string
			require.NoError(t, under(nil).Do(t.Context(), policy, func(ctx context.Context) error {
				if keys = append(keys, backoff.IdempotencyKey(ctx)); len(keys) < 7 {
					return errBoom
				}
				return nil
			}))
			require.NotEmpty(t, keys[0])
			require.Equal(t, slices.Repeat(keys[:1], 7), keys)
			require.Equal(t, policy.Idempotency != backoff.Keyed, keys[0] == "made")
		})
	}
}

// The key of a step is not that of the call.
func TestACallThatWaitsKeepsItsOwnKey(t *testing.T) {
	for _, ofStep := range []func(context.Context) context.Context{
		func(ctx context.Context) context.Context { return backoff.WithIdempotencyKey(ctx, "step") },
		func(context.Context) context.Context { return context.Background() },
	} {
		synctest.Test(t, func(t *testing.T) {
			step := backoff.Policy{MaxAttempts: 1, Idempotency: backoff.Keyed}
			var keys []string
			ctx := backoff.WithIdempotencyKey(t.Context(), "call")
			require.NoError(t, under(nil).Do(ctx, keyed, func(ctx context.Context) error {
				keys = append(keys, backoff.IdempotencyKey(ctx))
				return step.Do(ofStep(ctx), func(context.Context) error {
					if len(keys) < 7 {
						return syscall.ECONNREFUSED
					}
					return nil
				})
			}))
			require.Equal(t, slices.Repeat([]string{"call"}, 7), keys)
		})
	}
}

// A further call would send another key.
func TestWhatSentAKeyThatTheServiceDoesNotKnowIsNotMadeAgain(t *testing.T) {
	for _, idempotency := range []backoff.Idempotency{backoff.Keyed, madeElsewhere{backoff.Idempotent}} {
		synctest.Test(t, func(t *testing.T) {
			inside, calls := backoff.Policy{MaxAttempts: 2, Idempotency: idempotency}, 0
			err := under(nil).Do(t.Context(), backoff.Policy{}, func(ctx context.Context) error {
				return inside.Do(ctx, func(context.Context) error { calls++; return errBoom })
			})
			require.EqualError(t, err, "backoff: gave up after 2 attempts: boom")
			require.Equal(t, 2, calls)
		})
	}
}

// A charge must not be made under a second key.
func TestAPolicyAroundAServiceDoesNotSendAnotherKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := map[string]bool{}
		outer := backoff.Policy{AttemptTimeout: 5 * time.Second, Classify: backoff.RetryIf(func(error) bool { return true })}
		require.Error(t, outer.Do(t.Context(), func(ctx context.Context) error {
			return under(nil).Do(ctx, backoff.Policy{Idempotency: backoff.Keyed}, func(ctx context.Context) error {
				keys[backoff.IdempotencyKey(ctx)] = true
				return errBoom
			})
		}))
		require.Len(t, keys, 1)
	})
}
