package main

import (
	"bytes"
	"testing"
	"time"
)

func TestTheQuestionWaitsAsLongAsTheServerAsks(t *testing.T) {
	var out bytes.Buffer
	began := time.Now()
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	want := `attempt 1: status 429 Too Many Requests; the server asks for 200ms
attempt 2: status 429 Too Many Requests; the server asks for 200ms
So that not all come back at once.
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
	if took := time.Since(began); took < 400*time.Millisecond {
		t.Errorf("took %v, want 400ms or more", took)
	}
}
