package main

import (
	"encoding/json"
	"net/http"

	"github.com/gobackoff/backoff/examples/internal/faulty"
)

// The answers of the server.
var (
	failing  = faulty.Status(http.StatusServiceUnavailable)
	failed   = state(job{Status: "failed", Percent: 60})
	finished = state(job{Status: "done", Percent: 100, Result: "12,345 rows"})
)

func pending(percent int) faulty.Step { return state(job{Status: "pending", Percent: percent}) }

// later is pending, and says when to come back.
func later(percent int) faulty.Step {
	return func(s *faulty.Server, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "1")
		pending(percent)(s, w, r)
	}
}

func state(j job) faulty.Step {
	return func(_ *faulty.Server, w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(j) }
}
