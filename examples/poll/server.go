package main

import (
	"encoding/json"
	"net/http"
	"sync"
)

// jobs is a server that gives its answers in turn, and the last one again and
// again.
type jobs struct {
	mu      sync.Mutex
	looks   int
	answers []answer
}

type answer func(http.ResponseWriter)

func (s *jobs) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	give := s.answers[min(s.looks, len(s.answers)-1)]
	s.looks++
	give(w)
}

func pending(percent int) answer { return state(job{Status: "pending", Percent: percent}) }

func finished(w http.ResponseWriter) {
	state(job{Status: "done", Percent: 100, Result: "12,345 rows"})(w)
}

func failed(w http.ResponseWriter) { state(job{Status: "failed", Percent: 60})(w) }

func failing(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }

// later is pending, and says when to come back.
func later(percent int) answer {
	return func(w http.ResponseWriter) {
		w.Header().Set("Retry-After", "1")
		pending(percent)(w)
	}
}

func state(j job) answer {
	return func(w http.ResponseWriter) { _ = json.NewEncoder(w).Encode(j) }
}
