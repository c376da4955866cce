package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

// fetch gets url under a policy, and prints each attempt.
func fetch(ctx context.Context, out io.Writer, s style, client *http.Client, url string) error {
	log := journal{out: out, style: s, began: time.Now()}
	policy := backoff.Policy{
		Name:           "fetch",
		MaxAttempts:    6,                                                    // the first included
		Schedule:       backoff.Exponential{Initial: 200 * time.Millisecond}, // 200ms, 400ms, 800ms, ...
		Jitter:         backoff.EqualJitter,                                  // between half the delay and all of it
		AttemptTimeout: 2 * time.Second,
		Observer:       log.observe,
	}
	var body []byte
	err := policy.Do(ctx, func(ctx context.Context) (err error) {
		body, err = get(ctx, client, url)
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "The response is %q, after %d attempts in %s.\n", body, log.attempts, round(time.Since(log.began)))
	return nil
}

// get is one attempt. Check makes an error of a response such as a 503, which
// tells the policy whether to retry, and when. The policy recognizes timeouts
// and refused or reset connections by itself.
func get(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, backoff.Permanent(err) // the request is invalid, so a retry cannot succeed
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if err := backoffhttp.Check(resp); err != nil {
		return nil, err
	}
	return io.ReadAll(resp.Body)
}

// A journal prints the attempts of one call. If calls share a policy, its
// observer must be safe for concurrent use.
type journal struct {
	out      io.Writer
	style    style
	began    time.Time
	attempts int
}

func (j *journal) observe(_ context.Context, e backoff.Event) {
	j.attempts = e.Attempt
	at := time.Since(j.began).Seconds()
	if e.Kind == backoff.EventSuccess {
		fmt.Fprintf(j.out, "%5.2fs  attempt %d: %s\n", at, e.Attempt, j.style.green("success"))
		return
	}
	fmt.Fprintf(j.out, "%5.2fs  attempt %d: %s\n", at, e.Attempt, j.style.red(root(e.Err).Error()))
	if e.Class == backoff.ClassNotSent {
		fmt.Fprintf(j.out, "        %s\n", j.style.dim("not sent: there was no connection, so the server cannot have acted"))
	}
	if e.Kind == backoff.EventRetry {
		fmt.Fprintf(j.out, "        %s\n", j.style.dim(wait(e)))
	}
}

// wait explains the wait before a retry.
func wait(e backoff.Event) string {
	if e.RetryAfter > 0 {
		return fmt.Sprintf("wait %s = server's %s + jitter", round(e.Wait), e.RetryAfter)
	}
	return fmt.Sprintf("wait %s, at random between %s and %s", round(e.Wait), e.Delay/2, e.Delay)
}

// root returns the innermost error: what happened, without where.
func root(err error) error {
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return err
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
