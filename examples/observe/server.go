package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// A phase is how the server answers for a while.
type phase struct {
	name   string
	share  float64 // of a cycle
	errors float64 // of requests
	slow   float64 // of requests, which take longer than the client waits
}

var phases = []phase{
	{"flaky", 0.30, 0.08, 0},
	{"slow", 0.15, 0.02, 0.08},
	{"down", 0.25, 1, 0},
	{"well", 0.30, 0.01, 0},
}

// A server goes through its phases again and again.
type server struct {
	url      string
	http     http.Server
	began    time.Time
	cycle    time.Duration
	requests atomic.Int64
}

func startServer(cycle time.Duration) (*server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{url: "http://" + listener.Addr().String(), began: time.Now(), cycle: cycle}
	s.http.Handler = s
	go s.http.Serve(listener)
	return s, nil
}

// phase returns the present phase.
func (s *server) phase() phase {
	at := float64(time.Since(s.began)%s.cycle) / float64(s.cycle)
	for _, m := range phases {
		if at < m.share {
			return m
		}
		at -= m.share
	}
	return phases[len(phases)-1]
}

// ServeHTTP implements [http.Handler].
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Request-Id", fmt.Sprintf("%06d", s.requests.Add(1)))
	m, draw := s.phase(), rand.Float64()
	switch {
	case draw < m.errors/8: // no answer at all
		panic(http.ErrAbortHandler)
	case draw < m.errors/4:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many", http.StatusTooManyRequests)
	case draw < m.errors:
		http.Error(w, "not now", http.StatusServiceUnavailable)
	case draw < m.errors+m.slow:
		select {
		case <-time.After(4 * attemptTimeout):
		case <-r.Context().Done():
		}
	default:
		time.Sleep(time.Duration(rand.ExpFloat64() * float64(5*time.Millisecond)))
		io.WriteString(w, "an order")
	}
}
