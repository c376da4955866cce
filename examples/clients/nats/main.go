// Command nats keeps a connection to a NATS server. Watch the connection break
// twice, and the server restart: the waits grow while it is down, and then
// every one of 40 messages has come back.
//
// The messages are requests, which the program's own subscription answers. A
// proxy in between makes the failures.
//
// NATS has its own reconnect loop, whose waits come from
// [backoff.Policy.WaitBefore]. Requests that were on their way when the connection
// broke are lost, and [backoff.Policy.Do] sends them again.
//
// It needs a server on 127.0.0.1:4222. In the root of the repository:
//
//	docker compose up --detach --wait nats
//	go run -C examples/clients ./nats
package main

import (
	"context"
	"io"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/examples/clients/internal/drill"
	"github.com/gobackoff/backoff/examples/internal/journal"
)

const server = "127.0.0.1:4222"

// reconnecting is the policy for connections. NATS counts its attempts from 1
// after every lost connection.
var reconnecting = backoff.Policy{
	Schedule: backoff.Exponential{Initial: 50 * time.Millisecond, Max: 30 * time.Second},
}

// requesting is the policy for requests.
var requesting = backoff.Policy{
	Name:           "request",
	MaxAttempts:    -1, // until ctx ends
	AttemptTimeout: 250 * time.Millisecond,
	Schedule:       backoff.Exponential{Initial: 20 * time.Millisecond, Max: 200 * time.Millisecond},
}

func main() {
	journal.Main(func(ctx context.Context, out io.Writer) error {
		_, err := run(ctx, out, reconnecting)
		return err
	})
}

func run(ctx context.Context, out io.Writer, policy backoff.Policy) (drill.Report, error) {
	d, err := drill.Start(out, server)
	if err != nil {
		return drill.Report{}, err
	}
	defer d.Close()

	conn, err := nats.Connect(d.Addr(),
		nats.CustomReconnectDelay(d.Delay(policy.WaitBefore)), // or policy.WaitBefore, without the drill
		nats.MaxReconnects(-1),
		nats.IgnoreDiscoveredServers(), // otherwise it would bypass the proxy
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

// exchange publishes every number until it is answered. It subscribes once, and
// NATS renews the subscription with the connection.
func exchange(ctx context.Context, d *drill.Drill, conn *nats.Conn) error {
	subject := nats.NewInbox()
	if _, err := conn.Subscribe(subject, func(m *nats.Msg) {
		d.Received(string(m.Data))
		m.Respond(nil)
	}); err != nil {
		return err
	}
	policy := requesting
	policy.Observer = d.Observe
	for n := range d.Numbers(ctx) {
		err := policy.Do(ctx, func(ctx context.Context) error {
			_, err := conn.RequestWithContext(ctx, subject, []byte(strconv.Itoa(n)))
			return err
		})
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}
