package main

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/examples/internal/faulty"
	"github.com/gobackoff/backoff/examples/internal/journal"
	"github.com/gobackoff/backoff/examples/internal/journal/journaltest"
)

func TestADownloadIsWhole(t *testing.T) {
	journaltest.Has(t, run,
		`.*request 1: Range ""`,
		`.*request 11: Range "bytes=512000-524287"`,
		`.*524288 bytes, intact, over 11 connections`)
}

func TestStandingStillEndsTheDownload(t *testing.T) {
	server := faulty.Start(serve(journal.New(io.Discard)), faulty.Status(503))
	defer server.Close()
	var file bytes.Buffer
	err := download(t.Context(), &file, server.URL)
	if file.Len() != resetAfter || !errors.Is(err, backoff.ErrExhausted) || server.Requests() != 3 {
		t.Errorf("%d bytes of %d, %v, %d requests, want 3", file.Len(), resetAfter, err, server.Requests())
	}
}
