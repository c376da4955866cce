package guard_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
)

var errMissing = fmt.Errorf("connect: %w", &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "db", IsNotFound: true}})

func TestACallWithAnEndWaitsForTheNameOfItsService(t *testing.T) {
	for name, do := range map[string]func(*testing.T, *guard.Service, func(context.Context) error) error{
		"a deadline": func(t *testing.T, s *guard.Service, op func(context.Context) error) error {
			return doWithin(t, s.With(backoff.Policy{}), time.Minute, op)
		},
		"MaxElapsed": func(t *testing.T, s *guard.Service, op func(context.Context) error) error {
			return s.Do(t.Context(), backoff.Policy{MaxElapsed: time.Minute}, op)
		},
		"a classifier that knows no more": func(t *testing.T, s *guard.Service, op func(context.Context) error) error {
			return s.Do(t.Context(), backoff.Policy{MaxElapsed: time.Minute, Classify: backoff.DefaultClassifier}, op)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			o := newOutage(20*time.Second, errMissing)
			require.NoError(t, do(t, new(guard.Service), o.call), name)
			require.Less(t, time.Since(o.began), 40*time.Second, name)
			require.Less(t, len(o.at), 200, name)
		})
	}
}

func TestAMistypedNameIsReturnedAtOnceOrWhenTheTimeIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, do := range map[string]func(op func(context.Context) error) error{
			"no end": func(op func(context.Context) error) error {
				return new(guard.Service).Do(t.Context(), backoff.Policy{}, op)
			},
			"fails fast": func(op func(context.Context) error) error {
				return doWithin(t, (&guard.Service{FailFast: true}).With(backoff.Policy{}), time.Minute, op)
			},
			"one attempt": func(op func(context.Context) error) error {
				return doWithin(t, new(guard.Service).With(once), time.Minute, op)
			},
		} {
			o := newOutage(time.Hour, errMissing)
			require.True(t, do(o.call) == errMissing, name)
			require.Len(t, o.at, 1, name)
			require.Zero(t, time.Since(o.began), name)
		}
		o := newOutage(time.Hour, backoff.Permanent(errMissing))
		require.ErrorIs(t, doWithin(t, new(guard.Service).With(backoff.Policy{}), time.Minute, o.call), errMissing)
		require.Len(t, o.at, 1, "marked")

		o = newOutage(time.Hour, errMissing)
		err := doWithin(t, new(guard.Service).With(backoff.Policy{Name: "db"}), time.Minute, o.call)
		require.ErrorContains(t, err, "lookup db: no such host")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.LessOrEqual(t, time.Since(o.began), time.Minute)
		t.Log(err)
	})
}
