// Command quickstart shows what the library is for, with a real HTTP server.
//
// First it makes one GET, under the default policy, to a server that fails in
// three ways: it is unavailable, then too busy, and then its response breaks
// off. Then the same server goes down under ten callers, and comes back. It
// compares a loop of four attempts with the default client. The program ends
// after ten seconds.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"

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
	server := faulty.Start(
		faulty.Status(http.StatusServiceUnavailable),
		faulty.Busy(http.StatusTooManyRequests, "1"), // Retry-After: 1 second
		breakOff,
		faulty.Text("all is well again"),
	)
	defer server.Close()
	base := &http.Transport{MaxIdleConnsPerHost: 100}
	defer base.CloseIdleConnections()

	fmt.Fprint(out, "1. One GET, to a server that fails in three ways\n\n")
	if err := fetch(ctx, out, &http.Client{Transport: base}, server.URL); err != nil {
		return err
	}
	fmt.Fprint(out, "\n2. The same server goes down under ten callers, and comes back\n\n")
	return outage(ctx, out, service{base: base, url: server.URL, stop: server.Stop, restart: server.Restart})
}

// breakOff resets the connection in the middle of a response.
func breakOff(_ *faulty.Server, w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "8")
	_, _ = io.WriteString(faulty.ResetAfter(w, 4), "half of it")
}
