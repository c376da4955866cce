package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backofftest/fault"
	"github.com/gobackoff/backoff/examples/internal/journal"
)

const server = "127.0.0.1:4222"

var orders = []string{"order 1", "order 2", "order 3"}

// handle is what the shop does with an order.
func handle(order string, delivery int) error {
	switch {
	case order == "order 2" && delivery < 3:
		return errors.New("the warehouse does not answer")
	case order == "order 3":
		return backoff.Permanent(errors.New("no such article"))
	}
	return nil
}

// run publishes the orders through a proxy that loses an answer, and consumes
// them.
func run(ctx context.Context, out io.Writer) error {
	proxy, err := new(fault.Injector).Proxy(server)
	if err != nil {
		return err
	}
	defer proxy.Close()
	conn, err := nats.Connect(proxy.Addr(), nats.IgnoreDiscoveredServers(), // otherwise it would bypass the proxy
		nats.MaxReconnects(-1), nats.CustomReconnectDelay(publishing.WaitBefore))
	if err != nil {
		return fmt.Errorf("%w (compose.yaml starts the server)", err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	name := "example-" + rand.Text()[:8]
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: name, Subjects: []string{name}, Storage: jetstream.MemoryStorage,
		Duplicates: 2 * time.Minute, // how long the stream knows a key
	})
	if err != nil {
		return err
	}
	defer js.DeleteStream(context.WithoutCancel(ctx), name)

	log := journal.New(out)
	defer log.Sum()
	var answers atomic.Int64
	proxy.SetPlan(func(fault.Attempt) fault.Fault {
		if answers.Add(1) == 1 {
			return fault.Lost()
		}
		return fault.OK()
	})
	for _, order := range orders {
		if err := publish(ctx, log, js, name, order); err != nil {
			return err
		}
	}
	info, err := stream.Info(ctx)
	if err != nil {
		return err
	}
	log.Say("the stream has %s", journal.Count(int(info.State.Msgs), "message"))
	return consume(ctx, &receiver{log: log, handle: handle, alone: map[string]int{}}, stream, len(orders))
}

// consume receives orders until so many are finished with.
func consume(ctx context.Context, r *receiver, stream jetstream.Stream, left int) error {
	consumer, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		return err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	for left > 0 {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		finished, err := r.receive(m)
		if err != nil {
			return err
		}
		if finished {
			left--
		}
	}
	return nil
}
