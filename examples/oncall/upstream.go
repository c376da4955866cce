package main

import (
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// What an upstream can be told to be.
const (
	healthy   = "healthy"
	slow      = "slow"
	throttled = "throttled"
)

// mostPerSecond is what a throttled upstream accepts: half of what it gets.
const mostPerSecond = perSecond / 3 / 2

// An upstream is a server that can be told to misbehave. It counts the requests
// for each request of a user: these are the attempts of a call.
type upstream struct {
	mu       sync.Mutex
	mode     string
	attempts map[string]int // by X-Request-Id
	second   time.Time      // since when accepted counts
	accepted int
}

func newUpstream() *upstream {
	return &upstream{mode: healthy, attempts: make(map[string]int)}
}

// handler serves the upstream, and at /attempts what it counted.
func (u *upstream) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", u.respond)
	mux.HandleFunc("GET /attempts", func(w http.ResponseWriter, _ *http.Request) {
		u.mu.Lock()
		defer u.mu.Unlock()
		_ = json.NewEncoder(w).Encode(u.attempts)
	})
	return mux
}

// setMode makes the upstream healthy, slow or throttled.
func (u *upstream) setMode(mode string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.mode = mode
}

// respond counts a request of the service, and responds to it.
func (u *upstream) respond(w http.ResponseWriter, r *http.Request) {
	switch mode, accepted := u.count(r.Header.Get("X-Request-Id")); {
	case mode == slow: // three of ten take longer than the service waits
		select {
		case <-time.After(attemptTimeout*3/10 + rand.N(attemptTimeout)):
		case <-r.Context().Done():
			return
		}
	case mode == throttled && !accepted:
		http.Error(w, "too many requests", http.StatusTooManyRequests)
		return
	}
	_, _ = io.WriteString(w, "ok\n")
}

// count counts a request. It returns the mode, and whether the request is within
// what a throttled upstream accepts.
func (u *upstream) count(id string) (mode string, accepted bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.attempts[id]++
	if time.Since(u.second) >= time.Second {
		u.second, u.accepted = time.Now(), 0
	}
	u.accepted++
	return u.mode, u.accepted <= mostPerSecond
}
