package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/examples/internal/traffic"
)

// perSecond is how many requests all users make.
const perSecond = 90

// users send requests to the processes of the service in turn, and remember what
// they got.
type users struct {
	client   http.Client
	services []*process

	mu       sync.Mutex
	requests []request
}

// A request is what a user asked for, and got.
type request struct {
	id    string // at its upstream, too
	host  string // of the upstream
	began time.Time
	ended time.Time
	hurt  bool // the user got an error
}

// run sends requests at a steady rate until ctx ends, and waits for the last
// response.
func (u *users) run(ctx context.Context) {
	var last atomic.Int64
	traffic.Steady(ctx, perSecond, func() {
		number := int(last.Add(1))
		r := request{id: fmt.Sprintf("user-%06d", number), host: hosts[number%len(hosts)], began: time.Now()}
		r.hurt = u.ask(u.services[number/len(hosts)%len(u.services)], r)
		r.ended = time.Now()
		u.mu.Lock()
		defer u.mu.Unlock()
		u.requests = append(u.requests, r)
	})
}

// ask sends one request, and reports whether the user got an error.
func (u *users) ask(service *process, r request) (hurt bool) {
	req, err := http.NewRequest(http.MethodGet, "http://"+service.address+"/"+nameOf(r.host), nil)
	if err != nil {
		return true
	}
	req.Header.Set("X-Request-Id", r.id)
	resp, err := u.client.Do(req)
	if err != nil {
		return true
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err != nil || resp.StatusCode >= 400
}

// done returns the requests that have ended.
func (u *users) done() []request {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.requests)
}

// count returns how many requests to an upstream have ended, and how many of them
// with an error.
func (u *users) count(host string) (all, hurt int) {
	for _, r := range u.done() {
		if r.host == host {
			all++
			if r.hurt {
				hurt++
			}
		}
	}
	return all, hurt
}
