//go:build integration

package main

import (
	"bytes"
	"testing"

	"github.com/gobackoff/backoff/examples/internal/journal"
)

func TestCallsAreCarriedThroughARestartAFailoverAndAMove(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out, policy); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	want := `attempt 1 of 6 failed: EOF (unknown); again in TIME
attempt 2 of 6 failed: LOADING Redis is loading the dataset in memory (retryable); again in TIME
attempt 3 of 6 failed: READONLY You can't write against a read only replica. (retryable); again in TIME
attempt 4 of 6 failed: MOVED 3999 HOST (retryable); again in TIME
attempt 5 of 6 succeeded
the server was called 5 times, and is at HOST
attempt 1 of 6 failed: WRONGTYPE Operation against a key holding the wrong kind of value (permanent); gave up: permanent
in all: 6 attempts in TIME, with waits of TIME
`
	if got := journal.Normal(out.String()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
