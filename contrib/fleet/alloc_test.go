//go:build !race

package fleet_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/fleet"
)

// The race detector allocates, so this runs without it.
func TestACallWithKnownAdviceAllocatesNothing(t *testing.T) {
	hub := &fleet.Client{Store: new(fleet.Memory), Every: time.Hour}
	b := &backoff.Breaker{Name: "db", Shared: hub}
	ctx := t.Context()
	n := 0
	call := func() { _ = b.Do(ctx, func(context.Context) error { n++; return nil }) }
	call()
	require.NoError(t, hub.Flush(ctx))
	require.Zero(t, testing.AllocsPerRun(100, call))
	require.NoError(t, hub.Close(ctx))
}
