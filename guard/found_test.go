package guard_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
)

func TestAnOpenCircuitRefusesTenantsWithoutAPlaceToo(t *testing.T) {
	s := guard.Service{Name: "db"}
	breakerOf(&s).Trip()
	for i := range 3000 {
		err := s.Tenant(fmt.Sprint(i)).Do(t.Context(), backoff.Policy{}, func(context.Context) error { panic("called") })
		require.ErrorIs(t, err, backoff.ErrOpen)
	}
}

func TestATenantIsNotAnotherKey(t *testing.T) {
	var all guard.Services
	breakerOf(all.For("a")).Trip()
	require.NotSame(t, all.For("a#b"), all.For("a").Tenant("b"))
	require.Equal(t, backoff.BreakerClosed, breakerOf(all.For("a#b")).State())
	require.NotSame(t, all.For("a#b").Tenant("c"), all.For("a").Tenant("b#c"))
}

func TestTheErrorOfAPatientCallCountsAllAttemptsAndItsWaitsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		err := doWithin(t, svc(nil, backoff.Policy{MaxAttempts: 4, Schedule: backoff.Constant(0)}), 20*time.Second, func(ctx context.Context) error {
			if calls++; calls == 7 {
				<-ctx.Done()
				return ctx.Err()
			}
			return errBoom
		})
		gave := gaveUp(t, err)
		require.Equal(t, 7, gave.Attempts)
		require.Regexp(t, `waited \d\d\dms for`, err.Error(), "and not for the 19 s of the last attempt")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, errBoom, backoff.Cause(err), "and not the end of the context")
	})
}

func TestARefusalOfTheServicesBudgetNamesIt(t *testing.T) {
	s := guard.Service{Budget: refusing{}}
	text := s.Do(t.Context(), backoff.Policy{}, func(context.Context) error { return nil }).Error()
	require.Equal(t, "backoff: not started: budget refused (Budget); the guard.Service has it", text)
	text = s.Do(t.Context(), backoff.Policy{Budget: refusing{}}, func(context.Context) error { return nil }).Error()
	require.Equal(t, "backoff: not started: budget refused (Budget)", text)
}

// A charge must not be made under a second key.
func TestAPolicyAroundAPatientServiceDoesNotSendAnotherKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := map[string]bool{}
		inner := svc(nil, backoff.Policy{Idempotency: backoff.Keyed})
		outer := backoff.Policy{AttemptTimeout: 5 * time.Second, Classify: backoff.RetryIf(func(error) bool { return true })}
		err := outer.Do(t.Context(), func(ctx context.Context) error {
			return inner.Do(ctx, func(ctx context.Context) error {
				keys[backoff.IdempotencyKey(ctx)] = true
				return errBoom
			})
		})
		require.Error(t, err)
		require.Len(t, keys, 1)
	})
}

// sliced is a context that cannot be compared.
type sliced struct {
	context.Context
	_ []int
}

func TestAContextNeedNotBeComparable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := svc(nil, backoff.Policy{}).Do(sliced{Context: ctx}, func(context.Context) error { return errBoom })
		require.ErrorIs(t, err, errBoom)
	})
}
