package main

import (
	"bytes"
	"testing"

	"github.com/gobackoff/backoff/examples/internal/journal"
)

const want = `attempt 1 of 4 failed: 503 Service Unavailable (retryable); again in TIME
attempt 2 of 4 failed: read tcp HOST->HOST: read: connection reset by peer (retryable); again in TIME
attempt 3 of 4 succeeded
got region north, replicas 3
in all: 3 attempts in TIME, with waits of TIME
`

func TestTheValueArrives(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if got := journal.Normal(out.String()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
