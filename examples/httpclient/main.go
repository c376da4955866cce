// Command httpclient shows an http.Client that retries by itself. Watch which
// requests it sends again: a GET to a server that is unavailable or too busy,
// and a POST with a key, but neither a POST without one nor after a wait of a
// day.
//
// If it gives up, the caller gets the server's last answer unchanged.
//
//	go run -C examples ./httpclient
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/examples/internal/faulty"
	"github.com/gobackoff/backoff/examples/internal/journal"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// newClient is all that a program needs: a policy, and a client.
func newClient(log *journal.Journal) *http.Client {
	return backoffhttp.Client(backoff.Policy{
		Name:     "prices",
		Schedule: backoff.Exponential{Initial: 10 * time.Millisecond},
		Observer: log.Observe,
	})
}

func run(ctx context.Context, out io.Writer) error {
	log := journal.New(out)
	defer log.Sum()
	for _, show := range []func(context.Context, *journal.Journal) error{recovers, staysDown, posts, postsUnderKey, closed} {
		if err := show(ctx, log); err != nil {
			return err
		}
	}
	return nil
}

// recovers calls a server that is unavailable, then too busy, and then answers.
func recovers(ctx context.Context, log *journal.Journal) error {
	log.Say("GET, a server that recovers:")
	return call(ctx, log, http.MethodGet, "", faulty.Status(503), faulty.Busy(429, "0"), faulty.Text("3.14"))
}

// staysDown calls a server that does not recover. The caller gets its last
// answer with the body, not an error.
func staysDown(ctx context.Context, log *journal.Journal) error {
	log.Say("GET, a server that does not:")
	return call(ctx, log, http.MethodGet, "", faulty.Status(503))
}

// posts makes a POST. It may have had its effect, so it is not sent again.
func posts(ctx context.Context, log *journal.Journal) error {
	log.Say("POST:")
	return call(ctx, log, http.MethodPost, "", faulty.Status(503), faulty.Text("never reached"))
}

// postsUnderKey makes a POST with a key that the server understands, so it is
// sent again.
func postsUnderKey(ctx context.Context, log *journal.Journal) error {
	log.Say("POST, under a key:")
	return call(ctx, log, http.MethodPost, "order 4711", faulty.Status(503), faulty.Text("charged once"))
}

// closed calls a server that asks for a wait of a day. The client gives up at
// once.
func closed(ctx context.Context, log *journal.Journal) error {
	log.Say("GET, a server that is closed for the day:")
	return call(ctx, log, http.MethodGet, "", faulty.Busy(503, "86400"))
}

// call makes one request to a server that follows a script, and prints the
// result.
func call(ctx context.Context, log *journal.Journal, method, key string, script ...faulty.Step) error {
	server, err := faulty.Start(script...)
	if err != nil {
		return err
	}
	defer server.Close()
	req, err := http.NewRequestWithContext(ctx, method, server.URL, strings.NewReader("order"))
	if err != nil {
		return err
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := newClient(log).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	log.Say("    got %s %q, requests: %d%s", resp.Status, body, server.Requests(), why(resp))
	return err
}

// why returns the reason for which the client gave up, if it did.
func why(resp *http.Response) string {
	if gave, ok := errors.AsType[*backoff.Error](backoffhttp.Check(resp)); ok {
		return ", gave up: " + gave.Reason.String()
	}
	return ""
}
