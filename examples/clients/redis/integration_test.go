//go:build integration

package main

import (
	"context"
	"io"
	"testing"

	"github.com/gobackoff/backoff/examples/internal/journal/journaltest"
)

func TestCallsAreCarriedThroughARestartAFailoverAndAMove(t *testing.T) {
	journaltest.Prints(t, func(ctx context.Context, out io.Writer) error { return run(ctx, out, policy) }, `attempt 1 of 6 failed: EOF (unknown); again in TIME
attempt 2 of 6 failed: LOADING Redis is loading the dataset in memory (retryable); again in TIME
attempt 3 of 6 failed: READONLY You can't write against a read only replica. (retryable); again in TIME
attempt 4 of 6 failed: MOVED 3999 HOST (retryable); again in TIME
attempt 5 of 6 succeeded
the server was called 5 times, and is at HOST
attempt 1 of 6 failed: WRONGTYPE Operation against a key holding the wrong kind of value (permanent); gave up: permanent
in all: 6 attempts in TIME, with waits of TIME
`)
}
