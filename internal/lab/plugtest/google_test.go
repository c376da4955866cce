//go:build nightly

package plugtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"cloud.google.com/go/storage"
	"github.com/googleapis/gax-go/v2"
	"github.com/stretchr/testify/require"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/plug"
)

func invoke(t *testing.T, p backoff.Policy, op func(n int) error) (attempts int, err error) {
	err = gax.Invoke(t.Context(), func(context.Context, gax.CallSettings) error {
		attempts++
		return op(attempts)
	}, gax.WithRetry(func() gax.Retryer { return plug.Gax(p.Start(t.Context()).Tried) }))
	return attempts, err
}

func TestGaxRetriesWithThePolicysWaits(t *testing.T) {
	p := steps
	p.Classify = plug.OnCode(status.Code, codes.Unavailable)
	unavailable := status.Error(codes.Unavailable, "try later")

	began := time.Now()
	attempts, err := invoke(t, p, func(n int) error {
		if n < 3 {
			return unavailable
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, 3, attempts)
	require.GreaterOrEqual(t, time.Since(began), 60*time.Millisecond)

	attempts, err = invoke(t, p, func(int) error { return unavailable })
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.Equal(t, 4, attempts)

	attempts, err = invoke(t, p, func(int) error { return status.Error(codes.NotFound, "") })
	require.Equal(t, codes.NotFound, status.Code(err))
	require.Equal(t, 1, attempts)
}

func TestGaxStopsWhereAPolicyInsideGaveUp(t *testing.T) {
	inner, calls := backoff.Policy{Schedule: backoff.Constant(0)}, 0
	attempts, err := invoke(t, steps, func(int) error {
		return inner.Do(t.Context(), func(context.Context) error { calls++; return errDown })
	})
	require.ErrorIs(t, err, backoff.ErrExhausted)
	require.Equal(t, 1, attempts)
	require.Equal(t, 4, calls)
}

func bucket(t *testing.T, s *server, opts ...storage.RetryOption) *storage.BucketHandle {
	client, err := storage.NewClient(t.Context(), option.WithEndpoint(s.URL+"/storage/v1/"), option.WithoutAuthentication())
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	fast := storage.WithBackoff(gax.Backoff{Initial: time.Millisecond, Max: 5 * time.Millisecond})
	return client.Bucket("b").Retryer(append(opts, fast)...)
}

// storage also asks about success: a classifier that calls nil retryable would
// loop forever.
func TestStorageAsksThePolicy(t *testing.T) {
	asked := 0
	p := steps
	p.Classify = func(err error) backoff.Class {
		asked++
		if googleErr := new(googleapi.Error); errors.As(err, &googleErr) && googleErr.Code == 418 {
			return backoff.ClassRetryable
		}
		return backoff.RetryIf(storage.ShouldRetry)(err)
	}
	s := serve(t, answer(503, ""), answer(418, ""), reset, answer(200, `{"name":"b"}`, "Content-Type", "application/json"))
	_, err := bucket(t, s, storage.WithErrorFunc(p.Retryable)).Attrs(t.Context())
	require.NoError(t, err)
	require.Len(t, s.gaps(), 3)
	require.Equal(t, 2, asked, "the reset of a kept connection is net/http's own to repeat")

	s = serve(t, answer(403, ""))
	_, err = bucket(t, s, storage.WithErrorFunc(p.Retryable)).Attrs(t.Context())
	var refused *googleapi.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, 403, refused.Code)
	s.waited(t)

	yes := steps
	yes.Classify = func(error) backoff.Class { return backoff.ClassRetryable }
	s = serve(t, answer(200, `{"name":"b"}`, "Content-Type", "application/json"))
	_, err = bucket(t, s, storage.WithErrorFunc(yes.Retryable)).Attrs(t.Context())
	require.NoError(t, err)
	s.waited(t)
}
