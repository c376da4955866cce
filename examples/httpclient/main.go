// Command httpclient shows a drop-in http.Client that retries what is worth it: a
// server that is unavailable and then too busy is asked again, when it says; a POST is
// not sent twice, unless under a key; and the last answer is returned as it came.
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
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// The whole of it: a policy, and a client.
func newClient(out io.Writer) *http.Client {
	return backoffhttp.Client(backoff.Policy{
		Name:     "prices",
		Schedule: backoff.Exponential{Initial: 10 * time.Millisecond},
		Observer: func(_ context.Context, e backoff.Event) {
			if e.Kind == backoff.EventRetry {
				fmt.Fprintf(out, "  attempt %d: %v\n", e.Attempt, e.Err)
			}
		},
	})
}

func run(ctx context.Context, out io.Writer) error {
	for _, show := range []func(context.Context, io.Writer) error{recovers, staysDown, posts, postsUnderKey, closed} {
		if err := show(ctx, out); err != nil {
			return err
		}
	}
	return nil
}

// The server is unavailable, then too busy, and then there.
func recovers(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "GET, a server that recovers:")
	return call(ctx, out, http.MethodGet, "", faulty.Status(503), faulty.Busy(429, "0"), faulty.Text("3.14"))
}

// The server stays down: the caller gets its last answer, body and all, not an error.
// Of four attempts it makes three, for a client that has had no success yet has a
// budget of two retries for each host.
func staysDown(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "GET, a server that does not:")
	return call(ctx, out, http.MethodGet, "", faulty.Status(503))
}

// A POST may have had its effect: it is not sent again.
func posts(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "POST:")
	return call(ctx, out, http.MethodPost, "", faulty.Status(503), faulty.Text("never reached"))
}

// Under a key that the server knows it may be.
func postsUnderKey(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "POST, under a key:")
	return call(ctx, out, http.MethodPost, "order 4711", faulty.Status(503), faulty.Text("charged once"))
}

// The server is busy until tomorrow: there is no point in waiting.
func closed(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "GET, a server that is closed for the day:")
	return call(ctx, out, http.MethodGet, "", faulty.Busy(503, "86400"))
}

// call makes one request to a server that follows a script, and prints what came of it.
func call(ctx context.Context, out io.Writer, method, key string, script ...faulty.Step) error {
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
	resp, err := newClient(out).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	fmt.Fprintf(out, "  %s %q, requests %d%s\n", resp.Status, body, server.Requests(), why(resp))
	return err
}

// why tells what Check knows of an answer that was given up on.
func why(resp *http.Response) string {
	if gave, ok := errors.AsType[*backoff.Error](backoffhttp.Check(resp)); ok {
		return ", because of " + gave.Reason.String()
	}
	return ""
}
