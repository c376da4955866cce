package recipes

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/examples/internal/faulty"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/limit"
	"github.com/gobackoff/backoff/pace"
)

var importing = &http.Client{Transport: &backoffhttp.Transport{
	Policy: backoff.Policy{Name: "import"},
	Services: &guard.Services{New: func(host string) *guard.Service {
		return &guard.Service{Name: host, Budget: backoff.JoinBudgets(
			new(pace.Pacer), // as a Transport has one: after a 429 it slows down
			&limit.Rate{Limiter: rate.NewLimiter(450, 1)}, // 9/10 of the 500 requests a second that the server permits
		)}
	}},
}}

// 20 workers make 1,000 requests, at 450 a second.
func TestAJobAtAKnownLimitIsNotRefused(t *testing.T) {
	var refused atomic.Int64
	permits := rate.NewLimiter(510, 20) // a little more than that, because requests do not arrive evenly
	server := faulty.Start(func(s *faulty.Server, w http.ResponseWriter, r *http.Request) {
		if !permits.Allow() {
			refused.Add(1)
			faulty.Busy(http.StatusTooManyRequests, "1")(s, w, r)
		}
	})
	defer server.Close()
	began := time.Now()
	var group sync.WaitGroup
	var failed atomic.Int64
	for range 20 {
		group.Go(func() {
			for range 50 {
				if _, err := textOf(t.Context(), importing, server.URL); err != nil {
					failed.Add(1)
				}
			}
		})
	}
	group.Wait()
	if took := time.Since(began); failed.Load() > 0 || refused.Load() > 20 || took < 1900*time.Millisecond {
		t.Error(fmt.Sprint(failed.Load(), " failed, ", refused.Load(), " refused, in ", took))
	}
}

// importingFrom returns a client as importing, of a server.
func importingFrom(serve serverFunc) *http.Client {
	own := importing.Transport.(*backoffhttp.Transport)
	return &http.Client{Transport: &backoffhttp.Transport{
		Policy: own.Policy, Services: &guard.Services{New: own.Services.New}, Base: serve}}
}

// A hundred workers make 9,000 calls. The server refuses connections, returns 503 or hangs for 10 s.
func TestABatchLosesNoCallInAnOutage(t *testing.T) {
	for _, fail := range []serverFunc{
		func(*http.Request) (*http.Response, error) { return nil, syscall.ECONNREFUSED },
		func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 503, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
		},
		func(r *http.Request) (*http.Response, error) { <-r.Context().Done(); return nil, r.Context().Err() },
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			var requests, failed atomic.Int64
			client := importingFrom(func(r *http.Request) (*http.Response, error) {
				requests.Add(1)
				if since := time.Since(began); since > 2*time.Second && since < 12*time.Second {
					return fail(r)
				}
				time.Sleep(20 * time.Millisecond)
				return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
			})
			client.Transport.(*backoffhttp.Transport).Policy.AttemptTimeout = time.Second
			var group sync.WaitGroup
			for range 100 {
				group.Go(func() {
					for range 90 {
						ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
						if _, err := textOf(ctx, client, "http://shop"); err != nil {
							failed.Add(1)
						}
						cancel()
					}
				})
			}
			group.Wait()
			if took := time.Since(began); failed.Load() > 9 || requests.Load() > 10000 || took > 50*time.Second {
				t.Errorf("%d calls failed; %d requests in %v", failed.Load(), requests.Load(), took)
			}
		})
	}
}

// A shop has users, of whose calls one in ten fails once, and a batch, of which all fail.
type shop struct {
	batch atomic.Int64
	seen  sync.Map // calls of users
}

func (s *shop) serve(r *http.Request) (*http.Response, error) {
	time.Sleep(10 * time.Millisecond)
	code := 200
	if r.URL.Path == "/batch" {
		s.batch.Add(1)
		code = 503
	} else if _, again := s.seen.LoadOrStore(r.URL.RawQuery, true); !again && strings.HasSuffix(r.URL.RawQuery, "5") {
		code = 503
	}
	return &http.Response{StatusCode: code, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

// Fifty workers of a batch fail all the time. No call of a user does, and the batch keeps to its
// rate.
func TestABatchThatFailsTakesNothingFromTheUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := new(shop)
		users := &http.Client{Transport: &backoffhttp.Transport{Base: serverFunc(server.serve)}}
		batch := importingFrom(server.serve)
		ctx, stop := context.WithCancel(t.Context()) // before a deadline calls would end unsent, again and again
		time.AfterFunc(time.Minute, stop)
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				for ctx.Err() == nil {
					_, _ = textOf(ctx, batch, "http://shop/batch")
				}
			})
		}
		var failed atomic.Int64
		for n := range 590 {
			all.Go(func() {
				if _, err := textOf(ctx, users, fmt.Sprint("http://shop/users?n=", n)); err != nil {
					failed.Add(1)
				}
			})
			time.Sleep(100 * time.Millisecond)
		}
		all.Wait()
		if n := server.batch.Load(); failed.Load() > 0 || n < 20 || n > 300 {
			t.Errorf("%d calls of users failed; the batch made %d requests", failed.Load(), n)
		}
	})
}
