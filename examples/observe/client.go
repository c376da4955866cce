package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/backoffmetrics"
	"github.com/gobackoff/backoff/backoffmetrics/page"
	"github.com/gobackoff/backoff/backoffslog"
	"github.com/gobackoff/backoff/endpoint"
	"github.com/gobackoff/backoff/examples/internal/traffic"
)

// attemptTimeout is how long the client waits for an answer.
const attemptTimeout = 200 * time.Millisecond

// A client makes calls at a steady rate, under a breaker, a policy and a budget
// that report to three observers.
type client struct {
	service backoff.Doer
	url     string
	to      *endpoint.Endpoint
	http    http.Client
	metrics backoffmetrics.Metrics
	tally   tally
	made    atomic.Int64 // attempts
}

// newClient returns a client. Its breaker first opens for a twentieth of a
// cycle.
func newClient(out io.Writer, url string, cycle time.Duration) *client {
	c := &client{url: url + "/orders?token=hunter2"} // the secret must not be logged
	c.http.Transport = &http.Transport{MaxIdleConnsPerHost: load}
	observer := backoff.JoinObservers(
		backoffslog.New(slog.New(slog.NewTextHandler(out, nil)), &backoffslog.Options{PerSecond: 1}),
		c.metrics.Observe,
		c.tally.observe,
	)
	budget := new(backoff.RetryBudget)
	c.metrics.WatchBudget("orders", budget)
	c.to = &endpoint.Endpoint{Name: "GET orders"}
	breaker := &backoff.Breaker{
		Name: "orders", Observer: observer, Classify: backoffhttp.Classify,
		OpenFor: backoff.Exponential{Initial: cycle / 20, Max: cycle / 8}, ConsecutiveSpan: cycle / 40,
	}
	policy := backoff.Policy{
		Name: "orders", Observer: observer, Classify: backoffhttp.Classify, Budget: budget,
		AttemptTimeout: attemptTimeout, Schedule: backoff.Exponential{Initial: 50 * time.Millisecond},
	}
	c.metrics.WatchBreaker("orders", breaker)
	c.service = backoff.Stack(breaker, policy, c.to)
	return c
}

// run makes calls until ctx ends. The observers record their results.
func (c *client) run(ctx context.Context) {
	traffic.Steady(ctx, load, func() { c.service.Do(endpoint.With(ctx, c.to), c.get) })
}

func (c *client) get(ctx context.Context) error {
	c.made.Add(1)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, nil)
	if err != nil {
		return backoff.Permanent(err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := backoffhttp.Check(resp); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// serve serves the page and the metrics.
func (c *client) serve(address string) (*http.Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	s := &http.Server{Addr: listener.Addr().String(), Handler: page.Handler(&c.metrics), ReadHeaderTimeout: 10 * time.Second}
	go s.Serve(listener)
	return s, nil
}
