package main

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/examples/internal/journal"
)

// fetch gets url under the default policy, and prints each attempt.
func fetch(ctx context.Context, out io.Writer, client *http.Client, url string) error {
	log := journal.New(out)
	policy := backoff.Policy{Name: "fetch", Observer: log.Observe}

	ctx, cancel := context.WithTimeout(ctx, 5*time.Second) // for all attempts and waits
	defer cancel()
	body, err := backoff.DoValue(ctx, policy, func(ctx context.Context) ([]byte, error) {
		return get(ctx, client, url)
	})
	if err != nil {
		return err
	}
	log.Say("the response is %q", body)
	log.Sum()
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
