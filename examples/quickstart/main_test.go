package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/gobackoff/backoff/examples/internal/faulty"
	"github.com/gobackoff/backoff/examples/internal/journal/journaltest"
)

// The patterns leave out the operating system's words for a broken connection, and
// the numbers of calls, which a busy machine changes. Those are exact in virtual time.
var lines = []string{
	` 0\.\d{3}s  attempt 1 of 4 failed: status 503 Service Unavailable \(retryable\); again in (\d\dms|\dms|100ms|\d+µs)`,
	` \d\.\d{3}s  attempt 2 of 4 failed: status 429 Too Many Requests \(throttled\), server asks for 1s; again in 1(\.[01]\d*)?s`,
	` \d\.\d{3}s  attempt 3 of 4 failed: .+ \(retryable\); again in ([1-4]?\d?\dms|\d+µs)`,
	` \d\.\d{3}s  attempt 4 of 4 succeeded`,
	` \d\.\d{3}s  the response is "all is well again"`,
	`  1s  █+ \d+ +\d+ +\d+  █+ \d+ +\d+ +\d+`,
	`      the server goes down: it refuses connections`,
	`  4s  █+ \d+ +\d +\d+  [█▏]* ?\d+ +\d+ +\d+`,
	`      the server is back; \d+ calls of the loop have failed, \d+ of the client`,
	`  8s  █+ \d+ +\d+ +\d+  █+ \d+ +\d+ +\d+`,
	`While the server was down, \d+ calls became \d+ attempts of the loop, and \d+ of`,
}

func TestBothPartsAreShown(t *testing.T) {
	t.Parallel()
	journaltest.Has(t, run, lines...)
}

func TestNoWaitBeyondTheDeadline(t *testing.T) {
	t.Parallel()
	server := start(t, faulty.Busy(429, "10"))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	err := fetch(ctx, io.Discard, http.DefaultClient, server.URL)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want deadline exceeded", err)
	}
	if ctx.Err() != nil || server.Requests() != 1 {
		t.Errorf("gave up late, after %d requests: %v", server.Requests(), err)
	}
}

func start(t *testing.T, script ...faulty.Step) *faulty.Server {
	t.Helper()
	server := faulty.Start(script...)
	t.Cleanup(server.Close)
	return server
}
