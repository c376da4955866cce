// Command httpclient shows an http.Client that retries by itself. It retries
// when a server is unavailable or too busy, after the wait that the server asks
// for. It does not repeat a POST without a key. It returns the last answer
// unchanged.
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

// newClient is all that a program needs: a policy, and a client.
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

// recovers calls a server that is unavailable, then too busy, and then answers.
func recovers(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "GET, a server that recovers:")
	return call(ctx, out, http.MethodGet, "", faulty.Status(503), faulty.Busy(429, "0"), faulty.Text("3.14"))
}

// staysDown calls a server that does not recover. The caller gets its last
// answer with the body, not an error.
func staysDown(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "GET, a server that does not:")
	return call(ctx, out, http.MethodGet, "", faulty.Status(503))
}

// posts makes a POST. It may have had its effect, so it is not sent again.
func posts(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "POST:")
	return call(ctx, out, http.MethodPost, "", faulty.Status(503), faulty.Text("never reached"))
}

// postsUnderKey makes a POST with a key that the server understands, so it is
// sent again.
func postsUnderKey(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "POST, under a key:")
	return call(ctx, out, http.MethodPost, "order 4711", faulty.Status(503), faulty.Text("charged once"))
}

// closed calls a server that asks for a wait of a day. The client gives up at
// once.
func closed(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "GET, a server that is closed for the day:")
	return call(ctx, out, http.MethodGet, "", faulty.Busy(503, "86400"))
}

// call makes one request to a server that follows a script, and prints the
// result.
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

// why returns the reason for which the client gave up, if it did.
func why(resp *http.Response) string {
	if gave, ok := errors.AsType[*backoff.Error](backoffhttp.Check(resp)); ok {
		return ", because of " + gave.Reason.String()
	}
	return ""
}
