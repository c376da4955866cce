package main

import (
	"testing"

	"github.com/gobackoff/backoff/examples/internal/journal/journaltest"
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
	journaltest.Prints(t, run, want)
}
