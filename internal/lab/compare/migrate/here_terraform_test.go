package migrate

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/poll"
)

func hereTerraformState(ctx context.Context, describe describing) (*volume, error) {
	policy := backoff.Policy{
		Name:        "volume",
		Schedule:    backoff.Exponential{Initial: 3 * time.Second, Max: 10 * time.Second},
		Jitter:      backoff.NoJitter,
		MaxElapsed:  10 * time.Minute,
		MaxAttempts: 1, // an error ends the poll
	}
	delay, missing := 30*time.Second, 0
	v, err := poll.Value(ctx, policy, func(ctx context.Context) (*volume, bool, error) {
		if d := delay; d > 0 {
			delay = 0
			return nil, false, backoff.RetryExactlyAfter(poll.ErrNotYet, d)
		}
		v, err := describe(ctx)
		switch {
		case err != nil:
			return nil, false, err
		case v == nil && missing == 20:
			return nil, true, errGone
		case v == nil: // not there yet
			missing++
			return nil, false, nil
		case v.State == "available":
			return v, true, nil
		case v.State != "creating":
			return v, true, fmt.Errorf("unexpected state %q", v.State)
		}
		missing = 0
		return v, false, nil
	})
	return v, err
}

func hereTerraformGone(ctx context.Context, describe describing) error {
	policy := backoff.Policy{
		Name:        "volume is gone",
		Schedule:    backoff.Constant(5 * time.Second),
		Jitter:      backoff.NoJitter,
		MaxElapsed:  time.Minute,
		MaxAttempts: 1,
	}
	err := poll.Until(ctx, policy, func(ctx context.Context) (gone bool, err error) {
		v, err := describe(ctx)
		return err == nil && v == nil, err
	})
	return err
}

func hereTerraformRetry(ctx context.Context, save operation) error {
	policy := backoff.Policy{
		MaxAttempts: -1,
		MaxElapsed:  2 * time.Minute,
		Schedule:    backoff.Exponential{Initial: 500 * time.Millisecond, Max: 10 * time.Second},
		Jitter:      backoff.NoJitter,
		Classify:    backoff.RetryIf(func(err error) bool { return errors.Is(err, errBusy) }),
	}
	err := backoff.Cause(policy.Do(ctx, save)) // the error of the last attempt, as there
	return err
}

// states describes a volume: nil is none, the last one stays, and an error ends
// its attempt.
type states struct {
	at  []time.Duration
	all []any
}

func (s *states) describing(began time.Time) describing {
	return func(context.Context) (*volume, error) {
		next := s.all[min(len(s.at), len(s.all)-1)]
		s.at = append(s.at, time.Since(began))
		switch next := next.(type) {
		case error:
			return nil, next
		case string:
			return &volume{next}, nil
		}
		return nil, nil
	}
}

func described(t *testing.T, wait func(context.Context, describing) (*volume, error), all ...any) (s states, v *volume, took time.Duration, err error) {
	s.all = all
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		v, err = wait(t.Context(), s.describing(began))
		took = time.Since(began)
	})
	return s, v, took, err
}

func TestAWaitOfTerraformLooksAtTheSameTimes(t *testing.T) {
	for name, scene := range map[string]struct {
		all   []any
		looks []time.Duration
		state string
		fails bool
	}{
		"after a while": {[]any{"creating", nil, "creating", "creating", "available"}, seconds(30, 33, 39, 49, 59), "available", false},
		"at once":       {[]any{"available"}, seconds(30), "available", false},
		"unexpected":    {[]any{"creating", "error"}, seconds(30, 33), "error", true},
		"an error":      {[]any{"creating", errDown}, seconds(30, 33), "", true},
	} {
		for side, wait := range map[string]func(context.Context, describing) (*volume, error){"terraform": terraformState, ours: hereTerraformState} {
			s, v, _, err := described(t, wait, scene.all...)
			require.Equal(t, scene.looks, s.at, "%s, %s", name, side)
			require.Equal(t, scene.fails, err != nil, "%s, %s: %v", name, side, err)
			if !scene.fails {
				require.Equal(t, scene.state, v.State)
			}
			if name == "an error" {
				require.ErrorIs(t, err, errDown)
			}
		}
	}
}

