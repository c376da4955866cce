package main

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"

	"github.com/gobackoff/backoff/examples/clients/internal/drill"
)

func TestALoginThatIsNotAuthorizedEndsTheLoop(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go refuse(l)
	d, err := drill.Start(t.Output(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	device := device{drill: d}
	if err := supervisor.RunReady(ctx, device.connect); err == nil || ctx.Err() != nil {
		t.Errorf("the loop went on until %v", err)
	}
	if n := d.Report().Connections; n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// refuse is a broker that authorizes nobody.
func refuse(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		if _, err := packets.ReadPacket(conn); err == nil {
			answer := packets.NewControlPacket(packets.CONNACK)
			answer.Content.(*packets.Connack).ReasonCode = packets.ConnackNotAuthorized
			answer.WriteTo(conn)
		}
		conn.Close()
	}
}
