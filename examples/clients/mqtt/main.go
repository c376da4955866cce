// Command mqtt is a device that keeps a connection to an MQTT broker. Watch the
// connection break twice, and the broker restart: the waits grow while it is
// down, and then every one of 40 messages has come back.
//
// The device receives what it publishes by its own subscription. A proxy in
// between makes the failures.
//
// paho's client ends with its connection, so a [backoff.Supervisor] is the
// reconnect loop. It dials, logs in and subscribes again after a wait. The
// first wait is jittered too, so that the devices of a fleet do not reconnect
// all at once. (autopaho has its own loop. Its ReconnectBackoff takes
// policy.WaitBefore.)
//
// It needs a broker on 127.0.0.1:1883. In the root of the repository:
//
//	docker compose up --detach --wait mosquitto
//	go run -C examples/clients ./mqtt
package main

import (
	"context"
	"crypto/rand"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/examples/clients/internal/drill"
	"github.com/gobackoff/backoff/examples/internal/journal"
)

const broker = "127.0.0.1:1883"

var supervisor = backoff.Supervisor{
	Policy: backoff.Policy{
		Name:     "mqtt",
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
	device := device{drill: d, id: "backoff-" + rand.Text()[:8]}
	err = supervisor.RunReady(ctx, device.connect)
	if report := d.Report(); report.Received == drill.Messages {
		return report, nil
	}
	return drill.Report{}, err
}

// A device publishes and receives messages.
type device struct {
	drill *drill.Drill
	id    string // also names the topic and the session, which the broker keeps
}

// connect runs one connection, from dialling to its end.
func (v *device) connect(ctx context.Context, ready func()) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", v.drill.Addr())
	if err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	client := paho.NewClient(paho.ClientConfig{
		Conn:              conn,
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){v.receive},
		OnClientError:     end, // ctx ends with the connection
	})
	if err := v.login(ctx, client); err != nil {
		return err
	}
	defer client.Disconnect(&paho.Disconnect{})
	err = v.work(ctx, ready, client)
	if ctx.Err() != nil {
		return context.Cause(ctx) // tells why the connection ended, as ctx.Err() does not
	}
	return err
}

func (v *device) login(ctx context.Context, client *paho.Client) error {
	expiry := uint32(60) // the broker keeps messages that arrive in the meantime
	answer, err := client.Connect(ctx, &paho.Connect{
		ClientID:   v.id,
		KeepAlive:  10,
		Properties: &paho.ConnectProperties{SessionExpiryInterval: &expiry},
	})
	if err != nil && answer != nil && answer.ReasonCode == packets.ConnackNotAuthorized {
		return backoff.Permanent(err) // a login that is not authorized stays so: this ends the loop
	}
	return err
}

// work publishes until ctx ends. A message that was not confirmed is the first
// message of the next connection.
func (v *device) work(ctx context.Context, ready func(), client *paho.Client) error {
	topic := paho.SubscribeOptions{Topic: v.id, QoS: 1}
	if _, err := client.Subscribe(ctx, &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{topic}}); err != nil {
		return err
	}
	ready() // with a Budget, another device may connect now
	v.drill.Say("subscribed")
	for n := range v.drill.Numbers(ctx) {
		message := paho.Publish{Topic: v.id, QoS: 1, Payload: []byte(strconv.Itoa(n))}
		if _, err := client.Publish(ctx, &message); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

func (v *device) receive(r paho.PublishReceived) (bool, error) {
	v.drill.Received(string(r.Packet.Payload))
	return true, nil
}
