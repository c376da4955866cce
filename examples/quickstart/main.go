// Command quickstart carries one HTTP request through a bad moment of a real
// server: unavailable, too busy, crashed in the middle of an answer, refusing
// connections while it restarts. It ends by itself after a few seconds.
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

// fetch gets url under a policy and prints what happens on the way.
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

// get is one attempt. Refused and reset connections and timeouts need no
// treatment: the policy knows them.
func get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, backoff.Permanent(err) // no server was asked, so asking again is no use
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

// statusError makes an error of a response, with what the policy should know of it:
// whether to try again, and when.
func statusError(resp *http.Response) error {
	err := backoff.WithClass(errors.New(resp.Status), backoffhttp.StatusClass(resp.StatusCode))
	if after, ok := backoffhttp.ParseRetryAfter(resp.Header.Get("Retry-After"), time.Now()); ok {
		err = backoff.RetryAfter(err, after)
	}
	return err
}

// journal prints a line per attempt. It serves one call: the observer of a policy
// that is shared must be safe for concurrent use.
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
		fmt.Fprintf(j.out, "%v (%s)%s, delay %s, wait %s\n", e.Err, e.Class, hint(e), e.Delay, round(e.Wait))
	case backoff.EventGiveUp:
		fmt.Fprintf(j.out, "%v\n", e.Err)
	case backoff.EventSuccess:
		fmt.Fprintln(j.out, "success")
	}
}

func hint(e backoff.Event) string {
	if e.RetryAfter == 0 {
		return ""
	}
	return fmt.Sprintf(", server asks for %s", e.RetryAfter)
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
