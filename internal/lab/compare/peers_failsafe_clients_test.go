package compare

import (
	"context"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/hedge"
	"github.com/gobackoff/backoff/pace"
)

// What the tests of failsafe-go's HTTP client promise.
var failsafeClients = []promise{
	{test: "failsafehttp/client_test.go TestClientSuccess", name: "a 200 is returned as it comes", holds: got(1, 200, "rows", says(200, "rows"))},
	{test: "failsafehttp/client_test.go TestClientRetryPolicyWithError", name: "a connection that is refused is tried again, and the error matches the system's", holds: func(t *testing.T) {
		s := serve(t, says(200, ""))
		s.refusing.Store(true)
		_, err := s.client().Do(request(t.Context(), "GET", nil))
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		require.EqualValues(t, 4, s.dials.Load())
	}},
	{test: "failsafehttp/client_test.go TestClientRetryPolicyWith429", name: "the last of the 429s is returned, with its text", holds: got(4, 429, "later", says(429, "later"))},
	{test: "failsafehttp/client_test.go TestClientRetryPolicyWith429ThenSuccess", name: "a host that said too much twice is asked a third time", holds: got(3, 200, "rows", says(429, "later"), says(429, "later"), says(200, "rows"))},
	{test: "failsafehttp/client_test.go TestClientRetryPolicyWithRedirects", name: "a redirect is no failure, and ten are no reason to begin again", holds: tooManyRedirects},
	{test: "failsafehttp/client_test.go TestClientRetryPolicyWithUnsupportedProtocolScheme", name: "an address whose scheme nobody knows is not tried again",
		holds: malformed(func(req *http.Request) { req.URL.Scheme = "finger" }, "finger")},
	{test: "failsafehttp/client_test.go TestClientRetryPolicyFallback", name: "a response of the caller's own takes the place of one that was given up", holds: func(t *testing.T) {
		s := serve(t, says(429, "later"))
		resp, err := s.client().Do(request(t.Context(), "GET", nil))
		require.NoError(t, err)
		text := textOf(t, resp)
		if backoffhttp.Check(resp) != nil {
			text = "stale"
		}
		require.Equal(t, "stale", text)
		require.Len(t, s.requests(), 4)
	}},
	{test: "failsafehttp/client_test.go TestClientCircuitBreaker", name: "a client whose circuit is open sends nothing", holds: openClient},
	{test: "failsafehttp/client_test.go TestClientCancelWithContext", name: "a request that is cancelled ends at once, while the server is at work", holds: endedWhile(hangs, false)},
	{test: "failsafehttp/client_test.go TestClientCancelWithContext", name: "a request that is cancelled ends at once, while it waits", holds: endedWhile(says(503, ""), false)},
	{test: "failsafehttp/client_test.go TestClientCancelWithTimeout", name: "a deadline ends a request at once, while the server is at work", holds: endedWhile(hangs, true)},
	{test: "examples/http_test.go TestHttpWithTimeout", name: "a timeout for attempts ends each of them", holds: func(t *testing.T) {
		s := serve(t, hangs)
		client := s.client(func(tr *backoffhttp.Transport) { tr.Policy.AttemptTimeout = 2 * time.Second })
		began := time.Now()
		_, err := client.Do(request(t.Context(), "GET", nil))
		require.ErrorIs(t, err, backoff.ErrAttemptTimeout)
		require.Equal(t, 4*2*time.Second+3*time.Second, time.Since(began))
	}},
	{test: "failsafehttp/client_test.go TestContextCancellation", name: "a long body is read to its end under a timeout for attempts", holds: longBody(func(c *http.Client) {
		c.Transport.(*backoffhttp.Transport).Policy.AttemptTimeout = time.Minute
	})},
	{test: "failsafehttp/client_test.go TestContextCancellation", name: "so it is without one", holds: longBody(func(*http.Client) {})},
	{test: "failsafehttp/client_test.go TestContextCancellation", name: "and by a client that got its Timeout from the caller's", holds: longBody(func(c *http.Client) {
		*c = *backoffhttp.WrapClient(&http.Client{Transport: c.Transport.(*backoffhttp.Transport).Base, Timeout: time.Minute}, steady(4))
	})},
	{test: "failsafehttp/client_test.go TestBodyReader", name: "each kind of body that net/http can send again is sent again", holds: func(t *testing.T) {
		for _, body := range []func() io.Reader{buffered, inMemory, aText} {
			s := serve(t, says(503, ""), says(200, ""))
			_, err := s.client().Do(request(t.Context(), "PUT", body()))
			require.NoError(t, err)
			require.Equal(t, []string{"a body", "a body"}, []string{s.requests()[0].body, s.requests()[1].body})
		}
	}},
	{test: "test/issues/issue73_test.go TestIssue73", name: "the body of a GET is sent with each attempt", holds: func(t *testing.T) {
		s := serve(t, says(200, "pong"))
		client := s.client(func(tr *backoffhttp.Transport) {
			tr.Inspect = func(*http.Response) error { return backoff.OfClass(errDown, backoff.ClassRetryable) }
		})
		resp, err := client.Do(request(t.Context(), "GET", strings.NewReader("question")))
		require.NoError(t, err)
		require.Equal(t, "pong", textOf(t, resp))
		require.Len(t, s.requests(), 4)
		for _, got := range s.requests() {
			require.Equal(t, "question", got.body)
		}
	}},
	{test: "failsafehttp/client_test.go TestClientHedgePolicy", name: "a slow request is sent a second time, and the body of the quicker one is read", holds: hedgedRequest(time.Second, slowly(0, "rows"))},
	{test: "test/issues/issue65_test.go TestIssue65", name: "a body whose header came early is read to its end, though the other request is cancelled", holds: hedgedRequest(time.Millisecond, slowly(30*time.Second, "rows"))},
	{test: "examples/http_test.go TestHttpWithRetryPolicy", name: "a host that asks for a second twice gets two of them", holds: func(t *testing.T) {
		s := serve(t, says(429, "", "Retry-After", "1"), says(429, "", "Retry-After", "1"), says(200, "pong"))
		client := s.client(func(tr *backoffhttp.Transport) { tr.Policy.Schedule = backoff.Constant(0) })
		began := time.Now()
		resp, err := client.Do(request(t.Context(), "GET", strings.NewReader("ping")))
		require.NoError(t, err)
		require.Equal(t, "pong", textOf(t, resp))
		require.GreaterOrEqual(t, time.Since(began), 2*time.Second)
		require.Equal(t, "ping", s.requests()[2].body)
	}},
	{test: "examples/http_test.go TestHttpWithCustomRetryPolicy", name: "a rule of the caller's own retries one status, and no other", holds: func(t *testing.T) {
		s := serve(t, says(500, ""), says(500, ""), says(502, "no"))
		client := s.client(func(tr *backoffhttp.Transport) {
			tr.Policy.Classify = backoff.RetryIf(func(err error) bool { return strings.Contains(err.Error(), "500") })
		})
		resp, err := client.Do(request(t.Context(), "GET", nil))
		require.NoError(t, err)
		require.Equal(t, "no", textOf(t, resp))
		require.Len(t, s.requests(), 3)
	}},
	{test: "examples/http_test.go TestHttpWithCircuitBreaker", name: "after a 429 a host with a `HoldOff` is left alone for as long as it says, and then asked", holds: leftAlone(new(pace.HoldOff), time.Minute, 70*time.Second)},
	{test: "examples/http_test.go TestHttpWithCircuitBreaker", name: "without a `HoldOff` the next call to the host only waits for its turn", holds: leftAlone(nil, time.Second, 10*time.Second),
		theirs: "no call is made for as long as the 429 says", why: "a limit is mostly that of one key or one endpoint; a retry waits as asked, and other calls are slowed down"},
	{test: "examples/http_test.go TestHttpWithHedgePolicy", name: "a hedge that has won ends the other requests", holds: func(t *testing.T) {
		ended := make(chan error, 3)
		s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			ended <- r.Context().Err()
		}, says(200, "rows"))
		h := &hedge.Hedge{Delay: time.Second, MaxExtraLoad: -1}
		resp, err := hedge.Value(t.Context(), h, sendThrough(s), func(resp *http.Response) { resp.Body.Close() })
		require.NoError(t, err)
		require.Equal(t, "rows", textOf(t, resp))
		require.ErrorIs(t, <-ended, context.Canceled)
	}},
}

