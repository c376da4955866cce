package migrate

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

func hereDskitLoop(ctx context.Context, save operation) error {
	policy := backoff.Policy{
		Name:        "save",
		MaxAttempts: 10,
		Schedule:    backoff.Exponential{Initial: 200 * time.Millisecond, Max: 1600 * time.Millisecond}, // 2 * MinBackoff
		Jitter:      backoff.EqualJitter,
	}
	r := policy.Start(ctx)
	for ctx := range r.Attempts() {
		err := save(ctx)
		if err == nil {
			return nil
		}
		r.Fail(err)
	}
	return r.Err()
}

func hereDskitWatch(ctx context.Context, fetch func(context.Context) (string, error), handle func(string)) error {
	policy := backoff.Policy{
		MaxAttempts: -1,
		Schedule:    backoff.Exponential{Initial: 2 * time.Second, Max: time.Minute},
		Jitter:      backoff.EqualJitter,
	}
	r := policy.Start(ctx)
	for ctx := range r.Attempts() {
		for {
			page, err := fetch(ctx)
			if err != nil {
				r.Fail(backoff.OfClass(err, backoff.ClassRetryable))
				break
			}
			r.Progress()
			handle(page)
		}
	}
	return r.Err()
}

// hereForgetful is a loop that says nothing about a failure.
func hereForgetful(ctx context.Context, save operation) error {
	r := backoff.Policy{MaxAttempts: -1, Jitter: backoff.NoJitter}.Start(ctx)
	for ctx := range r.Attempts() {
		if save(ctx) == nil {
			return nil
		}
	}
	return r.Err()
}

func TestALoopOfDskitHasTheSameWaits(t *testing.T) {
	for _, c := range []call{dskitLoop, hereDskitLoop} {
		for range 20 {
			r := recorded(t, c, errDown)
			require.Len(t, r.at, 10)
			for i, wait := range r.waits() {
				most := min(time.Duration(200<<i), 1600) * time.Millisecond
				require.True(t, most/2 <= wait && wait <= most, "%v", r.waits())
			}
		}
	}
}

func TestALoopOfDskitSaysNothingOfTheLastFailure(t *testing.T) {
	require.EqualError(t, recorded(t, dskitLoop, errDown).err, "terminated after 10 retries")
	err := recorded(t, hereDskitLoop, errDown).err
	require.ErrorIs(t, err, errDown)
	require.EqualError(t, err, "backoff: save: gave up after 10 attempts: down")
}

func TestALoopWithoutAWaitSpinsInDskitOnly(t *testing.T) {
	const enough = 1000
	looks := func(c call) (n int, took time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			began := time.Now()
			_ = c(ctx, func(context.Context) error {
				if n++; n == enough {
					return nil
				}
				return errDown
			})
			took = time.Since(began)
		})
		return n, took
	}
	n, took := looks(dskitForgetful)
	require.Equal(t, enough, n)
	require.Zero(t, took)
	n, took = looks(hereForgetful)
	require.Equal(t, 10, n)
	require.Equal(t, 51100*time.Millisecond, took)
}

// A watch gets three pages, fails three times, gets a page, and fails until it
// is stopped.
func TestAWatchGoesOnAtOnceAfterASuccess(t *testing.T) {
	type watch = func(context.Context, func(context.Context) (string, error), func(string)) error
	for name, w := range map[string]watch{"dskit": dskitWatch, ours: hereDskitWatch} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			began, handled := time.Now(), 0
			var at []time.Duration
			err := w(ctx, func(context.Context) (string, error) {
				at = append(at, time.Since(began))
				switch n := len(at); {
				case n == 9:
					cancel()
					return "", context.Canceled
				case n <= 3, n == 7:
					return "page", nil
				}
				return "", noSuchName // which is final in Do
			}, func(string) { handled++ })
			require.ErrorIs(t, err, context.Canceled, name)
			require.Equal(t, 4, handled, name)
			require.Len(t, at, 9, name)
			for i, most := range seconds(0, 0, 0, 2, 4, 8, 0, 2) {
				wait := at[i+1] - at[i]
				require.True(t, most/2 <= wait && wait <= most, "%s: %v", name, at)
			}
		})
	}
}
