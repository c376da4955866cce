package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/examples/internal/faulty"
	"github.com/gobackoff/backoff/examples/internal/journal"
)

func TestTheCopyIsIntact(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	got := journal.Normal(out.String())
	for _, line := range []string{
		"attempt 1 of 3 failed: read tcp HOST->HOST: ",
		"540672 bytes, intact",
		"in all: 7 attempts in TIME, with waits of TIME",
	} {
		if !strings.Contains(got, line) {
			t.Errorf("no line %s in\n%s", line, got)
		}
	}
	if strings.Contains(got, "attempt 2 of 3") {
		t.Errorf("the count did not start again:\n%s", got)
	}
}

func TestProgressRestartsTheCountOfAttempts(t *testing.T) {
	server, err := startServer()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	var file bytes.Buffer
	err = download(t.Context(), policy, &file, server.URL)
	if err != nil || server.Requests() <= policy.MaxAttempts {
		t.Errorf("%d requests and %v, want more than %d requests", server.Requests(), err, policy.MaxAttempts)
	}
}

func TestACallWithoutProgressEnds(t *testing.T) {
	server, err := faulty.Start(faulty.Status(503))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	err = download(t.Context(), policy, &bytes.Buffer{}, server.URL)
	if !errors.Is(err, backoff.ErrExhausted) || server.Requests() != policy.MaxAttempts {
		t.Errorf("%d requests and %v, want %d and exhaustion", server.Requests(), err, policy.MaxAttempts)
	}
}
