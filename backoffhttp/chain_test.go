package backoffhttp_test

import (
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/stretchr/testify/require"
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

func TestAChainPassesTheDeadlineOn(t *testing.T) {
	seen := make(chan time.Duration, 1)
	leaf := service(t, backoffhttp.Inbound(handle(func(w http.ResponseWriter, r *http.Request) {
		deadline, _ := r.Context().Deadline()
		seen <- time.Until(deadline)
	})))
	announcing := func() *backoffhttp.Unguarded { return &backoffhttp.Unguarded{Propagate: everywhere} }
	l := link{announcing, backoffhttp.WriteError}
	front := service(t, l.relay(t, leaf.URL))
	q := request{method: http.MethodGet, header: http.Header{"Backoff-Deadline-Ms": {"20000"}}}
	resp, err := new(http.Client).Do(q.on(t.Context(), front.URL))
	require.NoError(t, err)
	resp.Body.Close()
	left := <-seen
	require.Greater(t, left, 10*time.Second)
	require.Less(t, left, 20*time.Second)
}
