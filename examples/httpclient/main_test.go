package main

import (
	"bytes"
	"testing"

	"github.com/gobackoff/backoff/examples/internal/journal"
)

const want = `GET, a server that recovers:
attempt 1 of 4 failed: status 503 Service Unavailable (retryable); again in TIME
attempt 2 of 4 failed: status 429 Too Many Requests (throttled); again in TIME
attempt 3 of 4 succeeded
    got 200 OK "3.14", requests: 3
GET, a server that does not:
attempt 1 of 4 failed: status 503 Service Unavailable (retryable); again in TIME
attempt 2 of 4 failed: status 503 Service Unavailable (retryable); again in TIME
attempt 3 of 4 failed: status 503 Service Unavailable (retryable); again in TIME
attempt 4 of 4 failed: status 503 Service Unavailable (retryable); gave up: attempts
    got 503 Service Unavailable "", requests: 4, gave up: attempts
POST:
attempt 1 of 4 failed: status 503 Service Unavailable (retryable); gave up: not idempotent
    got 503 Service Unavailable "", requests: 1, gave up: not idempotent
POST, under a key:
attempt 1 of 4 failed: status 503 Service Unavailable (retryable); again in TIME
attempt 2 of 4 succeeded
    got 200 OK "charged once", requests: 2
GET, a server that is closed for the day:
attempt 1 of 4 failed: status 503 Service Unavailable (retryable), server asks for 24h0m0s; gave up: retry after
    got 503 Service Unavailable "", requests: 1, gave up: retry after
in all: 11 attempts in TIME, with waits of TIME
`

func TestTheClientRetriesWhatIsWorthIt(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if got := journal.Normal(out.String()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