// got makes a GET, and holds if so many requests lead to the last response.
func got(requests, status int, text string, answers ...http.HandlerFunc) func(*testing.T) {
	return func(t *testing.T) {
		s := serve(t, answers...)
		resp, err := s.client().Do(request(t.Context(), "GET", nil))
		require.NoError(t, err)
		require.Equal(t, status, resp.StatusCode)
		require.Equal(t, text, textOf(t, resp))
		require.Len(t, s.requests(), requests)
	}
}

// hangs answers when nobody waits any more.
func hangs(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// endedWhile ends the context of a request after 300 ms.
func endedWhile(answer http.HandlerFunc, deadline bool) func(*testing.T) {
	return func(t *testing.T) {
		s := serve(t, answer)
		ctx, cancel := context.WithCancel(t.Context())
		want := context.Canceled
		if deadline {
			ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
			want = context.DeadlineExceeded
		} else {
			time.AfterFunc(300*time.Millisecond, cancel)
		}
		defer cancel()
		began := time.Now()
		_, err := s.client().Do(request(ctx, "GET", nil))
		require.ErrorIs(t, err, want)
		require.Equal(t, 300*time.Millisecond, time.Since(began))
		require.Len(t, s.requests(), 1)
	}
}

func openClient(t *testing.T) {
	s, b := serve(t, says(200, "")), new(backoff.Breaker)
	b.Trip()
	client := s.client(func(tr *backoffhttp.Transport) {
		base := tr.Base
		tr.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
			return backoff.DoValue(req.Context(), b, func(context.Context) (*http.Response, error) { return base.RoundTrip(req) })
		})
	})
	_, err := client.Do(request(t.Context(), "GET", nil))
	require.ErrorIs(t, err, backoff.ErrOpen)
	require.Zero(t, s.dials.Load())
}

