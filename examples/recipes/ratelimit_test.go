package recipes

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
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
			&limit.Rate{Limiter: rate.NewLimiter(500, 1)}, // 500 requests a second, retries included
		)}
	}},
}}

// 20 workers make 1,000 requests, at 500 a second.
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
