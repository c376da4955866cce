package backoffhttp_test

import (
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/limit"
	"github.com/gobackoff/backoff/pace"
)

// resting is a RoundTripper to a service that notes when requests come, and
// wants to be left alone at times.
type resting struct {
	mu    sync.Mutex
	came  []time.Time
	until time.Time
}

func (s *resting) rest(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = time.Now().Add(d)
}

func (s *resting) RoundTrip(req *http.Request) (*http.Response, error) {
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: req}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.came = append(s.came, time.Now())
	if left := time.Until(s.until); left > 0 {
		resp.StatusCode = http.StatusTooManyRequests
		resp.Header.Set("Retry-After", strconv.Itoa(int((left+time.Second-1)/time.Second)))
	}
	return resp, nil
}

// Thirty calls come while their host has to be left alone. After that they go at
// the rate of six per second, which the program sets, or at which it has been
// calling.
func TestCallsThatTheirHostHeldOffTogetherGoAtTheRate(t *testing.T) {
	all := backoff.JoinBudgets(&limit.Concurrency{}, sixPerSecond(), new(backoff.RetryBudget), &limit.Throttle{})
	for name, c := range map[string]struct {
		budget backoff.Budget
		rest   time.Duration
		seven  time.Duration // how long seven of them take, at least
	}{
		"of a limiter":             {sixPerSecond(), 5 * time.Second, 995 * time.Millisecond},
		"of a limiter, after long": {sixPerSecond(), 33 * time.Second, 995 * time.Millisecond},
		"of a limiter of others":   {all, 5 * time.Second, 995 * time.Millisecond},
		"of a pacer":               {new(pace.Pacer), 5 * time.Second, 700 * time.Millisecond}, // it grows with successes
		"of a pacer, after longer": {new(pace.Pacer), 33 * time.Second, 700 * time.Millisecond},
	} {
		bubble(t, name, func(t *testing.T) {
			service := new(resting)
			client := &http.Client{Transport: &backoffhttp.Transport{Base: service, Services: &guard.Services{New: func(string) *guard.Service {
				return &guard.Service{Budget: backoff.JoinBudgets(new(pace.HoldOff), c.budget)}
			}}}}
			var calls sync.WaitGroup
			get := func() {
				calls.Go(func() {
					resp, err := client.Get("http://a.test/")
					require.NoError(t, err)
					require.Equal(t, http.StatusOK, resp.StatusCode)
					resp.Body.Close()
				})
			}
			for range 18 {
				get()
				time.Sleep(time.Second / 6)
			}
			service.rest(c.rest)
			for range 30 {
				get()
				time.Sleep(time.Millisecond)
			}
			calls.Wait()
			var after []time.Time
			for _, at := range service.came {
				if !at.Before(service.until) {
					after = append(after, at)
				}
			}
			require.GreaterOrEqual(t, len(after), 29)
			for i, at := range after[7:] {
				require.GreaterOrEqual(t, at.Sub(after[i]), c.seven)
			}
		})
	}
}

func sixPerSecond() backoff.Budget { return &limit.Rate{Limiter: rate.NewLimiter(6, 1)} }