func TestAWaitOfTerraformEndsAfter21LooksThatFindNothing(t *testing.T) {
	for _, wait := range []func(context.Context, describing) (*volume, error){terraformState, hereTerraformState} {
		s, _, _, err := described(t, wait, nil)
		require.Error(t, err)
		require.Len(t, s.at, 21)
	}
}

func TestAWaitOfTerraformHasNoLastLook(t *testing.T) {
	s, _, took, err := described(t, terraformState, "creating")
	require.ErrorContains(t, err, "timeout while waiting for state")
	require.Equal(t, 10*time.Minute, took)
	require.Equal(t, 599*time.Second, s.at[len(s.at)-1])

	s, _, took, err = described(t, hereTerraformState, "creating")
	require.ErrorIs(t, err, poll.ErrNotYet)
	require.Equal(t, 10*time.Minute, took)
	require.Equal(t, seconds(599, 600), s.at[len(s.at)-2:])

	deadline := func(ctx context.Context, describe describing) (*volume, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		return hereTerraformState(ctx, describe)
	}
	s, _, took, err = described(t, deadline, "creating")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, poll.ErrNotYet)
	require.Equal(t, seconds(30, 33, 39, 49, 59), s.at)
	require.Equal(t, 59*time.Second, took)
}

// There the goroutine of the look stays behind.
func TestALookThatHangsIsLeftAfter30SecondsInTerraformOnly(t *testing.T) {
	_, _, took, err := described(t, func(ctx context.Context, _ describing) (*volume, error) {
		released := make(chan struct{})
		defer close(released)
		return terraformState(ctx, func(context.Context) (*volume, error) { <-released; return nil, nil })
	}, nil)
	require.ErrorContains(t, err, "timeout while waiting for state")
	require.Equal(t, 10*time.Minute+30*time.Second, took)

	_, v, took, err := described(t, func(ctx context.Context, _ describing) (*volume, error) {
		return hereTerraformState(ctx, func(context.Context) (*volume, error) {
			time.Sleep(time.Hour)
			return &volume{"available"}, nil
		})
	}, nil)
	require.NoError(t, err)
	require.Equal(t, "available", v.State)
	require.Equal(t, time.Hour+30*time.Second, took)
}

func TestAWaitForTheAbsenceLooksAtTheSameTimes(t *testing.T) {
	for _, wait := range []func(context.Context, describing) error{terraformGone, hereTerraformGone} {
		s, _, _, err := described(t, func(ctx context.Context, describe describing) (*volume, error) {
			return nil, wait(ctx, describe)
		}, "deleting", "deleting", nil)
		require.NoError(t, err)
		require.Len(t, s.at, 3)
		require.Equal(t, seconds(5, 5), []time.Duration{s.at[1] - s.at[0], s.at[2] - s.at[1]})
	}
}

func TestRetryContextOfTerraformHasTheSameAttempts(t *testing.T) {
	took := map[string]time.Duration{}
	for name, c := range map[string]call{"terraform": terraformRetry, ours: hereTerraformRetry} {
		r := recorded(t, func(ctx context.Context, op operation) error {
			began := time.Now()
			defer func() { took[name] = time.Since(began) }()
			return c(ctx, op)
		}, errBusy)
		require.Equal(t, seconds(0, 0.5, 1.5, 3.5, 7.5, 15.5, 25.5, 35.5, 45.5, 55.5, 65.5, 75.5, 85.5, 95.5, 105.5, 115.5), r.at, name)
		require.Equal(t, errBusy, r.err, name)

		r = recorded(t, c, errBusy, errDown)
		require.Len(t, r.at, 2, name)
		require.Equal(t, errDown, r.err, name)
		require.NoError(t, recorded(t, c, errBusy, nil).err)
	}
	require.Equal(t, map[string]time.Duration{"terraform": 2 * time.Minute, ours: 115500 * time.Millisecond}, took)
}
