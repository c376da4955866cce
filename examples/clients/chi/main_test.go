package main

import (
	"bytes"
	"testing"

	"github.com/gobackoff/backoff/examples/internal/journal"
)

const want = `POST /charges/ada
    server: charges ada
attempt 1 of 4 failed: read tcp HOST->HOST: read: connection reset by peer (retryable); again in TIME
attempt 2 of 4 succeeded
the client got: 201 Created
GET /price
    server: no price: backoff: price: gave up after 4 attempts: status 503 Service Unavailable
attempt 1 of 4 failed: status 503 Service Unavailable (overloaded); gave up: overloaded
the client got: 503 Service Unavailable
in all: 3 attempts in TIME, with waits of TIME
`

func TestTheChargeIsMadeOnceAndOnlyOneServerRetries(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if got := journal.Normal(out.String()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
