package backoffhttp_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/internal/nightly"
)

// chain is a client that calls front, which calls middle, which calls leaf, all
// by real HTTP and with four attempts each.
type chain struct {
	front, middle, leaf atomic.Int64 // requests
	client              *http.Client
	url                 string
}

type link struct {
	transport func() *backoffhttp.Unguarded
	answer    func(http.ResponseWriter, *http.Request, error) // where the call failed
}

func (l link) start(t *testing.T, leaf http.HandlerFunc) *chain {
	t.Helper()
	c := new(chain)
	last := service(t, counted(&c.leaf, leaf))
	middle := service(t, counted(&c.middle, l.relay(t, last.URL)))
	front := service(t, counted(&c.front, l.relay(t, middle.URL)))
	c.client, c.url = l.client(t), front.URL
	return c
}

func counted(n *atomic.Int64, h http.Handler) http.Handler {
	return handle(func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		h.ServeHTTP(w, r)
	})
}

func (l link) client(t *testing.T) *http.Client {
	transport := l.transport()
	transport.Base = &http.Transport{MaxIdleConnsPerHost: 10}
	transport.Policy.Schedule = backoff.Constant(time.Microsecond)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// relay answers with what another service answers.
func (l link) relay(t *testing.T, url string) http.Handler {
	client := l.client(t)
	return backoffhttp.Inbound(handle(func(w http.ResponseWriter, r *http.Request) {
		resp, err := get(client, r, url)
		if err != nil {
			l.answer(w, r, err)
			return
		}
		defer resp.Body.Close()
		io.Copy(w, resp.Body)
	}))
}

func get(client *http.Client, r *http.Request, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if err := backoffhttp.Check(resp); err != nil {
		resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// call sends n requests, and returns how many succeeded.
func (c *chain) call(t *testing.T, n int) (succeeded int) {
	t.Helper()
	for range n {
		resp, err := c.client.Get(c.url)
		if err != nil {
			continue
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			succeeded++
		}
	}
	return succeeded
}

func (c *chain) requests() string {
	return fmt.Sprintf("front %d, middle %d, leaf %d", c.front.Load(), c.middle.Load(), c.leaf.Load())
}

func down(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }

func unguarded() *backoffhttp.Unguarded { return &backoffhttp.Unguarded{} }

func TestAChainOfThreeReachesTheLeaf4TimesNot64(t *testing.T) {
	naive := link{unguarded, func(w http.ResponseWriter, r *http.Request, _ error) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}}.start(t, down)
	require.Zero(t, naive.call(t, 1))
	require.Equal(t, "front 4, middle 16, leaf 64", naive.requests())

	ours := link{unguarded, backoffhttp.WriteError}.start(t, down)
	require.Zero(t, ours.call(t, 1))
	require.Equal(t, "front 1, middle 1, leaf 4", ours.requests())
}

func TestARetryingCallerIsLeftTheRetrying(t *testing.T) {
	announcing := func() *backoffhttp.Unguarded { return &backoffhttp.Unguarded{Propagate: everywhere} }
	// A proxy between the services drops the signal.
	c := link{announcing, func(w http.ResponseWriter, r *http.Request, _ error) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}}.start(t, down)
	require.Zero(t, c.call(t, 1))
	require.EqualValues(t, 4, c.front.Load())
	require.EqualValues(t, 7, c.middle.Load(), "4 for the first request, 1 for each retry")
	require.LessOrEqual(t, c.leaf.Load(), int64(19))
}

func TestTheLeafsOwnDoNotRetryStopsAllLayers(t *testing.T) {
	c := link{unguarded, backoffhttp.WriteError}.start(t, func(w http.ResponseWriter, r *http.Request) {
		backoffhttp.DoNotRetry(w)
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	require.Zero(t, c.call(t, 1))
	require.Equal(t, "front 1, middle 1, leaf 1", c.requests())
}

// inProcess is a service that is called without a network.
func inProcess(h http.Handler) step {
	return func(req *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		resp := w.Result()
		resp.Request = req
		return resp, nil
	}
}

// What is wrong with one request slows no other, and opens no circuit.
func TestAResponseAboutOneRequestSlowsNoOther(t *testing.T) {
	nightly.Long(t)
	errBad := errors.New("bad")
	for name, refuse := range map[string]func(http.ResponseWriter, *http.Request){
		"permanent": func(w http.ResponseWriter, r *http.Request) { backoffhttp.WriteError(w, r, backoff.Permanent(errBad)) },
		"gave up": func(w http.ResponseWriter, r *http.Request) {
			backoffhttp.WriteError(w, r, do(backoff.Policy{}, errBad))
		},
		"do not retry": func(w http.ResponseWriter, _ *http.Request) {
			backoffhttp.DoNotRetry(w)
			w.WriteHeader(http.StatusServiceUnavailable)
		},
	} {
		for _, every := range []int64{50, 10, 4} {
			bubble(t, fmt.Sprintf("%s, each %d", name, every), func(t *testing.T) {
				var n atomic.Int64
				tr := &backoffhttp.Transport{Base: inProcess(handle(func(w http.ResponseWriter, r *http.Request) {
					time.Sleep(5 * time.Millisecond)
					if n.Add(1)%every == 0 {
						refuse(w, r)
					}
				}))}
				took, calls := traffic(t, tr, 100, 20*time.Second, func() *http.Request { return newRequest(t, "GET", "http://first.test/", nil) })
				require.GreaterOrEqual(t, float64(len(took))/float64(calls), 1-1/float64(every)-0.01)
			})
		}
	}
}

// A 429 is about the rate, also if it must not be repeated.
func TestA429ThatMustNotBeRetriedSlowsCallsDown(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		header []string
		slow   bool
	}{
		"429":                 {429, []string{"X-Should-Retry", "false"}, true},
		"429, by a proxy":     {429, []string{"X-Envoy-Ratelimited", "true"}, true},
		"429, by gRPC's word": {429, []string{"Grpc-Retry-Pushback-Ms", "-1"}, true},
		"429, quota":          {429, []string{"X-Should-Retry", "false", "Retry-After", "3600"}, false},
		"503":                 {503, []string{"X-Should-Retry", "false"}, false},
		"503, by a proxy":     {503, []string{"X-Envoy-Overloaded", "true"}, false},
		"402":                 {402, []string{"X-Should-Retry", "false"}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWire(answer(c.status, c.header...), answer(200))
			tr := &backoffhttp.Transport{Base: w}
			require.Equal(t, c.status, getRoot(t, tr).StatusCode)
			require.Equal(t, 1, w.requests(), name)
			began := time.Now()
			getRoot(t, tr)
			require.Equal(t, c.slow, time.Since(began) > 0, name)
		})
	}
}

// asking returns a client of the next service, whose circuit follows an outage closely.
func asking(next http.RoundTripper) *http.Client {
	return &http.Client{Transport: &backoffhttp.Transport{Base: next, Policy: steady(), Services: &guard.Services{New: func(string) *guard.Service {
		return &guard.Service{Breaker: &backoff.Breaker{OpenFor: backoff.Constant(time.Second / 4)}}
	}}}}
}

// between returns a service that asks the next one.
func between(next http.RoundTripper) http.RoundTripper {
	client := asking(next)
	return inProcess(backoffhttp.Inbound(handle(func(w http.ResponseWriter, r *http.Request) {
		_, err := get(client, r, "http://next.test/")
		backoffhttp.WriteError(w, r, err)
	})))
}

// No service keeps its callers away for longer than the one behind it is down.
func TestAnOutageBehindServicesEndsWithTheOutage(t *testing.T) {
	nightly.Long(t)
	for services := range 4 {
		for _, outage := range []time.Duration{3 * time.Second, 10 * time.Second, 30 * time.Second} {
			bubble(t, fmt.Sprintf("%d between, %v", services, outage), func(t *testing.T) {
				var requests atomic.Int64
				began := time.Now()
				last := http.RoundTripper(inProcess(handle(func(w http.ResponseWriter, r *http.Request) {
					time.Sleep(50 * time.Millisecond)
					if time.Since(began) < outage {
						requests.Add(1)
						down(w, r)
					}
				})))
				for range services {
					last = between(last)
				}
				var n atomic.Int64
				clients := []*http.Client{asking(last), asking(last), asking(last)}
				each := step(func(req *http.Request) (*http.Response, error) { return clients[n.Add(1)%3].Transport.RoundTrip(req) })
				ask := func(during time.Duration) (served, calls int) {
					took, calls := traffic(t, each, 100, during, func() *http.Request { return newRequest(t, "GET", "http://first.test/", nil) })
					return len(took), calls
				}
				ask(outage)
				require.LessOrEqual(t, requests.Load(), int64(100+20*outage.Seconds()))
				ask(outage/10 + 2*time.Second)
				served, calls := ask(5 * time.Second)
				require.Equal(t, calls, served)
			})
		}
	}
}
