package plug_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/plug"
)

func TestGRPCHooksFollowThePolicy(t *testing.T) {
	unavailable := errors.New("unavailable")
	var seen []backoff.Event
	p := steps
	p.Name = "get"
	p.Classify = plug.OnCode(func(err error) bool { return err == unavailable }, true)
	p.Observer = func(_ context.Context, e backoff.Event) { seen = append(seen, e); panic("an observer's") }
	g := plug.GRPC(p)

	require.EqualValues(t, 4, g.Max())
	require.True(t, g.Retriable(unavailable))
	require.False(t, g.Retriable(errors.New("other")))
	require.False(t, g.Retriable(nil))
	require.False(t, plug.GRPC(steps).Retriable(unavailable), "no code is known without a classifier")
	require.Equal(t, 200*time.Millisecond, g.Backoff(t.Context(), 2))
	require.Equal(t, 100*time.Millisecond, g.Backoff(t.Context(), 0))
	require.Equal(t, time.Second, g.Backoff(t.Context(), math.MaxUint))

	g.OnRetry(t.Context(), 2, unavailable)
	require.Equal(t, []backoff.Event{{
		Kind: backoff.EventRetry, Name: "get", Attempt: 2, MaxAttempts: 4, Err: unavailable, Class: backoff.ClassRetryable,
	}}, seen)
	plug.GRPC(steps).OnRetry(t.Context(), 1, unavailable)
}

func TestGRPCRetriesNothingUnderWhatCannotBeObeyed(t *testing.T) {
	g := plug.GRPC(invalid)
	require.False(t, g.Retriable(errTransient))
	require.EqualValues(t, 1, g.Max())
	g.OnRetry(t.Context(), 1, errTransient)

	require.EqualValues(t, 4, plug.GRPC(backoff.Policy{MaxAttempts: -1}).Max())
	require.True(t, plug.GRPC(steps).Retriable(errTransient))
	p := steps
	p.Idempotency = backoff.NonIdempotent
	require.False(t, plug.GRPC(p).Retriable(errTransient))
}
