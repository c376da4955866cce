package recipes

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/backofftest/fault"
)

// shed serves n requests at once. Others wait for up to a time, and are then told to come back.
func shed(n int, wait time.Duration, next http.Handler) http.Handler {
	places := make(chan struct{}, n)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			next.ServeHTTP(w, r)
		case <-time.After(wait):
			w.Header().Set("Retry-After", "1") // and not DoNotRetry, after which no client comes back
			w.WriteHeader(http.StatusServiceUnavailable)
		case <-r.Context().Done(): // the client has gone
		}
	})
}

// From one client, or from 150. None is sent twice.
func TestAServerThatLetsItsClientsWaitServesEachCallOnce(t *testing.T) {
	for _, clients := range []int{1, 150} {
		synctest.Test(t, func(t *testing.T) {
			server := shed(10, 5*time.Second, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(200 * time.Millisecond) }))
			sent := &fault.Injector{}
			var all []*http.Client
			for range clients {
				client := backoffhttp.Client(backoff.Policy{Name: "shop"})
				client.Transport.(*backoffhttp.Transport).Base = sent.Handler(server)
				all = append(all, client)
			}
			began := time.Now()
			var group sync.WaitGroup
			for i := range 150 {
				group.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
					defer cancel()
					if _, err := textOf(ctx, all[i%clients], "http://shop.example/"); err != nil {
						t.Error(err)
					}
				})
			}
			group.Wait()
			if took := time.Since(began); took != 3*time.Second || len(sent.Attempts()) != 150 {
				t.Errorf("%d clients: %d requests in %v", clients, len(sent.Attempts()), took)
			}
		})
	}
}

// The server lets nobody wait, and all calls come at once. Nearly all are served, in little more than the time that this takes at
// best.
func TestAServerThatIsFullServesAllCallsInTheEnd(t *testing.T) {
	for _, c := range []struct {
		calls, places int
		takes         time.Duration
	}{{200, 50, 500 * time.Millisecond}, {150, 10, 200 * time.Millisecond}, {400, 10, 200 * time.Millisecond}} {
		synctest.Test(t, func(t *testing.T) {
			server := shed(c.places, time.Millisecond, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(c.takes) }))
			sent := &fault.Injector{}
			client := backoffhttp.Client(backoff.Policy{Name: "shop"})
			client.Transport.(*backoffhttp.Transport).Base = sent.Handler(server)
			var lost atomic.Int64
			var all sync.WaitGroup
			began := time.Now()
			for range c.calls {
				all.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
					defer cancel()
					if _, err := textOf(ctx, client, "http://shop.example/"); err != nil {
						lost.Add(1)
					}
				})
			}
			all.Wait()
			best := time.Duration(c.calls/c.places) * c.takes
			t.Logf("%+v: %d lost in %v, at best %v", c, lost.Load(), time.Since(began), best)
			if lost.Load() > int64(c.calls/15) || time.Since(began) > 3*best {
				t.Errorf("%+v: %d lost in %v, at best %v", c, lost.Load(), time.Since(began), best)
			}
		})
	}
}
