package migrate

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/limit"
	"github.com/gobackoff/backoff/pace"
)

func drivePolicy() backoff.Policy {
	return backoff.Policy{
		Name:        "drive",
		MaxAttempts: 10,
		Schedule:    backoff.Exponential{Initial: time.Second, Max: 16 * time.Second},
		Jitter:      added(time.Second),
		Budget: backoff.JoinBudgets(
			&limit.Rate{Limiter: rate.NewLimiter(rate.Every(100*time.Millisecond), 1)},
			&pace.HoldOff{}, // a Retry-After holds all calls
		),
	}
}

// paced calls a function of the form that the pacer gets.
func paced(ctx context.Context, policy backoff.Policy, fn func() (again bool, err error)) error {
	return backoff.Cause(policy.Do(ctx, func(context.Context) error {
		again, err := fn()
		if again {
			return backoff.OfClass(err, backoff.ClassRetryable)
		}
		return backoff.Permanent(err)
	}))
}

func hereRclone(ctx context.Context, policy backoff.Policy, save operation) error {
	err := paced(ctx, policy, func() (bool, error) {
		err := save(ctx)
		return errors.Is(err, errBusy), err
	})
	return err
}

var rcloneForms = map[string]func() call{
	"rclone": func() call {
		p := newPacer(10)
		return func(ctx context.Context, op operation) error { return rcloneCall(ctx, p, op) }
	},
	ours: func() call {
		policy := drivePolicy()
		return func(ctx context.Context, op operation) error { return hereRclone(ctx, policy, op) }
	},
}

func TestACallOfAPacerHasTheSameAttemptsAndErrors(t *testing.T) {
	first := map[string]int{"rclone": 1, ours: 0} // there one retry does not wait
	for name, form := range rcloneForms {
		var r record
		once := func(results ...error) record {
			return recorded(t, func(ctx context.Context, op operation) error { return form()(ctx, op) }, results...)
		}
		r = once(errBusy)
		require.Len(t, r.at, 10, name)
		require.Equal(t, errBusy, r.err, name)
		waits := r.waits()
		if first[name] == 1 {
			require.Zero(t, waits[0])
		}
		for i, least := range seconds(1, 2, 4, 8, 16, 16, 16, 16) {
			wait := waits[i+first[name]]
			require.True(t, least <= wait && wait <= least+time.Second, "%s: %v", name, waits)
		}
		r = once(errBusy, errDown)
		require.Len(t, r.at, 2, name)
		require.Equal(t, errDown, r.err, name)
		require.NoError(t, once(errBusy, nil).err, name)
	}
}

// Eight calls at once fail until they give up.
func TestAPacerMakesItsCallsWaitForOneAnother(t *testing.T) {
	took := map[string]time.Duration{}
	for name, form := range rcloneForms {
		synctest.Test(t, func(t *testing.T) {
			c, began := form(), time.Now()
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() { _ = c(t.Context(), func(context.Context) error { return errBusy }) })
			}
			all.Wait()
			took[name] = time.Since(began)
		})
	}
	require.Greater(t, took["rclone"], 15*time.Minute)
	require.Less(t, took[ours], 2*time.Minute)
}

// One call fails once. Seven others begin a moment later, and are answered.
func TestAFailureHoldsOnlyItsOwnCallUnlessTheServerNamedATime(t *testing.T) {
	others := func(c call, failure error) (last time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			began, failed := time.Now(), false
			var all sync.WaitGroup
			all.Go(func() {
				_ = c(t.Context(), func(context.Context) error {
					if failed {
						return nil
					}
					failed = true
					return failure
				})
			})
			time.Sleep(100 * time.Millisecond)
			for range 7 {
				all.Go(func() {
					_ = c(t.Context(), func(context.Context) error { last = time.Since(began); return nil })
				})
			}
			all.Wait()
		})
		return last
	}
	require.Less(t, others(rcloneForms[ours](), errBusy), time.Second)
	held := others(rcloneForms[ours](), backoff.RetryAfter(errBusy, 5*time.Second))
	require.Greater(t, held, 5*time.Second)
}
