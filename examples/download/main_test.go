package main

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/examples/internal/faulty"
	"github.com/gobackoff/backoff/examples/internal/journal"
)

func TestADownloadIsWholeOrNothing(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	got := journal.Normal(out.String())
	for _, line := range []string{
		`request 1: Range ""; the file is version "v1"`,
		`request 11: Range "bytes=512000-524287"; the file is version "v1"`,
		`524288 bytes, intact, over 11 connections`,
		`102400 bytes, then: backoffhttp: the resource changed`,
	} {
		if !strings.Contains(got, line) {
			t.Errorf("no line %s in\n%s", line, got)
		}
	}
}

func TestStandingStillEndsTheDownload(t *testing.T) {
	server, err := faulty.Start(serve(journal.New(io.Discard), func(int) string { return `"v1"` }), faulty.Status(503))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	n, err := download(t.Context(), io.Discard, server.URL)
	if n != resetAfter || !errors.Is(err, backoff.ErrExhausted) || server.Requests() != 3 {
		t.Errorf("%d bytes, %v, %d requests; want %d bytes, exhaustion and 3", n, err, server.Requests(), resetAfter)
	}
}
