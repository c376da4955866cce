// Command quickstart shows what the library is for, with a real HTTP server.
//
// First it makes one GET to a server that fails in four ways: it is
// unavailable, then too busy, then crashes in the middle of a response, and then
// refuses connections while it restarts. Then the same server goes down for
// good, under ten callers. It compares a loop of four attempts with a policy
// that has a budget and a breaker. The program ends after ten seconds.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/examples/internal/faulty"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	var down atomic.Bool
	server, err := faulty.Start(
		faulty.Status(http.StatusServiceUnavailable),
		faulty.Busy(http.StatusTooManyRequests, "1"), // Retry-After: 1 second
		faulty.Crash("half of this arrives", time.Second),
		textUntil(&down, "all is well again"),
	)
	if err != nil {
		return err
	}
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	defer client.CloseIdleConnections()

	fmt.Fprint(out, "1. One GET, to a server that fails in four ways\n\n")
	if err := fetch(ctx, out, client, server.URL); err != nil {
		return err
	}
	fmt.Fprint(out, "\n2. The same server, down for good, and ten callers\n\n")
	return outage(ctx, out, func(ctx context.Context) error {
		_, err := get(ctx, client, server.URL)
		return err
	}, func() { down.Store(true) })
}

// textUntil answers 200 with body, and 503 once the server is down.
func textUntil(down *atomic.Bool, body string) faulty.Step {
	return func(s *faulty.Server, w http.ResponseWriter, r *http.Request) {
		step := faulty.Text(body)
		if down.Load() {
			step = faulty.Status(http.StatusServiceUnavailable)
		}
		step(s, w, r)
	}
}
