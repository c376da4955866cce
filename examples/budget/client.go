package main

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/examples/internal/traffic"
)

// A client makes calls at a steady rate, regardless of their results, as users
// do.
type client struct {
	policy backoff.Policy
	server *server
	http   http.Client
	began  time.Time

	mu      sync.Mutex
	seconds [int(duration/time.Second) + 1]figures
}

// figures are the counts of one second.
type figures struct{ calls, attempts, answered int }

func (f figures) perCall() float64 { return float64(f.attempts) / float64(max(1, f.calls)) }

func newClient(policy backoff.Policy) (*client, error) {
	s, err := startServer()
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 1000}
	return &client{policy: policy, server: s, http: http.Client{Transport: transport}, began: s.began}, nil
}

func (c *client) close() {
	c.http.CloseIdleConnections()
	c.server.http.Close()
}

// run makes calls until ctx ends.
func (c *client) run(ctx context.Context) {
	traffic.Steady(ctx, load, func() { c.call(ctx) })
}

func (c *client) call(ctx context.Context) {
	c.count(func(f *figures) { f.calls++ })
	err := c.policy.Do(ctx, func(ctx context.Context) error {
		c.count(func(f *figures) { f.attempts++ })
		return c.get(ctx)
	})
	if err == nil {
		c.count(func(f *figures) { f.answered++ })
	}
}

func (c *client) get(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.server.url, nil)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

func (c *client) count(change func(*figures)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	second := min(int(time.Since(c.began)/time.Second), len(c.seconds)-1)
	change(&c.seconds[second])
}

func (c *client) second(i int) figures {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seconds[i]
}

// recovery says how long after the dip nearly all calls of a second were
// answered again.
func (c *client) recovery() string {
	end := int(dipTo / time.Second)
	for i := end; i < int(duration/time.Second); i++ {
		if f := c.second(i); f.answered >= f.calls*9/10 {
			return (time.Duration(i-end) * time.Second).String() + " after the dip"
		}
	}
	return "never"
}
