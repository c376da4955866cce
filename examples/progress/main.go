// Command progress downloads a file from a server that breaks each connection.
// Watch the attempts: they are more than the policy's 3, but each is number 1,
// because every chunk that arrives is kept and restarts the count.
//
// So the call gives up only if it makes no progress. Command download leaves
// all this to the transport.
//
//	go run -C examples ./progress
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/examples/internal/journal"
)

var policy = backoff.Policy{
	Name:        "download",
	MaxAttempts: 3, // without progress
	Schedule:    backoff.Exponential{Initial: 20 * time.Millisecond},
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	server, err := startServer()
	if err != nil {
		return err
	}
	defer server.Close()

	log := journal.New(out)
	policy := policy
	policy.Observer = log.Observe
	var file bytes.Buffer
	if err := download(ctx, policy, &file, server.URL); err != nil {
		return err
	}
	if !bytes.Equal(file.Bytes(), original) {
		return errors.New("the copy differs from the original")
	}
	log.Say("%d bytes, intact", file.Len())
	log.Sum()
	return nil
}

// download appends what is at url to file.
func download(ctx context.Context, policy backoff.Policy, file *bytes.Buffer, url string) error {
	r := policy.Start(ctx)
	for range r.Attempts() {
		err := resume(r.Context(), file, url, r.Progress)
		if err == nil {
			return nil
		}
		r.Fail(err)
	}
	return r.Err()
}

// resume requests the rest of the file, and calls progress for every part that
// arrives.
func resume(ctx context.Context, file *bytes.Buffer, url string, progress func()) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return backoff.Permanent(err)
	}
	req.Header.Set("Range", fmt.Sprintf("bytes=%d-", file.Len()))
	req.Header.Set("If-Match", version) // do not join halves of different files
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusPartialContent {
		return backoff.WithClass(errors.New(resp.Status), backoffhttp.StatusClass(resp.StatusCode))
	}
	_, err = io.Copy(reporter{file, progress}, resp.Body)
	return err
}

// A reporter is a writer that reports what it has written.
type reporter struct {
	io.Writer
	progress func()
}

// Write implements [io.Writer].
func (r reporter) Write(p []byte) (int, error) {
	n, err := r.Writer.Write(p)
	if n > 0 {
		r.progress()
	}
	return n, err
}
