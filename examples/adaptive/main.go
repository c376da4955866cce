// Command adaptive finds the rate limit of a server that does not announce it.
// The HTTP server accepts 100 requests a second and answers the others with
// 429, without a Retry-After. Thirty callers want three times as much. They
// share the rate limiter of the AWS SDKs' adaptive mode, which slows them down
// to the server's limit and keeps them there.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/presets"
)

const (
	hidden   = 100 // requests per second; only the server knows it
	callers  = 30
	pause    = 100 * time.Millisecond // between the calls of one caller
	learning = 5 * time.Second
	duration = 12 * time.Second
)

func main() {
	if _, err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run returns how many requests per second were sent after the limit was found.
func run(ctx context.Context, out io.Writer) (perSecond float64, err error) {
	s, err := startServer(hidden)
	if err != nil {
		return 0, err
	}
	defer s.http.Close()
	rate := presets.NewAWSRate()
	c := client{url: s.url, policy: backoff.Policy{Name: "ask", Budget: rate}}

	ctx, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	fmt.Fprintf(out, "%d callers, up to %d requests a second. The server takes %d, which they do not know.\n\n", callers, callers*int(time.Second/pause), hidden)
	fmt.Fprintln(out, " second   sent   taken   refused   the client's rate")
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() { c.keepAsking(ctx, time.Duration(i)*pause/callers) })
	}
	var last, learned counts
	for second := 1; wait(ctx, time.Second); second++ {
		now := s.counts()
		fmt.Fprintf(out, "%7d %6d %7d %9d %15.0f/s\n", second, now.sent()-last.sent(), now.taken-last.taken, now.refused-last.refused, rate.Rate())
		if last = now; time.Duration(second)*time.Second == learning {
			learned = now
		}
	}
	all.Wait()
	perSecond = float64(last.sent()-learned.sent()) / (duration - learning - time.Second).Seconds()
	fmt.Fprintf(out, "\nFrom second %d on: %.1f requests a second, %+.1f %% of the limit. %d calls were answered.\n",
		int(learning/time.Second)+1, perSecond, 100*(perSecond/hidden-1), c.answered.Load())
	return perSecond, nil
}

// wait waits for d, and reports whether it passed before ctx ended.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// A client makes calls that share a policy.
type client struct {
	policy   backoff.Policy
	url      string
	answered atomic.Int64
}

// keepAsking makes one call after another until ctx ends.
func (c *client) keepAsking(ctx context.Context, offset time.Duration) {
	for wait(ctx, offset) {
		if c.policy.Do(ctx, c.ask) == nil {
			c.answered.Add(1)
		}
		offset = pause
	}
}

var errTooMany = errors.New("429 Too Many Requests")

// ask is one attempt.
func (c *client) ask(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusTooManyRequests {
		return backoff.WithClass(errTooMany, backoff.ClassThrottled)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
