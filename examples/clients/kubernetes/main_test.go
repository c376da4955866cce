package main

import (
	"testing"

	"github.com/gobackoff/backoff/examples/internal/journal/journaltest"
)

const want = `-- RetryOnConflict
    API server: GET 200 OK
    API server: PUT 409 Conflict
    API server: GET 200 OK
    API server: PUT 503 Service Unavailable
it returned: Service Unavailable
-- a policy
    API server: GET 200 OK
    API server: PUT 409 Conflict
attempt 1 of 4 failed: Conflict (retryable); again in TIME
    API server: GET 200 OK
    API server: PUT 503 Service Unavailable
attempt 2 of 4 failed: Service Unavailable (retryable); again in TIME
    API server: GET 200 OK
    API server: PUT 200 OK
attempt 3 of 4 succeeded
in all: 3 attempts in TIME, with waits of TIME
`

func TestThePolicyGoesOnWhereRetryOnConflictEnds(t *testing.T) {
	journaltest.Prints(t, run, want)
}
