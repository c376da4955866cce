// Command adaptive finds the rate limit of a server that does not announce it.
// Watch the columns sent and refused: 30 callers want 300 requests a second,
// and their client slows them down to what the server takes, which is 100.
//
// The server answers the others with 429, without a Retry-After. The callers
// share an HTTP client with its defaults.
//
//	go run -C examples ./adaptive
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/examples/internal/traffic"
)

const (
	hidden   = 100 // requests per second; only the server knows it
	callers  = 30
	pause    = 100 * time.Millisecond // between the calls of one caller
	learning = 5 * time.Second
	duration = 16 * time.Second // the rate swings by a third within five seconds
)

func main() {
	run(context.Background(), os.Stdout)
}

// run returns how many requests per second were sent after the limit was found.
func run(ctx context.Context, out io.Writer) (perSecond float64) {
	s := newServer(hidden)
	listening := httptest.NewServer(s)
	defer listening.Close()
	c := client{http: backoffhttp.Client(backoff.Policy{Name: "ask"}), url: listening.URL}

	ctx, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	fmt.Fprintf(out, "%d callers, up to %d requests a second. The server takes %d, which they do not know.\n\n", callers, callers*int(time.Second/pause), hidden)
	fmt.Fprintln(out, " second   sent   taken   refused")
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() { c.keepAsking(ctx, time.Duration(i)*pause/callers) })
	}
	var last, learned counts
	for second := 1; wait(ctx, time.Second); second++ {
		now := s.counts()
		fmt.Fprintf(out, "%7d %6d %7d %9d\n", second, now.sent()-last.sent(), now.taken-last.taken, now.refused-last.refused)
		if last = now; time.Duration(second)*time.Second == learning {
			learned = now
		}
	}
	all.Wait()
	perSecond = float64(last.sent()-learned.sent()) / (duration - learning - time.Second).Seconds()
	fmt.Fprintf(out, "\nFrom second %d on: %.1f requests a second, %+.1f %% of the limit. %d calls were answered.\n",
		int(learning/time.Second)+1, perSecond, 100*(perSecond/hidden-1), c.answered.Load())
	return perSecond
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

// A client counts the calls that were answered.
type client struct {
	http     *http.Client
	url      string
	answered atomic.Int64
}

// keepAsking makes one call after another until ctx ends.
func (c *client) keepAsking(ctx context.Context, offset time.Duration) {
	for wait(ctx, offset) {
		if traffic.Get(ctx, c.http, c.url) == nil {
			c.answered.Add(1)
		}
		offset = pause
	}
}
