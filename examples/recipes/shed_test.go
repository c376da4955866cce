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

// shed serves n requests at once, and tells the clients of all others to come back.
func shed(n int, next http.Handler) http.Handler {
	places := make(chan struct{}, n)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			next.ServeHTTP(w, r)
		default:
			w.Header().Set("Retry-After", "1") // and not DoNotRetry, after which no client comes back
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
}

// Twenty callers want more than the server can do at once. Each of them gets its answer in time.
func TestAServerThatIsFullServesAllCallsInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int64
		server := shed(4, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			if n := running.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(50 * time.Millisecond)
			running.Add(-1)
		}))
		sent := &fault.Injector{}
		client := &http.Client{Transport: &backoffhttp.Transport{Policy: backoff.Policy{Name: "shop"}, Base: sent.Handler(server)}}
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				for range 10 {
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://shop.example/", nil)
					resp, err := client.Do(req)
					if err == nil {
						err = backoffhttp.Check(resp)
						resp.Body.Close()
					}
					if cancel(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if most.Load() > 4 {
			t.Errorf("%d requests at once", most.Load())
		}
	})
}
