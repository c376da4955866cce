package main

import (
	"bytes"
	"testing"

	"github.com/gobackoff/backoff/examples/internal/journal"
)

const want = `GET /orders/1, key ""
    server: request 1 for /orders/1
attempt 1 of 4 failed: status 503 Service Unavailable (retryable); again in TIME
    server: request 2 for /orders/1
attempt 2 of 4 succeeded
the client got: 200 OK
POST /orders/2, key ""
    server: request 1 for /orders/2
attempt 1 of 4 failed: status 503 Service Unavailable (retryable); gave up: not idempotent
the client got: 503 Service Unavailable
backoff: orders: gave up after 1 attempt: not idempotent (Policy.Idempotency): status 503 Service Unavailable
POST /orders/3, key "order 3"
    server: request 1 for /orders/3
attempt 1 of 4 failed: status 503 Service Unavailable (retryable); again in TIME
    server: request 2 for /orders/3
attempt 2 of 4 succeeded
the client got: 200 OK
in all: 5 attempts in TIME, with waits of TIME
`

func TestAPostIsSentAgainOnlyUnderAKey(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if got := journal.Normal(out.String()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
