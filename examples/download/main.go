// Command download downloads a file over connections that break in the middle
// of it. Watch the requests: each one asks for the rest of the file, and
// io.Copy gets one whole body. A file that changes in the meantime ends the
// download.
//
// It takes one field of the transport. [backoff.Run.Progress] is for a program
// that does the same by hand.
//
//	go run -C examples ./download
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/examples/internal/faulty"
	"github.com/gobackoff/backoff/examples/internal/journal"
)

// original is the file, half a megabyte of text.
var original = bytes.Repeat([]byte("0123456789abcde\n"), 1<<15)

// resetAfter is how many bytes of the file one connection sends.
const resetAfter = 50 << 10

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	log := journal.New(out)
	for _, show := range []func(context.Context, *journal.Journal) error{whole, changed} {
		if err := show(ctx, log); err != nil {
			return err
		}
	}
	return nil
}

func newClient() *http.Client {
	return &http.Client{Transport: &backoffhttp.Transport{
		Policy: backoff.Policy{
			Name:        "download",
			MaxAttempts: 3, // without a byte in between
			Schedule:    backoff.Exponential{Initial: 5 * time.Millisecond},
		},
		Resume: true,
	}}
}

// whole downloads a file over more broken connections than there are attempts.
func whole(ctx context.Context, log *journal.Journal) error {
	server, err := faulty.Start(serve(log, func(int) string { return `"v1"` }))
	if err != nil {
		return err
	}
	defer server.Close()
	file := sha256.New()
	n, err := download(ctx, file, server.URL)
	if err != nil {
		return err
	}
	if !bytes.Equal(file.Sum(nil), digest(original)) {
		return errors.New("the copy differs from the original")
	}
	log.Say("%d bytes, intact, over %d connections", n, server.Requests())
	return nil
}

// changed downloads a file that is replaced in the meantime. The transport does
// not join halves of different files.
func changed(ctx context.Context, log *journal.Journal) error {
	server, err := faulty.Start(serve(log, func(n int) string { return `"v` + strconv.Itoa(n/3) + `"` }))
	if err != nil {
		return err
	}
	defer server.Close()
	n, err := download(ctx, io.Discard, server.URL)
	if !errors.Is(err, backoffhttp.ErrChanged) {
		return fmt.Errorf("%d bytes and %w, want ErrChanged", n, err)
	}
	log.Say("%d bytes, then: %v", n, err)
	return nil
}

// download needs no code for any of this.
func download(ctx context.Context, file io.Writer, url string) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	resp, err := newClient().Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	return io.Copy(file, resp.Body)
}

func digest(data []byte) []byte {
	sum := sha256.Sum256(data)
	return sum[:]
}

// serve serves the file, and resets each connection after a part of it. version
// returns the version of the file at the nth request.
func serve(log *journal.Journal, version func(n int) string) faulty.Step {
	return func(s *faulty.Server, w http.ResponseWriter, r *http.Request) {
		etag := version(s.Requests())
		w.Header().Set("Etag", etag)
		log.Say("request %d: Range %q; the file is version %s", s.Requests(), r.Header.Get("Range"), etag)
		http.ServeContent(faulty.ResetAfter(w, resetAfter), r, "file.txt", time.Time{}, bytes.NewReader(original))
	}
}
