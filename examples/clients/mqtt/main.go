// Command mqtt is a device that keeps its connection to an MQTT broker: it
// publishes numbered messages and gets them back by its own subscription, while
// a proxy between the two cuts the connection, then refuses it for a while as a
// broker does that restarts, then cuts it again.
//
// paho's client ends with its connection, so [backoff.Policy.Supervise] is the
// reconnect loop: it dials, logs in and subscribes again, after a wait that is
// jittered also the first time, so that a fleet that lost its broker does not
// come back as one. (autopaho has a loop of its own; its ReconnectBackoff takes
// policy.Delay.)
//
// It needs a broker on 127.0.0.1:1883. In the root of the repository:
//
//	docker compose up --detach --wait mosquitto
//	go run -C examples/clients ./mqtt
package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/examples/clients/internal/drill"
)

const broker = "127.0.0.1:1883"

var policy = backoff.Policy{
	Name:       "mqtt",
	Schedule:   backoff.Exponential{Initial: 50 * time.Millisecond, Max: 30 * time.Second},
	ResetAfter: 300 * time.Millisecond, // for a demonstration; the default of 2 min is for life
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	if _, err := run(ctx, os.Stdout, policy); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, policy backoff.Policy) (drill.Report, error) {
	d, err := drill.Start(out, broker)
	if err != nil {
		return drill.Report{}, err
	}
	defer d.Close()
	ctx, cancel := d.Context(ctx)
	defer cancel()

	policy.Observer = d.Observe
	device := device{drill: d, id: "backoff-" + rand.Text()[:8]}
	err = policy.Supervise(ctx, device.connect)
	if report := d.Report(); report.Received == drill.Messages {
		return report, nil
	}
	return drill.Report{}, err
}

type device struct {
	drill *drill.Drill
	id    string // also of the topic and of the session, which outlives connections
}

// connect is one connection, from dialling to its end.
func (v *device) connect(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", v.drill.Addr())
	if err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	client := paho.NewClient(paho.ClientConfig{
		Conn:              conn,
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){v.receive},
		OnClientError:     end, // so that ctx ends with the connection
	})
	if err := v.login(ctx, client); err != nil {
		return err
	}
	defer client.Disconnect(&paho.Disconnect{})
	err = v.work(ctx, client)
	if ctx.Err() != nil {
		return context.Cause(ctx) // not ctx.Err(): an op that says it was cancelled ends the loop
	}
	return err
}

func (v *device) login(ctx context.Context, client *paho.Client) error {
	expiry := uint32(60) // the broker keeps what arrives while we are away
	answer, err := client.Connect(ctx, &paho.Connect{
		ClientID:   v.id,
		KeepAlive:  10,
		Properties: &paho.ConnectProperties{SessionExpiryInterval: &expiry},
	})
	if err != nil && answer != nil && answer.ReasonCode == packets.ConnackNotAuthorized {
		return backoff.Permanent(err) // nor will it be in 30 seconds: this ends the loop
	}
	return err
}

// work publishes until ctx ends. A message that was not confirmed is the first
// one of the next connection.
func (v *device) work(ctx context.Context, client *paho.Client) error {
	topic := paho.SubscribeOptions{Topic: v.id, QoS: 1}
	if _, err := client.Subscribe(ctx, &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{topic}}); err != nil {
		return err
	}
	backoff.ReportReady(ctx) // with a Budget: now another device may connect
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
