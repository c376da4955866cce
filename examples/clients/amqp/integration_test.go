//go:build integration

package main

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/gobackoff/backoff/examples/clients/internal/drill"
	"github.com/gobackoff/backoff/examples/clients/internal/drill/drilltest"
)

func TestMessagesFlowAgainAfterCutsAndARestart(t *testing.T) {
	supervisor := supervisor
	drilltest.Flows(t, &supervisor.Policy, func(ctx context.Context, out io.Writer) (drill.Report, error) { return run(ctx, out, supervisor) })
}

func TestWrongCredentialsEndTheLoop(t *testing.T) {
	d, err := drill.Start(t.Output(), broker)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	service := service{drill: d, login: "guest:wrong"}
	if err := supervisor.RunReady(ctx, service.connect); !errors.Is(err, amqp.ErrCredentials) {
		t.Errorf("got %v, want %v", err, amqp.ErrCredentials)
	}
	if n := d.Report().Connections; n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}
