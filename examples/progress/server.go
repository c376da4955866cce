package main

import (
	"bytes"
	"net/http"
	"time"

	"github.com/gobackoff/backoff/examples/internal/faulty"
)

const (
	chunk   = 16 << 10
	version = `"v1"`
)

// original is the file, 33 chunks of text.
var original = bytes.Repeat([]byte("0123456789abcde\n"), 33*chunk/16)

// startServer serves the file, and resets each connection after 5 chunks of it.
func startServer() (*faulty.Server, error) {
	return faulty.Start(func(_ *faulty.Server, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", version)
		http.ServeContent(faulty.ResetAfter(w, 5*chunk), r, "file.txt", time.Time{}, bytes.NewReader(original))
	})
}
