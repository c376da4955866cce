// Command permanent shows which errors are not retried. Watch three calls end
// after one attempt: their error is permanent by its HTTP status, by a mark, or
// by a classifier. The fourth has two policies, and makes 4 attempts, not 16.
//
//	go run -C examples ./permanent
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/examples/internal/faulty"
	"github.com/gobackoff/backoff/examples/internal/journal"
	"github.com/gobackoff/backoff/plug"
)

var policy = backoff.Policy{
	Name:     "read",
	Schedule: backoff.Exponential{Initial: 10 * time.Millisecond},
}

func main() { journal.Main(run) }

func run(ctx context.Context, out io.Writer) error {
	log := journal.New(out)
	policy := policy
	policy.Observer = log.Observe
	defer log.Sum()
	for _, show := range []func(context.Context, *journal.Journal, backoff.Policy) error{
		byStatus, byMark, byClassifier, nested,
	} {
		if err := show(ctx, log, policy); err != nil {
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
func byStatus(ctx context.Context, log *journal.Journal, policy backoff.Policy) error {
	return show(ctx, log, "permanent by its status, 404:", faulty.Status(http.StatusNotFound), policy.Wrap)
}

// errExpired is marked as permanent. The mark changes neither the text nor the
// result of errors.Is.
var errExpired = backoff.Permanent(errors.New("licence expired"))

// byMark makes a call whose answer has the status 200. Only the operation knows
// that the answer is a permanent failure.
func byMark(ctx context.Context, log *journal.Journal, policy backoff.Policy) error {
	return show(ctx, log, "permanent by a mark of the operation:", faulty.Text("expired"), policy.Wrap)
}

// byClassifier makes a call with a classifier that lists what to retry, here
// one status. Every other status is permanent.
func byClassifier(ctx context.Context, log *journal.Journal, policy backoff.Policy) error {
	policy.Classify = plug.OnCode(statusOf, http.StatusServiceUnavailable)
	return show(ctx, log, "permanent by a classifier that retries only 503:", faulty.Status(http.StatusInternalServerError), policy.Wrap)
}

// nested makes a call with one policy inside another. It makes four requests,
// not sixteen: what the inner policy has given up on is permanent for the outer
// one.
func nested(ctx context.Context, log *journal.Journal, policy backoff.Policy) error {
	outer := backoff.Policy{Name: "page"}
	return show(ctx, log, "given up by an inner policy, and permanent for the outer one:", faulty.Status(http.StatusServiceUnavailable), func(op operation) operation {
		return outer.Wrap(policy.Wrap(op))
	})
}

type operation = func(context.Context) error

// show calls a server that always answers with step, and prints how many
// requests it got.
func show(ctx context.Context, log *journal.Journal, what string, step faulty.Step, wrap func(operation) operation) error {
	log.Say("%s", what)
	server := faulty.Start(step)
	defer server.Close()
	err := wrap(func(ctx context.Context) error { return read(ctx, server.URL) })(ctx)
	if err == nil {
		return errors.New("the call succeeded")
	}
	log.Say("    requests: %d, error: %v", server.Requests(), err)
	return nil
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
