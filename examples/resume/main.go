// Command resume downloads a file over connections that break in the middle of
// it. The transport requests the rest of the same version while the caller
// reads, and io.Copy sees one whole body. It takes one field of the transport;
// examples/transfer does the same by hand.
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
	for _, show := range []func(context.Context, io.Writer) error{whole, changed} {
		if err := show(ctx, out); err != nil {
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
func whole(ctx context.Context, out io.Writer) error {
	server, err := faulty.Start(serve(func(int) string { return `"v1"` }))
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
	fmt.Fprintf(out, "%d bytes, intact, over %d connections\n", n, server.Requests())
	return nil
}

// changed downloads a file that is replaced in the meantime. The transport does
// not join halves of different files.
func changed(ctx context.Context, out io.Writer) error {
	server, err := faulty.Start(serve(func(n int) string { return `"v` + strconv.Itoa(n/3) + `"` }))
	if err != nil {
		return err
	}
	defer server.Close()
	n, err := download(ctx, io.Discard, server.URL)
	fmt.Fprintf(out, "%d bytes, then changed: %t\n", n, errors.Is(err, backoffhttp.ErrChanged))
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
func serve(version func(n int) string) faulty.Step {
	return func(s *faulty.Server, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Etag", version(s.Requests()))
		http.ServeContent(faulty.ResetAfter(w, resetAfter), r, "file.txt", time.Time{}, bytes.NewReader(original))
	}
}
