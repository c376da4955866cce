package main

import (
	"testing"
	"time"

	"github.com/gobackoff/backoff/examples/internal/journal/journaltest"
)

func TestTheQuestionWaitsAsLongAsTheServerAsks(t *testing.T) {
	began := time.Now()
	want := `attempt 1 of 4 failed: status 429 Too Many Requests (throttled), server asks for 200ms; again in TIME
attempt 2 of 4 failed: status 429 Too Many Requests (throttled), server asks for 200ms; again in TIME
attempt 3 of 4 succeeded
answer: So that not all come back at once.
in all: 3 attempts in TIME, with waits of TIME
`
	journaltest.Prints(t, run, want)
	if took := time.Since(began); took < 400*time.Millisecond {
		t.Errorf("took %v, want 400ms or more", took)
	}
}
