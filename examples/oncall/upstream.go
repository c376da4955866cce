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
	well      = "well"
	slow      = "slow"
	throttled = "throttled"
)

// mostPerSecond is what a throttled upstream accepts: half of what it gets.
const mostPerSecond = perSecond / 3 / 2

// An upstream is a server that can be told to misbehave. It counts the requests
// for each request of a user: these are the attempts of a call.
type upstream struct {
	mux http.ServeMux

	mu       sync.Mutex
	mode     string
	attempts map[string]int // by X-Request-Id
	second   time.Time      // since when accepted counts
	accepted int
}

func newUpstream() *upstream {
	u := &upstream{mode: well, attempts: make(map[string]int)}
	u.mux.HandleFunc("GET /{$}", u.answer)
	u.mux.HandleFunc("GET /attempts", u.tell)
	return u
}

// ServeHTTP implements [http.Handler].
func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) { u.mux.ServeHTTP(w, r) }

// behave makes the upstream well, slow or throttled.
func (u *upstream) behave(mode string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.mode = mode
}

// answer answers a request of the service.
func (u *upstream) answer(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("X-Request-Id")
	w.Header().Set("X-Request-Id", id)
	switch mode, accepted := u.receive(id); {
	case mode == slow: // three of ten take longer than the service waits
		takes := attemptTimeout*3/10 + rand.N(attemptTimeout)
		select {
		case <-time.After(takes):
		case <-r.Context().Done():
			return
		}
	case mode == throttled && !accepted:
		http.Error(w, "too many requests", http.StatusTooManyRequests)
		return
	}
	_, _ = io.WriteString(w, "here you are\n")
}

// receive counts a request. It returns the mode, and whether the request is
// within what a throttled upstream accepts.
func (u *upstream) receive(id string) (mode string, accepted bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.attempts[id]++
	if time.Since(u.second) >= time.Second {
		u.second, u.accepted = time.Now(), 0
	}
	if accepted = u.accepted < mostPerSecond; accepted {
		u.accepted++
	}
	return u.mode, accepted
}

// tell answers with the number of attempts of each call.
func (u *upstream) tell(w http.ResponseWriter, _ *http.Request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	_ = json.NewEncoder(w).Encode(u.attempts)
}
