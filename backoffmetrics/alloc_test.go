//go:build !race

package backoffmetrics_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffmetrics"
	"github.com/gobackoff/backoff/guard/endpoint"
)

// The race detector allocates, so this runs without it.
func TestCountingAllocatesNothing(t *testing.T) {
	var m backoffmetrics.Metrics
	p := &backoff.Policy{Name: "fetch", Observer: m.Observe}
	ctx := t.Context()
	for name, call := range map[string]func(){
		"a success at once": func() { _ = p.Do(ctx, func(context.Context) error { return nil }) },
		"a retry": func() {
			m.Observe(ctx, backoff.Event{Kind: backoff.EventRetry, Name: "fetch", Attempt: 1, Delay: 1, Wait: 1})
		},
		"an end": func() {
			m.Observe(ctx, backoff.Event{Kind: backoff.EventGiveUp, Name: "fetch", Attempt: 4, Slept: 1})
		},
		"no name": func() { m.Observe(ctx, backoff.Event{Kind: backoff.EventSuccess, Attempt: 1}) },
	} {
		call()
		require.Zero(t, testing.AllocsPerRun(100, call), name)
	}
	one := endpoint.With(ctx, &endpoint.Endpoint{Name: "GET a.test"})
	other := endpoint.With(ctx, &endpoint.Endpoint{Name: "GET a.test"})
	call := func() {
		m.Observe(one, backoff.Event{Kind: backoff.EventSuccess, Name: "fetch", Attempt: 1})
		m.Observe(other, backoff.Event{Kind: backoff.EventSuccess, Name: "fetch", Attempt: 1})
	}
	call()
	require.Zero(t, testing.AllocsPerRun(100, call), "two clients of one host")
	call = func() {
		m.Observe(ctx, backoff.Event{Kind: backoff.EventRetry, Name: "fetch", Attempt: 1, Err: errDown})
	}
	call()
	require.LessOrEqual(t, testing.AllocsPerRun(100, call), 2.0, "an error")
}