// longBody reads a body that takes a while.
func longBody(change func(*http.Client)) func(*testing.T) {
	return func(t *testing.T) {
		long := strings.Repeat("0123456789", 30_000)
		s := serve(t, says(503, ""), slowly(5*time.Second, long))
		client := s.client()
		change(client)
		resp, err := client.Do(request(t.Context(), "GET", nil))
		require.NoError(t, err)
		require.True(t, textOf(t, resp) == long)
	}
}

// slowly answers at once with a header, and with the text after a while.
func slowly(d time.Duration, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		select {
		case <-time.After(d):
			_, _ = io.WriteString(w, text)
		case <-r.Context().Done():
		}
	}
}

// sendThrough sends a GET to a site with the context of an attempt.
func sendThrough(s *site) func(context.Context) (*http.Response, error) {
	client := &http.Client{Transport: &s.wire}
	return func(ctx context.Context) (*http.Response, error) { return client.Do(request(ctx, "GET", nil)) }
}

// hedgedRequest sends a request and a hedge, of which the first gets no answer.
func hedgedRequest(delay time.Duration, answer http.HandlerFunc) func(*testing.T) {
	return func(t *testing.T) {
		s := serve(t, hangs, answer)
		h := &hedge.Hedge{Delay: delay, MaxExtraLoad: -1}
		resp, err := hedge.Value(t.Context(), h, sendThrough(s), func(resp *http.Response) { resp.Body.Close() })
		require.NoError(t, err)
		require.Equal(t, "rows", textOf(t, resp))
		require.Len(t, s.requests(), 2)
	}
}

// leftAlone makes a call after one that was refused for a minute, and holds if it takes so long.
func leftAlone(budget backoff.Budget, least, most time.Duration) func(*testing.T) {
	return func(t *testing.T) {
		s := serve(t, says(429, "", "Retry-After", "60"), says(200, "pong"))
		client := s.client(func(tr *backoffhttp.Transport) { tr.Policy.MaxAttempts, tr.Policy.Budget = 1, budget })
		resp, err := client.Do(request(t.Context(), "GET", nil))
		require.NoError(t, err)
		require.Equal(t, 429, resp.StatusCode)
		began := time.Now()
		resp, err = client.Do(request(t.Context(), "GET", nil))
		require.NoError(t, err)
		require.Equal(t, "pong", textOf(t, resp))
		require.GreaterOrEqual(t, time.Since(began), least)
		require.LessOrEqual(t, time.Since(began), most)
	}
}
