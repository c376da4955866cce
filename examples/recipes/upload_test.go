package recipes

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/examples/internal/faulty"
)

func upload(ctx context.Context, client *http.Client, url, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, file) // which closes the file
	if err != nil {
		return err
	}
	req.GetBody = func() (io.ReadCloser, error) { return os.Open(path) } // for each further attempt
	if req.ContentLength = info.Size(); req.ContentLength == 0 {
		file.Close()
		req.Body = http.NoBody // any other body of length 0 is sent in chunks
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return backoffhttp.Check(resp)
}

// The server reads a part of the file, and is busy. It does so twice.
func TestAnUploadIsSentWholeAgain(t *testing.T) {
	uploadToBusyServer(t, bytes.Repeat([]byte("seven\n"), 100_000))
}

func TestAnEmptyFileIsSentWithItsLength(t *testing.T) { uploadToBusyServer(t, nil) }

func uploadToBusyServer(t *testing.T, text []byte) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	var got string
	busy := func(_ *faulty.Server, w http.ResponseWriter, r *http.Request) {
		io.CopyN(io.Discard, r.Body, 1000)
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	take := func(_ *faulty.Server, _ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		got = fmt.Sprint(r.ContentLength, err, bytes.Equal(body, text))
	}
	server := faulty.Start(busy, busy, take)
	defer server.Close()

	err := upload(t.Context(), backoffhttp.Client(backoff.Policy{Name: "upload"}), server.URL, path)

	if want := fmt.Sprint(len(text), nil, true); err != nil || got != want {
		t.Errorf("%v, and the server got %s", err, got)
	}
}
