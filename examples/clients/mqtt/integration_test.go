//go:build integration

package main

import (
	"context"
	"io"
	"testing"

	"github.com/gobackoff/backoff/examples/clients/internal/drill"
	"github.com/gobackoff/backoff/examples/clients/internal/drill/drilltest"
)

func TestMessagesFlowAgainAfterCutsAndARestart(t *testing.T) {
	supervisor := supervisor
	drilltest.Flows(t, &supervisor.Policy, func(ctx context.Context, out io.Writer) (drill.Report, error) { return run(ctx, out, supervisor) })
}
