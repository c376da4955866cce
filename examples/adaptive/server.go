package main

import (
	"net/http"
	"sync"
	"time"
)

// A server accepts a number of requests per second, and answers the others with
// 429.
type server struct {
	limit float64

	mu     sync.Mutex
	tokens float64
	filled time.Time
	total  counts
}

// counts are the requests that were accepted and refused.
type counts struct{ taken, refused int }

func (c counts) sent() int { return c.taken + c.refused }

func newServer(limit float64) *server {
	return &server{limit: limit, tokens: limit / 2, filled: time.Now()}
}

// ServeHTTP implements [http.Handler].
func (s *server) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if !s.take() {
		w.WriteHeader(http.StatusTooManyRequests)
	}
}

// take takes a token from a bucket that holds the tokens of half a second.
func (s *server) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.tokens = min(s.limit/2, s.tokens+s.limit*now.Sub(s.filled).Seconds())
	s.filled = now
	if s.tokens < 1 {
		s.total.refused++
		return false
	}
	s.tokens--
	s.total.taken++
	return true
}

func (s *server) counts() counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}
