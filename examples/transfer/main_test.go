package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/examples/internal/faulty"
)

func TestTheCopyIsIntact(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), "540672 bytes, intact, in ") {
		t.Errorf("got %q", &out)
	}
}

func TestProgressRestartsTheCountOfAttempts(t *testing.T) {
	server, err := startServer()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	var file bytes.Buffer
	err = download(t.Context(), &file, server.URL)
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
	err = download(t.Context(), &bytes.Buffer{}, server.URL)
	if !errors.Is(err, backoff.ErrExhausted) || server.Requests() != policy.MaxAttempts {
		t.Errorf("%d requests and %v, want %d and exhaustion", server.Requests(), err, policy.MaxAttempts)
	}
}
