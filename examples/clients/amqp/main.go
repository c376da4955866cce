// Command amqp is a service that keeps a connection to RabbitMQ. Watch the
// connection break twice, and the broker restart: the waits grow while it is
// down, and then every one of 40 messages has come back.
//
// The messages are published with confirms and consumed with acknowledgements.
// A proxy in between makes the failures.
//
// A [backoff.Supervisor] is the reconnect loop. After a connection that lasted
// ResetAfter the schedule starts again. So the waits grow if the broker accepts
// connections and drops them, and are short if a connection was lost after
// hours.
//
// It needs RabbitMQ on 127.0.0.1:5672. In the root of the repository:
//
//	docker compose up --detach --wait rabbitmq
//	go run -C examples/clients ./amqp
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/examples/clients/internal/drill"
	"github.com/gobackoff/backoff/examples/internal/journal"
)

const broker = "127.0.0.1:5672"

var supervisor = backoff.Supervisor{
	Policy: backoff.Policy{
		Name:     "amqp",
		Schedule: backoff.Exponential{Initial: 50 * time.Millisecond, Max: 30 * time.Second},
	},
	ResetAfter: 300 * time.Millisecond, // short for this demonstration; the default is 10 to 30 s
}

func main() {
	journal.Main(func(ctx context.Context, out io.Writer) error {
		_, err := run(ctx, out, supervisor)
		return err
	})
}

func run(ctx context.Context, out io.Writer, supervisor backoff.Supervisor) (drill.Report, error) {
	d, err := drill.Start(out, broker)
	if err != nil {
		return drill.Report{}, err
	}
	defer d.Close()
	ctx, cancel := d.Context(ctx)
	defer cancel()

	supervisor.Policy.Observer = d.Observe
	service := service{drill: d, login: "guest:guest", queue: "backoff-" + rand.Text()[:8]}
	err = supervisor.RunReady(ctx, service.connect)
	if report := d.Report(); report.Received == drill.Messages {
		return report, nil
	}
	return drill.Report{}, err
}

// A service publishes and consumes messages.
type service struct {
	drill *drill.Drill
	login string // user:password
	queue string // is kept for a minute without a connection
}

// connect runs one connection, from dialling to its end.
func (s *service) connect(ctx context.Context, ready func()) error {
	conn, err := amqp.DialConfig("amqp://"+s.login+"@"+s.drill.Addr(), amqp.Config{Dial: amqp.DefaultDial(5 * time.Second)})
	if errors.Is(err, amqp.ErrCredentials) {
		return backoff.Permanent(err) // wrong credentials stay wrong: this ends the loop
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	lost := conn.NotifyClose(make(chan *amqp.Error, 1))
	go func() {
		if err, ok := <-lost; ok {
			end(err) // ctx ends with the connection
		}
	}()
	err = s.work(ctx, ready, conn)
	if ctx.Err() != nil {
		return context.Cause(ctx) // tells why the connection ended, as ctx.Err() does not
	}
	return err
}

// work publishes and consumes until ctx ends.
func (s *service) work(ctx context.Context, ready func(), conn *amqp.Connection) error {
	channel, deliveries, err := s.subscribe(conn)
	if err != nil {
		return err
	}
	ready() // with a Budget, another service may connect now
	s.drill.Say("subscribed")
	go s.consume(deliveries) // ends with the connection
	return s.publish(ctx, channel)
}

func (s *service) subscribe(conn *amqp.Connection) (*amqp.Channel, <-chan amqp.Delivery, error) {
	channel, err := conn.Channel()
	if err != nil {
		return nil, nil, err
	}
	if err := channel.Confirm(false); err != nil {
		return nil, nil, err
	}
	expiry := amqp.Table{"x-expires": 60_000} // ms
	if _, err := channel.QueueDeclare(s.queue, true, false, false, false, expiry); err != nil {
		return nil, nil, err
	}
	deliveries, err := channel.Consume(s.queue, "", false, false, false, false, nil)
	return channel, deliveries, err
}

func (s *service) consume(deliveries <-chan amqp.Delivery) {
	for m := range deliveries {
		s.drill.Received(string(m.Body))
		m.Ack(false) // a message that is not acknowledged is delivered again
	}
}

// publish publishes until ctx ends. A message that was not confirmed is the
// first message of the next connection.
func (s *service) publish(ctx context.Context, channel *amqp.Channel) error {
	for n := range s.drill.Numbers(ctx) {
		message := amqp.Publishing{Body: []byte(strconv.Itoa(n))}
		confirm, err := channel.PublishWithDeferredConfirmWithContext(ctx, "", s.queue, false, false, message)
		if err != nil {
			return err
		}
		if ok, err := confirm.WaitContext(ctx); !ok {
			return errors.Join(errors.New("not confirmed"), err)
		}
	}
	<-ctx.Done()
	return nil
}
