// Command permanent shows which errors are not retried: those that are
// permanent by their HTTP status, by a mark of the operation, or by the
// policy's classifier, and those that an inner policy has given up on.
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

// A statusError tells the policy its HTTP status.
type statusError int

// Error implements the error interface.
func (e statusError) Error() string { return http.StatusText(int(e)) }

// HTTPStatusCode is the method that the policy looks for.
func (e statusError) HTTPStatusCode() int { return int(e) }

// byStatus makes a call that fails with 404, which is permanent: there is one
// request.
func byStatus(ctx context.Context, out io.Writer) error {
	return show(out, "by status", faulty.Status(http.StatusNotFound), func(url string) error {
		return policy.Do(ctx, func(ctx context.Context) error { return read(ctx, url) })
	})
}

// errExpired is marked as permanent. The mark changes neither the text nor the
// result of errors.Is.
var errExpired = backoff.Permanent(errors.New("licence expired"))

// byMark makes a call whose answer has the status 200. Only the operation knows
// that the answer is a permanent failure.
func byMark(ctx context.Context, out io.Writer) error {
	return show(out, "by mark", faulty.Text("expired"), func(url string) error {
		return policy.Do(ctx, func(ctx context.Context) error { return read(ctx, url) })
	})
}

// byClassifier makes a call with a classifier that lists what to retry, here
// one status. Every other status is permanent.
func byClassifier(ctx context.Context, out io.Writer) error {
	strict := policy
	strict.Classify = plug.OnCode(statusOf, http.StatusServiceUnavailable)
	return show(out, "by classifier", faulty.Status(http.StatusInternalServerError), func(url string) error {
		return strict.Do(ctx, func(ctx context.Context) error { return read(ctx, url) })
	})
}

// nested makes a call with one policy inside another. It makes four requests,
// not sixteen: what the inner policy has given up on is permanent for the outer
// one.
func nested(ctx context.Context, out io.Writer) error {
	outer := backoff.Policy{Name: "page"}
	return show(out, "nested", faulty.Status(http.StatusServiceUnavailable), func(url string) error {
		return outer.Do(ctx, policy.Wrap(func(ctx context.Context) error { return read(ctx, url) }))
	})
}

// show calls a server that always answers with step, and prints how many
// requests it got.
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

// read is one attempt.
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

// statusOf returns the code of an error, as grpc's status.Code does.
func statusOf(err error) int {
	if status, ok := errors.AsType[statusError](err); ok {
		return int(status)
	}
	return 0
}
