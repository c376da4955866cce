package recipes

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/gobackoff/backoff"
)

// The server closes each connection after one message. The loop connects again
// until its context ends, here after three messages.
func Example_reconnect() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer listener.Close()
	go serveOneMessageEach(listener)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	messages := 0
	read := func(conn net.Conn) error {
		text, err := bufio.NewReader(conn).ReadString('\n')
		if fmt.Print(text); err == nil {
			messages++
		}
		if messages == 3 {
			cancel()
		}
		return err
	}
	dial := func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", listener.Addr().String())
	}

	policy := backoff.Policy{Name: "feed", Schedule: backoff.Exponential{Max: time.Minute}}

	connect := func(ctx context.Context) error {
		conn, err := dial(ctx)
		if err != nil {
			return err // or backoff.Permanent(err) if the login was refused, which ends the loop
		}
		defer conn.Close()
		return read(conn)
	}

	err = backoff.Supervisor{Policy: policy}.Run(ctx, connect)

	if gave, ok := errors.AsType[*backoff.Error](err); ok {
		fmt.Println("ended:", gave.Reason)
	}
	// Output:
	// message 1
	// message 2
	// message 3
	// ended: canceled
}

func serveOneMessageEach(l net.Listener) {
	for n := 1; ; n++ {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		fmt.Fprintf(conn, "message %d\n", n)
		conn.Close()
	}
}
