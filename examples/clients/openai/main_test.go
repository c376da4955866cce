package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/gobackoff/backoff/examples/internal/journal"
)

func TestTheQuestionWaitsAsLongAsTheServerAsks(t *testing.T) {
	var out bytes.Buffer
	began := time.Now()
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	want := `attempt 1 of 4 failed: status 429 Too Many Requests (throttled), server asks for 200ms; again in TIME
attempt 2 of 4 failed: status 429 Too Many Requests (throttled), server asks for 200ms; again in TIME
attempt 3 of 4 succeeded
answer: So that not all come back at once.
in all: 3 attempts in TIME, with waits of TIME
`
	if got := journal.Normal(out.String()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if took := time.Since(began); took < 400*time.Millisecond {
		t.Errorf("took %v, want 400ms or more", took)
	}
}
