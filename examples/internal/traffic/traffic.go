// Package traffic makes the calls of the examples that need load.
package traffic

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

// Steady starts calls at a steady rate until ctx ends, as users do, no matter
// how long the calls take. It returns when all calls have returned.
func Steady(ctx context.Context, perSecond int, call func()) {
	ticker := time.NewTicker(time.Second / time.Duration(perSecond))
	defer ticker.Stop()
	var calls sync.WaitGroup
	defer calls.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			calls.Go(call)
		}
	}
}

// Get is one attempt to get a URL, with its body.
func Get(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return backoff.Permanent(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := backoffhttp.Check(resp); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
