package main

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"testing"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/examples/internal/faulty"
)

func TestADownloadIsWholeOrNothing(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(`^524288 bytes, intact, over 11 connections\n\d+ bytes, then changed: true\n$`)
	if !want.Match(out.Bytes()) {
		t.Errorf("got %q", &out)
	}
}

func TestStandingStillEndsTheDownload(t *testing.T) {
	server, err := faulty.Start(serve(func(int) string { return `"v1"` }), faulty.Status(503))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	n, err := download(t.Context(), io.Discard, server.URL)
	if n != resetAfter || !errors.Is(err, backoff.ErrExhausted) || server.Requests() != 3 {
		t.Errorf("%d bytes, %v, %d requests; want %d bytes, exhaustion and 3", n, err, server.Requests(), resetAfter)
	}
}
