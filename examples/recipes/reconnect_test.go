package recipes

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
)

func feed(ctx context.Context, dial func(context.Context) (net.Conn, error), read func(net.Conn) error) error {
	policy := backoff.Policy{Name: "feed", Schedule: backoff.Exponential{Max: time.Minute}}
	connect := func(ctx context.Context) error {
		conn, err := dial(ctx)
		if err != nil {
			return err // backoff.Permanent(err) after a 401: only that mark ends the loop
		}
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { conn.Close() })() // read takes no context
		return read(conn)
	}
	return backoff.Supervisor{Policy: policy}.Run(ctx, connect)
}

// The server closes two connections after a message, and keeps the third one.
// Then the program is told to stop, while it waits for the next message.
func Example_reconnect() {
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	defer listener.Close()
	go serveMessages(listener, 3)
	ctx, stop := context.WithCancel(context.Background()) // in a program, signal.NotifyContext
	defer stop()
	messages := 0
	read := func(conn net.Conn) error {
		for lines := bufio.NewReader(conn); ; {
			conn.SetReadDeadline(time.Now().Add(time.Minute)) // a connection that died is silent, without an error
			text, err := lines.ReadString('\n')
			if err != nil {
				return err
			}
			fmt.Print(text)
			if messages++; messages == 3 {
				stop()
			}
		}
	}
	dial := func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", listener.Addr().String())
	}

	err := feed(ctx, dial, read)

	if gave, ok := errors.AsType[*backoff.Error](err); ok {
		fmt.Println("ended:", gave.Reason)
	}
	// Output:
	// message 1
	// message 2
	// message 3
	// ended: canceled
}

// serveMessages sends a message on each connection, and keeps the last one until
// the client closes it.
func serveMessages(l net.Listener, last int) {
	for n := 1; n <= last; n++ {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		fmt.Fprintf(conn, "message %d\n", n)
		if n == last {
			conn.SetReadDeadline(time.Now().Add(10 * time.Second))
			if _, err := conn.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
				fmt.Println("the client is still there")
			}
		}
		conn.Close()
	}
}

// The network loses a connection without a word. The loop makes the next one.
func TestASilentConnectionIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
		defer stop()
		dials := 0
		dial := func(context.Context) (net.Conn, error) {
			conn, server := net.Pipe()
			if dials++; dials == 3 {
				stop()
			}
			context.AfterFunc(ctx, func() { server.Close() })
			return conn, nil
		}
		err := feed(ctx, dial, func(conn net.Conn) error {
			conn.SetReadDeadline(time.Now().Add(time.Minute))
			_, err := conn.Read(make([]byte, 1))
			return err
		})
		if !errors.Is(err, context.Canceled) || dials != 3 {
			t.Errorf("%v after %d dials", err, dials)
		}
	})
}

// A refused login ends the loop, which says that it gave up. Policy.Do returns such an error as
// it is.
func TestALoopThatIsRefusedSaysThatItGaveUp(t *testing.T) {
	refused := errors.New("wrong token")
	dial := func(context.Context) (net.Conn, error) { return nil, backoff.Permanent(refused) }
	err := feed(t.Context(), dial, nil)
	gaveUp, ok := errors.AsType[*backoff.Error](err)
	if !ok || gaveUp.Reason != backoff.ReasonPermanent || backoff.Cause(err) != refused {
		t.Error(err)
	}
}
