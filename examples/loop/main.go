// Command loop retries with a range loop, for code that is clearer with return
// and continue than as a function. Watch a TCP server hang, until the attempt
// times out, then reset the connection, then answer.
//
//	go run -C examples ./loop
package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/examples/internal/journal"
)

var policy = backoff.Policy{
	Name:           "ask",
	Schedule:       backoff.Exponential{Initial: 50 * time.Millisecond},
	AttemptTimeout: 300 * time.Millisecond, // ends the attempt that hangs
}

func main() { journal.Main(run) }

func run(ctx context.Context, out io.Writer) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer listener.Close()
	go serve(listener, hang, reset, answer)

	log := journal.New(out)
	policy := policy
	policy.Observer = log.Observe
	reply, err := ask(ctx, policy, listener.Addr().String())
	if err != nil {
		return err
	}
	log.Say("reply: %q", reply)
	log.Sum()
	return nil
}

// ask returns the server's reply.
func ask(ctx context.Context, policy backoff.Policy, addr string) (string, error) {
	r := policy.Start(ctx)
	for ctx := range r.Attempts() {
		reply, err := askOnce(ctx, addr) // the context ends with the attempt's timeout
		if err == nil {
			return reply, nil // leaving the loop means success
		}
		r.Fail(err) // the loop waits, and makes the next attempt
	}
	return "", r.Err()
}

// askOnce is one attempt.
func askOnce(ctx context.Context, addr string) (string, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	// A connection has no context, so end its reads when ctx ends.
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Now()) })
	defer stop()
	if _, err := io.WriteString(conn, "how are you?\n"); err != nil {
		return "", err
	}
	return bufio.NewReader(conn).ReadString('\n')
}
