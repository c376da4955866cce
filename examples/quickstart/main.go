// Command quickstart retries one HTTP request to a real server that fails in
// four ways: it is unavailable, then too busy, then crashes in the middle of an
// answer, and then refuses connections while it restarts. The program ends
// after a few seconds.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
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
	server, err := faulty.Start(
		faulty.Status(http.StatusServiceUnavailable),
		faulty.Busy(http.StatusTooManyRequests, "1"), // Retry-After: 1 second
		faulty.Crash("half of this arrives", time.Second),
		faulty.Text("all is well again\n"),
	)
	if err != nil {
		return err
	}
	defer server.Close()
	return fetch(ctx, out, server.URL)
}

// fetch gets url under a policy, and prints each attempt.
func fetch(ctx context.Context, out io.Writer, url string) error {
	log := journal{out: out}
	policy := backoff.Policy{
		Name:           "fetch",
		MaxAttempts:    6,                                                    // the first included
		Schedule:       backoff.Exponential{Initial: 200 * time.Millisecond}, // 200ms, 400ms, 800ms, ...
		Jitter:         backoff.EqualJitter,                                  // between half the delay and all of it
		AttemptTimeout: 2 * time.Second,
		Observer:       log.observe,
	}
	fmt.Fprintf(out, "GET %s\n", url)
	began := time.Now()
	var body []byte
	err := policy.Do(ctx, func(ctx context.Context) (err error) {
		body, err = get(ctx, url)
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "got %q\n", body)
	fmt.Fprintf(out, "%d attempts in %s, %s of it waiting\n", log.attempts, round(time.Since(began)), round(log.waited))
	return nil
}

// get is one attempt. The policy recognizes timeouts and refused or reset
// connections by itself.
func get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, backoff.Permanent(err) // the request is invalid, so a retry cannot succeed
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, statusError(resp)
	}
	return io.ReadAll(resp.Body)
}

// statusError returns an error for a response. It tells the policy whether to
// retry, and when.
func statusError(resp *http.Response) error {
	err := backoff.WithClass(errors.New(resp.Status), backoffhttp.StatusClass(resp.StatusCode))
	if after, ok := backoffhttp.ParseRetryAfter(resp.Header.Get("Retry-After"), time.Now()); ok {
		err = backoff.RetryAfter(err, after)
	}
	return err
}

// A journal prints a line for each attempt of one call. If calls share a
// policy, its observer must be safe for concurrent use.
type journal struct {
	out      io.Writer
	attempts int
	waited   time.Duration
}

func (j *journal) observe(_ context.Context, e backoff.Event) {
	j.attempts = e.Attempt
	j.waited += e.Wait
	fmt.Fprintf(j.out, "attempt %d of %d: ", e.Attempt, e.MaxAttempts)
	switch e.Kind {
	case backoff.EventRetry:
		fmt.Fprintf(j.out, "%v (%s)%s, delay %s, wait %s\n", e.Err, e.Class, askedWait(e), e.Delay, round(e.Wait))
	case backoff.EventGiveUp:
		fmt.Fprintf(j.out, "%v\n", e.Err)
	case backoff.EventSuccess:
		fmt.Fprintln(j.out, "success")
	}
}

// askedWait says how long the server asked the client to wait.
func askedWait(e backoff.Event) string {
	if e.RetryAfter == 0 {
		return ""
	}
	return fmt.Sprintf(", server asks for %s", e.RetryAfter)
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
