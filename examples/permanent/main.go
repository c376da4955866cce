// Command permanent shows what is not retried: answers that are definitive by their
// status, by the operation's own word, or by the policy's classifier; and what a
// policy further down has given up on already.
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
	"github.com/gobackoff/backoff/examples/internal/faulty"
	"github.com/gobackoff/backoff/plug"
)

var policy = backoff.Policy{
	Name:     "read",
	Schedule: backoff.Exponential{Initial: 10 * time.Millisecond},
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	for _, show := range []func(context.Context, io.Writer) error{
		byStatus, byMark, byClassifier, nested,
	} {
		if err := show(ctx, out); err != nil {
			return err
		}
	}
	return nil
}

// statusError is an error that speaks for itself: the policy asks it for its status.
type statusError int

func (e statusError) Error() string       { return http.StatusText(int(e)) }
func (e statusError) HTTPStatusCode() int { return int(e) }

// A 404 is definitive, so there is one request.
func byStatus(ctx context.Context, out io.Writer) error {
	return show(out, "by status", faulty.Status(http.StatusNotFound), func(url string) error {
		return policy.Do(ctx, func(ctx context.Context) error { return read(ctx, url) })
	})
}

// errExpired is marked where it is declared. The mark does not show, neither in the
// text nor to errors.Is.
var errExpired = backoff.Permanent(errors.New("licence expired"))

// Only the operation knows that this answer is definitive, though its status is 200.
func byMark(ctx context.Context, out io.Writer) error {
	return show(out, "by mark", faulty.Text("expired"), func(url string) error {
		return policy.Do(ctx, func(ctx context.Context) error { return read(ctx, url) })
	})
}

// A classifier lists what to retry, here one status. Any other is definitive.
func byClassifier(ctx context.Context, out io.Writer) error {
	strict := policy
	strict.Classify = plug.OnCode(statusOf, http.StatusServiceUnavailable)
	return show(out, "by classifier", faulty.Status(http.StatusInternalServerError), func(url string) error {
		return strict.Do(ctx, func(ctx context.Context) error { return read(ctx, url) })
	})
}

// Two policies around one another make four requests, not sixteen: what the inner
// one gave up on is permanent to the outer one.
func nested(ctx context.Context, out io.Writer) error {
	outer := backoff.Policy{Name: "page"}
	return show(out, "nested", faulty.Status(http.StatusServiceUnavailable), func(url string) error {
		return outer.Do(ctx, policy.Wrap(func(ctx context.Context) error { return read(ctx, url) }))
	})
}

// show calls a server that always answers by step, and prints what it cost.
func show(out io.Writer, name string, step faulty.Step, call func(url string) error) error {
	server, err := faulty.Start(step)
	if err != nil {
		return err
	}
	defer server.Close()
	err = call(server.URL)
	_, printErr := fmt.Fprintf(out, "%s: requests %d, error: %v\n", name, server.Requests(), err)
	return printErr
}

func read(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return backoff.Permanent(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return statusError(resp.StatusCode)
	}
	body, err := io.ReadAll(resp.Body)
	if strings.Contains(string(body), "expired") {
		return fmt.Errorf("check licence: %w", errExpired) // still permanent
	}
	return err
}

// statusOf has the shape of grpc's status.Code: the code of an error.
func statusOf(err error) int {
	if status, ok := errors.AsType[statusError](err); ok {
		return int(status)
	}
	return 0
}
