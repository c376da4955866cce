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

func TestADownloadIsWhole(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	got := journal.Normal(out.String())
	for _, line := range []string{
		`request 1: Range ""`,
		`request 11: Range "bytes=512000-524287"`,
		`524288 bytes, intact, over 11 connections`,
	} {
		if !strings.Contains(got, line) {
			t.Errorf("no line %s in\n%s", line, got)
		}
	}
}

func TestStandingStillEndsTheDownload(t *testing.T) {
	server, err := faulty.Start(serve(journal.New(io.Discard)), faulty.Status(503))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	var file bytes.Buffer
	err = download(t.Context(), &file, server.URL)
	if file.Len() != resetAfter || !errors.Is(err, backoff.ErrExhausted) || server.Requests() != 3 {
		t.Errorf("%d bytes of %d, %v, %d requests, want 3", file.Len(), resetAfter, err, server.Requests())
	}
}
