// Command download downloads a file over connections that break in the middle
// of it. Watch the requests: each one asks for the rest of the file, and
// io.Copy gets one whole body.
//
// It takes one field of the transport. [backoff.Run.Progress] is for a program
// that does the same by hand.
//
//	go run -C examples ./download
package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
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

func main() { journal.Main(run) }

// run downloads a file over more broken connections than there are attempts.
func run(ctx context.Context, out io.Writer) error {
	log := journal.New(out)
	server := faulty.Start(serve(log))
	defer server.Close()
	var file bytes.Buffer
	if err := download(ctx, &file, server.URL); err != nil {
		return err
	}
	if !bytes.Equal(file.Bytes(), original) {
		return errors.New("the copy differs from the original")
	}
	log.Say("%d bytes, intact, over %d connections", file.Len(), server.Requests())
	return nil
}

// A file that changes in the meantime ends the download with
// [backoffhttp.ErrChanged].
var client = &http.Client{Transport: &backoffhttp.Transport{
	Policy: backoff.Policy{
		Name:        "download",
		MaxAttempts: 3, // without a byte in between
		Schedule:    backoff.Exponential{Initial: 5 * time.Millisecond},
	},
	Resume: true,
}}

// download needs no code for any of this.
func download(ctx context.Context, file io.Writer, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err = backoffhttp.Check(resp); err != nil {
		return err
	}
	_, err = io.Copy(file, resp.Body)
	return err
}

// serve serves the file, and resets each connection after a part of it.
func serve(log *journal.Journal) faulty.Step {
	return func(s *faulty.Server, w http.ResponseWriter, r *http.Request) {
		log.Say("request %d: Range %q", s.Requests(), r.Header.Get("Range"))
		w.Header().Set("Etag", `"v1"`)
		http.ServeContent(faulty.ResetAfter(w, resetAfter), r, "file.txt", time.Time{}, bytes.NewReader(original))
	}
}
