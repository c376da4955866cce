//go:build integration

package main

import (
	"context"
	"testing"
	"time"

	"github.com/gobackoff/backoff/examples/clients/internal/drill/drilltest"
)

func TestMessagesFlowAgainAfterCutsAndARestart(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	supervisor := supervisor
	supervisor.Policy.Rand = drilltest.Longest
	report, err := run(ctx, t.Output(), supervisor)
	if err != nil {
		t.Fatal(err)
	}
	drilltest.Connections(t, report)
	drilltest.Waits(t, report, supervisor.Policy)
}
