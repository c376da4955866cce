package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/gobackoff/backoff/backoffhttp"
)

// A chain is a client and three services.
type chain struct {
	client   *backoffhttp.Transport
	services []*service // the first is the one that the client calls
	leaf     atomic.Pointer[http.HandlerFunc]
	failed   int // calls of the client
}

// An onFailure answers a request when calling the next service has failed.
type onFailure func(http.ResponseWriter, *http.Request, error)

func startChain(transport func() *backoffhttp.Transport, leaf http.HandlerFunc, failed onFailure) (*chain, error) {
	c := &chain{client: transport()}
	c.reset(leaf)
	var handler http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		(*c.leaf.Load())(w, r)
	})
	for range 3 {
		s, err := start(handler)
		if err != nil {
			c.Close()
			return nil, err
		}
		c.services = append([]*service{s}, c.services...)
		s.next = transport()
		handler = backoffhttp.Inbound(relay{s.url, s.next, failed})
	}
	return c, nil
}

// Close stops the services.
func (c *chain) Close() {
	c.client.CloseIdleConnections()
	for _, s := range c.services {
		s.Close()
		s.next.CloseIdleConnections()
	}
}

// reset changes the answer of the last service and resets the counts.
func (c *chain) reset(leaf http.HandlerFunc) {
	c.leaf.Store(&leaf)
	c.failed = 0
	for _, s := range c.services {
		s.requests.Store(0)
	}
}

// call calls the first service n times.
func (c *chain) call(ctx context.Context, n int) {
	for range n {
		resp, err := ask(ctx, c.client, c.services[0].url)
		if err != nil {
			c.failed++
			continue
		}
		resp.Body.Close()
	}
}

func (c *chain) print(out io.Writer, name string, calls int) error {
	leaf := c.services[2].requests.Load()
	_, err := fmt.Fprintf(out, "%-54s %5d %6d %5d %5d %5d %9.2f\n",
		name, calls, c.failed, c.services[0].requests.Load(), c.services[1].requests.Load(), leaf,
		float64(leaf)/float64(calls))
	return err
}

// A service is a server that counts its requests.
type service struct {
	*http.Server
	url      string
	requests atomic.Int64
	next     *backoffhttp.Transport // calls the next service
}

func start(h http.Handler) (*service, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &service{url: "http://" + l.Addr().String()}
	s.Server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		h.ServeHTTP(w, r)
	})}
	go s.Serve(l)
	return s, nil
}

// A relay answers with the answer of the next service.
type relay struct {
	next   string
	by     *backoffhttp.Transport
	failed onFailure
}

// ServeHTTP implements [http.Handler].
func (l relay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resp, err := ask(r.Context(), l.by, l.next)
	if err != nil {
		l.failed(w, r, err)
		return
	}
	defer resp.Body.Close()
	io.Copy(w, resp.Body)
}

// ask makes a call. An answer with the status of a failure is an error.
func ask(ctx context.Context, by http.RoundTripper, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := (&http.Client{Transport: by}).Do(req)
	if err != nil {
		return nil, err
	}
	if err := backoffhttp.Check(resp); err != nil {
		resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

func up(http.ResponseWriter, *http.Request) {}

func down(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
