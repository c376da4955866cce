package backoffhttp_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/guard"
)

// outage is a server that refuses connections until it is back, or answers 503.
type outage struct {
	back     time.Time
	status   int // 0: connections are refused
	header   http.Header
	attempts atomic.Int64
	open     atomic.Int64 // bodies that nobody has closed
	bodies   []string
}

func (o *outage) RoundTrip(req *http.Request) (*http.Response, error) {
	o.attempts.Add(1)
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		req.Body.Close()
		if err != nil {
			return nil, err
		}
		o.bodies = append(o.bodies, string(body))
	}
	status, header := 200, http.Header{}
	if time.Now().Before(o.back) {
		if status = o.status; status == 0 {
			return nil, syscall.ECONNREFUSED
		}
		if o.header != nil {
			header = o.header
		}
	}
	o.open.Add(1)
	return &http.Response{StatusCode: status, Request: req, Header: header, Body: &openBody{Reader: strings.NewReader("answer"), open: &o.open}}, nil
}

type openBody struct {
	io.Reader
	open   *atomic.Int64
	closed bool
}

func (b *openBody) Close() error {
	if !b.closed {
		b.closed = true
		b.open.Add(-1)
	}
	return nil
}

// ask makes a request with a minute of time.
func ask(t *testing.T, transport http.RoundTripper, limit time.Duration, method string, body io.Reader) (*http.Response, error) {
	ctx := within(t, limit)
	req, err := http.NewRequestWithContext(ctx, method, "http://example.com/", body)
	require.NoError(t, err)
	return transport.RoundTrip(req)
}

func TestATransportCarriesACallThroughAnOutage(t *testing.T) {
	for _, row := range []struct {
		status int // 0 for refused connections
		method string
	}{{0, "PUT"}, {503, "PUT"}, {0, "POST"}} {
		synctest.Test(t, func(t *testing.T) {
			server := &outage{back: time.Now().Add(20 * time.Second), status: row.status}
			transport := &backoffhttp.Transport{Base: server}
			resp, err := ask(t, transport, time.Minute, row.method, strings.NewReader("content"))
			require.NoError(t, err)
			require.Equal(t, 200, resp.StatusCode)
			for _, body := range server.bodies {
				require.Equal(t, "content", body)
			}
			require.Equal(t, int64(1), server.open.Load(), "those of the other answers are closed")
			require.LessOrEqual(t, server.attempts.Load(), int64(40))

			server.attempts.Store(0)
			server.back = time.Now().Add(20 * time.Second)
			_, err = ask(t, &backoffhttp.Transport{Base: server, FailFast: true}, time.Minute, "GET", nil)
			if row.status == 0 {
				require.ErrorIs(t, err, syscall.ECONNREFUSED, "without waiting it fails")
			}
		})
	}
}

// A response that holds its connection while its call waits would let the callers of a
// server that is down fill it with connections. The last one is not lost.
func TestACallThatWaitsHoldsNoConnectionAndKeepsTheLastAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &outage{back: time.Now().Add(time.Hour), status: 503}
		time.AfterFunc(20*time.Second, func() { require.Zero(t, server.open.Load()) })
		resp, err := ask(t, &backoffhttp.Transport{Base: server}, time.Minute, "GET", nil)
		require.NoError(t, err)
		require.Equal(t, 503, resp.StatusCode)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, "answer", string(body))
		require.ErrorIs(t, backoffhttp.Check(resp), context.DeadlineExceeded)
		require.Zero(t, server.open.Load())
	})
}

func TestAWaitingTransportSendsNothingTwiceThatMustNotBe(t *testing.T) {
	for name, body := range map[string]io.Reader{"not idempotent": strings.NewReader("order"), "no GetBody": io.MultiReader(strings.NewReader("order"))} {
		bubble(t, name, func(t *testing.T) {
			server := &outage{back: time.Now().Add(10 * time.Second), status: 503}
			method := map[string]string{"not idempotent": "POST", "no GetBody": "PUT"}[name]
			resp, err := ask(t, &backoffhttp.Transport{Base: server}, time.Minute, method, body)
			require.NoError(t, err)
			require.Equal(t, 503, resp.StatusCode, "the answer comes back")
			require.Equal(t, int64(1), server.attempts.Load())
		})
	}
}

func TestATransportReturnsAPermanentResponseAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		server := &outage{back: began.Add(time.Hour), status: 404}
		resp, err := ask(t, &backoffhttp.Transport{Base: server}, time.Minute, "GET", nil)
		require.NoError(t, err)
		require.Equal(t, 404, resp.StatusCode)
		require.Zero(t, time.Since(began))
	})
}

func TestAttemptTimeoutAndMaxElapsedHoldForACallThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &outage{back: time.Now().Add(20 * time.Second)}
		policy := backoff.Policy{AttemptTimeout: time.Second, MaxElapsed: 10 * time.Second}
		began := time.Now()
		_, err := ask(t, &backoffhttp.Transport{Base: server, Policy: policy}, time.Minute, "GET", nil)
		var gave *backoff.Error
		require.ErrorAs(t, err, &gave)
		require.Equal(t, backoff.ReasonElapsed, gave.Reason, err)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		require.LessOrEqual(t, time.Since(began), 10*time.Second)

		policy.MaxElapsed = 0
		hangs := step(func(req *http.Request) (*http.Response, error) {
			if began := time.Now(); began.Before(server.back) {
				<-req.Context().Done()
				require.Equal(t, time.Second, time.Since(began))
				return nil, req.Context().Err()
			}
			return server.RoundTrip(req)
		})
		resp, err := ask(t, &backoffhttp.Transport{Base: hangs, Policy: policy}, time.Minute, "GET", nil)
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
	})
}

// A key that the Transport made is that of the call, however often the service of the
// host makes it. Whoever is around it makes the call again only under a key of his own.
func TestACallIsMadeUnderOneKey(t *testing.T) {
	outer := func(p backoff.Policy) backoff.Doer {
		return (&guard.Service{NoBreaker: true, NoBudget: true}).With(p)
	}
	for name, c := range map[string]struct {
		outer    backoff.Doer
		services *guard.Services
		failures int
		succeeds bool
	}{
		"made by the Transport":            {outer(backoff.Policy{}), nil, 1000, false},
		"made by a Service around it":      {outer(backoff.Policy{Idempotency: backoff.Keyed}), nil, 6, true},
		"kept by the service of the host":  {backoff.Policy{}, new(guard.Services), 6, true},
		"the service of the host gives up": {backoff.Policy{AttemptTimeout: time.Minute}, new(guard.Services), 1000, false},
	} {
		bubble(t, name, func(t *testing.T) {
			keys, attempts := map[string]bool{}, 0
			client := &http.Client{Transport: &backoffhttp.Transport{
				Policy: backoff.Policy{Idempotency: backoff.Keyed}, Services: c.services,
				Base: newWire(func(req *http.Request) (*http.Response, error) {
					keys[req.Header.Get("Idempotency-Key")] = true
					if attempts++; attempts <= c.failures {
						return answer(503)(req)
					}
					return answer(200)(req)
				}),
			}}
			err := c.outer.Do(t.Context(), func(ctx context.Context) error {
				resp, err := client.Do(newRequest(t, "POST", "http://a.test/", strings.NewReader("order")).WithContext(ctx))
				if err != nil {
					return err
				}
				defer resp.Body.Close()
				return backoffhttp.Check(resp)
			})
			require.Equal(t, c.succeeds, err == nil, "%v", err)
			require.Len(t, keys, 1)
			require.NotContains(t, keys, "")
		})
	}
}
