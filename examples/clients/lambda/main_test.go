package main

import (
	"testing"

	"github.com/gobackoff/backoff/examples/internal/journal/journaltest"
)

const want = `-- invocation with [a b]: the service fails once
attempt 1 of 4 failed: status 503 Service Unavailable (retryable); again in TIME
attempt 2 of 4 succeeded
attempt 1 of 4 succeeded
{"batchItemFailures":null}
-- invocation with [c d e]: the service hangs
attempt 1 of 4 succeeded
attempt 1 of 4 failed: Put "http://HOST/d": context deadline exceeded (retryable); gave up: deadline
no attempt 1, gave up: deadline
{"batchItemFailures":[{"itemIdentifier":"d"},{"itemIdentifier":"e"}]}
-- invocation with [f g h]: the service is down
attempt 1 of 4 succeeded
attempt 1 of 4 failed: status 503 Service Unavailable (retryable); again in TIME
attempt 2 of 4 failed: status 503 Service Unavailable (retryable); again in TIME
circuit of orders: from closed to open
attempt 3 of 4 failed: status 503 Service Unavailable (retryable); again in TIME
orders refuses: open
no attempt 4, gave up: open
orders refuses: open
no attempt 1, gave up: open
{"batchItemFailures":[{"itemIdentifier":"g"},{"itemIdentifier":"h"}]}
-- invocation with [g h]: the service is well, but the circuit is still open
orders refuses: open
no attempt 1, gave up: open
orders refuses: open
no attempt 1, gave up: open
{"batchItemFailures":[{"itemIdentifier":"g"},{"itemIdentifier":"h"}]}
in all: 9 attempts in TIME, with waits of TIME
`

func TestWhatIsNotSentInTimeGoesBackAndTheCircuitOutlivesTheInvocation(t *testing.T) {
	journaltest.Prints(t, run, want)
}
