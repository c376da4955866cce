package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"
)

// A phase is how the server answers for a while.
type phase struct {
	share  float64 // of a cycle
	errors float64 // of requests
	slow   float64 // of requests, which take longer than the client waits
}

var phases = []phase{
	{0.30, 0.08, 0},    // flaky
	{0.15, 0.02, 0.08}, // slow
	{0.25, 1, 0},       // down
	{0.30, 0.01, 0},    // well
}

// A server goes through its phases again and again.
type server struct {
	began    time.Time
	cycle    time.Duration
	requests atomic.Int64
}

// phase returns the present phase.
func (s *server) phase() phase {
	at := float64(time.Since(s.began)%s.cycle) / float64(s.cycle)
	for _, p := range phases {
		if at < p.share {
			return p
		}
		at -= p.share
	}
	return phases[len(phases)-1]
}

// ServeHTTP implements [http.Handler].
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Request-Id", fmt.Sprintf("%06d", s.requests.Add(1)))
	p, draw := s.phase(), rand.Float64()
	switch {
	case draw < p.errors/8: // no answer at all
		panic(http.ErrAbortHandler)
	case draw < p.errors/4:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many", http.StatusTooManyRequests)
	case draw < p.errors:
		http.Error(w, "not now", http.StatusServiceUnavailable)
	case draw < p.errors+p.slow:
		select {
		case <-time.After(4 * attemptTimeout):
		case <-r.Context().Done():
		}
	default:
		time.Sleep(time.Duration(rand.ExpFloat64() * float64(5*time.Millisecond)))
		io.WriteString(w, "an order")
	}
}
