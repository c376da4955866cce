package inbound_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/internal/inbound"
)

func TestADeadlineIsTheClientsUnlessThisProcessHasAnEarlierOne(t *testing.T) {
	at := time.Now().Add(time.Hour)
	require.False(t, inbound.Limits(t.Context()))
	ctx, cancel := inbound.WithDeadline(t.Context(), at)
	defer cancel()
	require.True(t, inbound.Limits(ctx))
	require.False(t, inbound.Limits(context.WithoutCancel(ctx)), "it has none")

	own, cancel := context.WithDeadline(ctx, at.Add(-time.Minute))
	defer cancel()
	require.False(t, inbound.Limits(own))
	later, cancel := context.WithDeadline(ctx, at.Add(time.Minute))
	defer cancel()
	require.True(t, inbound.Limits(later))

	again, cancel := inbound.WithDeadline(ctx, at.Add(time.Minute))
	defer cancel()
	require.True(t, inbound.Limits(again), "the first is earlier")

	server, cancel := context.WithDeadline(t.Context(), at.Add(-time.Minute))
	defer cancel()
	ctx, cancel = inbound.WithDeadline(server, at)
	defer cancel()
	require.False(t, inbound.Limits(ctx), "the server's own is earlier")

	plain, cancel := context.WithDeadline(t.Context(), at)
	defer cancel()
	require.False(t, inbound.Limits(plain))
	require.True(t, inbound.Limits(inbound.Mark(plain)))
	require.False(t, inbound.Limits(inbound.Mark(t.Context())), "it has none")
}
