package recipes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffslog"
	"github.com/gobackoff/backoff/examples/internal/faulty"
)

var errPassword = errors.New("wrong password")

// The server starts after a second and a half, and then refuses the password.
func Example_startup() {
	server := faulty.Start()
	defer server.Close()
	began, refused := time.Now(), 0
	connect := func(ctx context.Context) (net.Conn, error) {
		address := server.Addr
		if time.Since(began) < 1500*time.Millisecond {
			address = "127.0.0.1:1" // nothing listens there, and nobody can take that port meanwhile
		}
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			refused++
			return nil, err
		}
		conn.Close()
		return nil, errPassword
	}
	ctx, logger := context.Background(), slog.New(slog.DiscardHandler)

	policy := backoff.Policy{
		Name:           "database",
		MaxAttempts:    -1, // the deadline ends it, and not the default of 4
		Schedule:       backoff.Exponential{Max: 500 * time.Millisecond},
		AttemptTimeout: 5 * time.Second,
		Observer:       backoffslog.New(logger, nil),
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	conn, err := backoff.DoValue(ctx, policy, func(ctx context.Context) (net.Conn, error) {
		conn, err := connect(ctx)
		if errors.Is(err, errPassword) {
			return nil, backoff.Permanent(err)
		}
		return conn, err
	})

	fmt.Println(refused > 3, conn, err)
	// Output: true <nil> wrong password
}
