package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/gobackoff/backoff/examples/internal/traffic"
)

// perSecond is how many requests all users make.
const perSecond = 60

// users send requests to the service, and count what they got.
type users struct {
	service string // its address

	mu        sync.Mutex
	all, hurt map[string]int // requests, and those that got an error, by upstream
}

// run sends requests at a steady rate until ctx ends, and waits for the last
// response.
func (u *users) run(ctx context.Context) {
	u.all, u.hurt = make(map[string]int), make(map[string]int)
	var last atomic.Int64
	traffic.Steady(ctx, perSecond, func() {
		number := int(last.Add(1))
		host := hosts[number%len(hosts)]
		ok := u.ask(host, fmt.Sprintf("user-%06d", number))
		u.mu.Lock()
		defer u.mu.Unlock()
		u.all[host]++
		if !ok {
			u.hurt[host]++
		}
	})
}

// ask sends a request for what an upstream has, and reports whether it succeeded.
func (u *users) ask(host, id string) bool {
	req, err := http.NewRequest(http.MethodGet, u.service+"/"+nameOf(host), nil)
	if err != nil {
		return false
	}
	req.Header.Set("X-Request-Id", id)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err == nil && resp.StatusCode < 400
}
