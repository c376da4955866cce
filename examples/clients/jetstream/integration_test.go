//go:build integration

package main

import (
	"testing"

	"github.com/gobackoff/backoff/examples/internal/journal/journaltest"
)

const want = `attempt 1 of 4 failed: context deadline exceeded (retryable); again in TIME
order 1 is stored; was stored before: true
attempt 2 of 4 succeeded
order 2 is stored; was stored before: false
attempt 1 of 4 succeeded
order 3 is stored; was stored before: false
attempt 1 of 4 succeeded
the stream has 3 messages
delivery 1 of order 1: done
delivery 1 of order 2: the warehouse does not answer; again in TIME
delivery 1 of order 3: no such article; not again
delivery 2 of order 2: the warehouse does not answer; again in TIME
delivery 3 of order 2: done
in all: 4 attempts in TIME, with waits of TIME
`

func TestNoOrderIsStoredTwiceAndNoneIsDeliveredForEver(t *testing.T) {
	journaltest.Prints(t, run, want)
}
