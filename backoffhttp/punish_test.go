package backoffhttp_test

import (
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/backoffhttp"
)

// punishing is a RoundTripper to a service that takes ten requests per second,
// and ten more at once after a pause. If there are more, it takes none for 5 s.
type punishing struct {
	mu      sync.Mutex
	tokens  float64
	seen    time.Time
	until   time.Time
	refused int
}

// refuse takes in a request, and returns for how long the service takes none.
func (s *punishing) refuse() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.tokens = min(10, s.tokens+10*now.Sub(s.seen).Seconds())
	s.seen = now
	if s.tokens < 1 && now.After(s.until) {
		s.until = now.Add(5 * time.Second)
	}
	if left := s.until.Sub(now); left > 0 {
		s.refused++
		return left
	}
	s.tokens--
	return 0
}

func (s *punishing) RoundTrip(req *http.Request) (*http.Response, error) {
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: req}
	if left := s.refuse(); left > 0 {
		resp.StatusCode = http.StatusTooManyRequests
		resp.Header.Set("Retry-After", strconv.Itoa(int((left+time.Second-1)/time.Second)))
	}
	time.Sleep(20 * time.Millisecond)
	return resp, nil
}

// A client makes 20 calls per second to a service that takes ten, and that
// punishes an excess. Calls that waited for their turn while their host was held
// off used to go together after that, into the next punishment: 600 of them took
// 4 min 30 s, and 615 requests were refused.
func TestAServiceThatPunishesAnExcessIsNotRunInto(t *testing.T) {
	for name, c := range map[string]struct {
		share   bool
		most    time.Duration
		refused int
	}{
		"each call for itself":             {false, 200 * time.Second, 420},
		"all hear of a rest that is asked": {true, 200 * time.Second, 75},
	} {
		bubble(t, name, func(t *testing.T) {
			service := &punishing{tokens: 10, seen: time.Now()}
			client := &http.Client{Transport: &backoffhttp.Transport{Base: service, ShareRetryAfter: c.share}}
			var calls sync.WaitGroup
			var succeeded atomic.Int64
			began := time.Now()
			for range 600 {
				calls.Go(func() {
					resp, err := client.Get("http://a.test/")
					if err == nil && resp.StatusCode == http.StatusOK {
						succeeded.Add(1)
					}
					if err == nil {
						resp.Body.Close()
					}
				})
				time.Sleep(50 * time.Millisecond)
			}
			calls.Wait()
			require.GreaterOrEqual(t, succeeded.Load(), int64(585))
			require.LessOrEqual(t, time.Since(began), c.most)
			require.LessOrEqual(t, service.refused, c.refused)
		})
	}
}
