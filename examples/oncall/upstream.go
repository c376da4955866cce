package main

import (
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/gobackoff/backoff/examples/internal/faulty"
)

// What an upstream can be.
const (
	healthy   = "healthy"
	slow      = "slow"
	throttled = "throttled"
	dead      = "dead"
)

// mostPerSecond is what a throttled upstream accepts: half of what it gets.
const mostPerSecond = perSecond / 3 / 2

// An upstream is a server that can be told to misbehave. It counts the requests
// for each request of a user: these are the attempts of a call.
type upstream struct {
	*faulty.Server

	mu       sync.Mutex
	mode     string
	attempts map[string]int // by X-Request-Id
	second   time.Time      // since when accepted counts
	accepted int
}

// newUpstream starts a healthy upstream.
func newUpstream() *upstream {
	u := &upstream{mode: healthy, attempts: make(map[string]int)}
	u.Server = faulty.Start(u.respond)
	return u
}

// become changes the mode. One that is dead has no listener, and starts again at
// its former address.
func (u *upstream) become(mode string) error {
	u.mu.Lock()
	u.mode = mode
	u.mu.Unlock()
	if mode == dead {
		u.Stop()
		return nil
	}
	return u.Restart()
}

// respond counts a request of the service, and responds to it.
func (u *upstream) respond(_ *faulty.Server, w http.ResponseWriter, r *http.Request) {
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
