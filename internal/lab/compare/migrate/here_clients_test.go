package migrate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/limit"
	"github.com/gobackoff/backoff/pace"
	"github.com/gobackoff/backoff/poll"
)

func hereRetryableClient() *http.Client {
	client := backoffhttp.Client(backoff.Policy{
		MaxAttempts: 4,
		Schedule:    backoff.Exponential{Initial: 100 * time.Millisecond, Max: 5 * time.Second},
		Jitter:      backoff.NoJitter, // as there; without it, the waits are random up to these
	})
	return client
}

func hereRetryableSafe() *http.Client {
	client := backoffhttp.Client(backoff.Policy{Idempotency: backoff.Idempotent})
	return client
}

func hereRetryableWhole() *http.Client {
	client := backoffhttp.WrapClient(&http.Client{Timeout: 10 * time.Second, CheckRedirect: noRedirects}, vaultPolicy())
	return client
}

func vaultPolicy() backoff.Policy {
	return backoff.Policy{
		Idempotency: backoff.Idempotent,
		MaxAttempts: 3,
		Schedule:    backoff.Linear{Initial: time.Second, Step: time.Second},
		Jitter:      backoff.NoJitter,
		Classify: func(err error) backoff.Class {
			if status, ok := errors.AsType[*backoffhttp.StatusError](err); ok && status.Code == http.StatusPreconditionFailed {
				return backoff.ClassRetryable
			}
			return backoff.ClassUnknown // as usual
		},
	}
}

func noRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func hereRetryablePost(req *http.Request) *http.Request {
	req = req.WithContext(backoffhttp.WithRetry(req.Context(), func(p *backoff.Policy) {
		p.Idempotency = backoff.Idempotent
	}))
	return req
}

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
			return nil, false, backoff.Pushback(poll.ErrNotYet, d)
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

func herePollTimeout(ctx context.Context, isReady condition) error {
	readiness := backoff.Policy{
		Name:        "readiness",
		Schedule:    backoff.Constant(10 * time.Second),
		Jitter:      backoff.NoJitter,
		MaxElapsed:  55 * time.Second,
		MaxAttempts: 1, // failed looks
	}
	err := poll.Until(ctx, readiness, isReady)
	return err
}

func herePollCancel(ctx context.Context, isReady condition) error {
	readiness := backoff.Policy{
		Name:        "readiness",
		Schedule:    backoff.Constant(10 * time.Second),
		Jitter:      backoff.NoJitter,
		MaxElapsed:  -1, // until ctx ends
		MaxAttempts: 1,
	}
	err := poll.Until(ctx, readiness, isReady)
	return err
}

func herePollSteps(ctx context.Context, isReady condition) error {
	readiness := backoff.Policy{
		Name:        "readiness",
		Schedule:    backoff.Exponential{Initial: time.Second, Max: -1},
		Jitter:      backoff.NoJitter,
		MaxElapsed:  15 * time.Second, // 1 + 2 + 4 + 8
		MaxAttempts: 1,
	}
	err := poll.Until(ctx, readiness, isReady)
	return err
}

func herePollBucket(ctx context.Context, client s3.HeadBucketAPIClient, input *s3.HeadBucketInput) error {
	bucket := backoff.Policy{
		Name:        "bucket",
		Schedule:    backoff.Exponential{Initial: 2 * time.Second, Max: 30 * time.Second},
		MaxElapsed:  2 * time.Minute,
		MaxAttempts: 1, // the client retries by itself
	}
	err := poll.Until(ctx, bucket, func(ctx context.Context) (exists bool, err error) {
		_, err = client.HeadBucket(ctx, input)
		if _, missing := errors.AsType[*types.NotFound](err); missing {
			return false, nil
		}
		return err == nil, err
	})
	return err
}
