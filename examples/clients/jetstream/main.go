// Command jetstream publishes orders to NATS JetStream and consumes them. Watch
// order 1: its answer is lost, it is published again, and stored once. Order 2
// fails twice and is delivered again after waits. Order 3 is poison, and ends.
//
// It needs a server with JetStream on 127.0.0.1:4222. In the root of the
// repository:
//
//	docker compose up --detach --wait nats
//	go run -C examples/clients ./jetstream
package main

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/examples/internal/journal"
)

// publishing retries under one key per order: the stream drops a second one.
var publishing = backoff.Policy{
	Name:           "publish",
	AttemptTimeout: time.Second, // the wait for the stream's answer
	Schedule:       backoff.Exponential{Initial: 50 * time.Millisecond},
	Idempotency:    backoff.Keyed,
}

// publish publishes an order until the stream has confirmed it.
func publish(ctx context.Context, log *journal.Journal, js jetstream.JetStream, subject, order string) error {
	policy := publishing
	policy.Observer = log.Observe
	return policy.Do(ctx, func(ctx context.Context) error {
		// The client's own retries are off. They would multiply these.
		answer, err := js.Publish(ctx, subject, []byte(order), jetstream.WithMsgID(backoff.IdempotencyKey(ctx)), jetstream.WithRetryAttempts(0))
		if err == nil {
			log.Say("%s is stored; was stored before: %t", order, answer.Duplicate)
		}
		return err
	})
}

// redelivery says when the server delivers an order again.
var redelivery = backoff.Policy{MaxAttempts: -1, Schedule: backoff.Exponential{Initial: 200 * time.Millisecond}, Jitter: backoff.EqualJitter}

// A receiver handles deliveries, and remembers which orders fail while others are
// done. An outage fails them all, and ends none.
type receiver struct {
	log    *journal.Journal
	handle func(order string, delivery int) error

	works bool           // the order before this one was done
	alone map[string]int // how often an order failed after one that was done
}

// receive handles one delivery. It reports whether the order is finished with.
func (r *receiver) receive(m jetstream.Msg) (finished bool, err error) {
	meta, err := m.Metadata()
	if err != nil {
		return false, err
	}
	order, delivery := string(m.Data()), int(meta.NumDelivered)
	failed := r.handle(order, delivery)
	if failed != nil && r.works {
		r.alone[order]++
	}
	r.works = failed == nil
	next := redelivery.Decide(delivery, failed)
	switch {
	case failed == nil:
		r.log.Say("delivery %d of %s: done", delivery, order)
		return true, m.Ack()
	case next.Again && r.alone[order] < 4:
		r.log.Say("delivery %d of %s: %v; again in %v", delivery, order, failed, journal.Round(next.Wait))
		return false, m.NakWithDelay(next.Wait)
	}
	r.log.Say("delivery %d of %s: %v; not again", delivery, order, failed)
	return true, m.TermWithReason(failed.Error())
}

func main() { journal.Main(run) }
