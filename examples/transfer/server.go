package main

import (
	"bytes"
	"io"
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

// startServer serves the file, but resets each connection after 5 chunks of it.
func startServer() (*faulty.Server, error) {
	return faulty.Start(func(_ *faulty.Server, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", version)
		http.ServeContent(&fragile{w, 5 * chunk}, r, "file.txt", time.Time{}, bytes.NewReader(original))
	})
}

// fragile resets its connection after so many bytes.
type fragile struct {
	http.ResponseWriter
	left int
}

func (f *fragile) Write(p []byte) (int, error) {
	n, err := f.ResponseWriter.Write(p[:min(len(p), f.left)])
	f.left -= n
	if err == nil && f.left == 0 {
		faulty.Reset(f.ResponseWriter)
		err = io.ErrClosedPipe
	}
	return n, err
}
