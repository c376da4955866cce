// Command nats keeps a connection to a NATS server: it publishes numbered
// messages as requests that its own subscription answers, while a proxy between
// the two cuts the connection, then refuses it for a while as a server does
// that restarts, then cuts it again.
//
// NATS has a reconnect loop of its own, which waits what [backoff.Policy.Delay]
// says. The requests are another matter: what was on its way when the
// connection broke is lost, and [backoff.Policy.Do] sends it again.
//
// It needs a server on 127.0.0.1:4222. In the root of the repository:
//
//	docker compose up --detach --wait nats
//	go run -C examples/clients ./nats
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/examples/clients/internal/drill"
)

const server = "127.0.0.1:4222"

// NATS counts from 1 with every connection that is lost, however short it was.
var reconnecting = backoff.Policy{
	Schedule: backoff.Exponential{Initial: 50 * time.Millisecond, Max: 30 * time.Second},
}

var requesting = backoff.Policy{
	Name:           "request",
	MaxAttempts:    -1, // until ctx ends
	AttemptTimeout: 250 * time.Millisecond,
	Schedule:       backoff.Exponential{Initial: 20 * time.Millisecond, Max: 200 * time.Millisecond},
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	if _, err := run(ctx, os.Stdout, reconnecting); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, policy backoff.Policy) (drill.Report, error) {
	d, err := drill.Start(out, server)
	if err != nil {
		return drill.Report{}, err
	}
	defer d.Close()

	conn, err := nats.Connect(d.Addr(),
		nats.CustomReconnectDelay(d.Delay(policy.Delay)), // or policy.Delay, if nobody takes notes
		nats.MaxReconnects(-1),
		nats.IgnoreDiscoveredServers(), // or it would go around the proxy
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { d.Say("%v", err) }),
		nats.ReconnectHandler(func(*nats.Conn) { d.Say("connected again") }),
	)
	if err != nil {
		return drill.Report{}, err
	}
	defer conn.Close()
	err = exchange(ctx, d, conn)
	return d.Report(), err
}

// exchange publishes every number until it is answered. The subscription is
// made once: NATS renews it with the connection.
func exchange(ctx context.Context, d *drill.Drill, conn *nats.Conn) error {
	subject := nats.NewInbox()
	if _, err := conn.Subscribe(subject, func(m *nats.Msg) {
		d.Received(string(m.Data))
		m.Respond(nil)
	}); err != nil {
		return err
	}
	for n := range d.Numbers(ctx) {
		err := requesting.Do(ctx, func(ctx context.Context) error {
			_, err := conn.RequestWithContext(ctx, subject, []byte(strconv.Itoa(n)))
			return err
		})
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}
