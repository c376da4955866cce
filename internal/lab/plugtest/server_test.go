//go:build nightly

package plugtest

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

// steps has waits of 20, 40 and 80 ms, exactly.
var steps = backoff.Policy{
	Name:     "test",
	Schedule: backoff.Exponential{Initial: 20 * time.Millisecond, Max: time.Second},
	Jitter:   backoff.NoJitter,
}

// A server answers with the steps of its script in order, and repeats the last.
type server struct {
	*httptest.Server
	mu     sync.Mutex
	script []http.HandlerFunc
	came   []time.Time
}

func serve(t *testing.T, script ...http.HandlerFunc) *server {
	s := &server{script: script}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	step := s.script[min(len(s.came), len(s.script)-1)]
	s.came = append(s.came, time.Now())
	s.mu.Unlock()
	step(w, r)
}

// gaps are the waits between requests.
func (s *server) gaps() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	var gaps []time.Duration
	for i := 1; i < len(s.came); i++ {
		gaps = append(gaps, s.came[i].Sub(s.came[i-1]))
	}
	return gaps
}

// waited checks the number of requests, and that each came after its wait and
// not much later.
func (s *server) waited(t *testing.T, want ...time.Duration) {
	t.Helper()
	gaps := s.gaps()
	require.Len(t, gaps, len(want))
	for i, gap := range gaps {
		require.GreaterOrEqual(t, gap, want[i]-time.Millisecond, "wait %d", i+1)
		require.Less(t, gap, want[i]+want[i]/10+time.Second, "wait %d", i+1)
	}
}

// answer is a step that answers; header alternates names and values.
func answer(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		w.Write([]byte(body))
	}
}

// reset is a step that resets the connection.
func reset(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		conn.(*net.TCPConn).SetLinger(0)
		conn.Close()
	}
}

// roundTripper is a transport made of a function.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// gaveUp returns a client in whose transport a policy of this library gives up.
// It adds the attempts of that policy to calls.
func gaveUp(calls *int) *http.Client {
	return &http.Client{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
		p := backoff.Policy{Schedule: backoff.Constant(0)}
		return nil, p.Do(req.Context(), func(context.Context) error { *calls++; return errDown })
	})}
}

var errDown = errors.New("down")
