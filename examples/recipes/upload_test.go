package recipes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

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

// uploadParts puts the parts 1 to n, four at once. The first one that fails ends the others, and
// then the upload is aborted, also if ctx has ended.
func uploadParts(ctx context.Context, n int, put func(context.Context, int) error, abort func(context.Context) error) error {
	group, sending := errgroup.WithContext(ctx)
	group.SetLimit(4)
	for i := range n {
		group.Go(func() error { return put(sending, i+1) }) // a PUT of a bytes.Reader
	}
	err := group.Wait()
	if err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return errors.Join(err, abort(ctx))
}

// A partServer takes all parts but one. A part that hangs takes an hour.
type partServer struct{ fails, hangs string }

func (s *partServer) RoundTrip(r *http.Request) (*http.Response, error) {
	took, code := 10*time.Millisecond, http.StatusOK
	switch r.URL.Path {
	case s.hangs:
		took = time.Hour
	case s.fails:
		code = http.StatusServiceUnavailable
	}
	r.Body.Close()
	select {
	case <-time.After(took):
		return &http.Response{StatusCode: code, Body: http.NoBody, Request: r}, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// tryParts uploads four parts, and returns how long it took. An upload that fails is aborted.
func tryParts(t *testing.T, base http.RoundTripper, attempts int, limit time.Duration) (time.Duration, error) {
	client := &http.Client{Transport: &backoffhttp.Transport{Base: base, Policy: backoff.Policy{Name: "part", MaxAttempts: attempts}}}
	put := func(ctx context.Context, n int) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, fmt.Sprint("http://parts.example/", n), bytes.NewReader([]byte("part")))
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		return backoffhttp.Check(resp)
	}
	aborted := false
	abort := func(ctx context.Context) error { aborted = ctx.Err() == nil; return nil }
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	began := time.Now()
	err := uploadParts(ctx, 4, put, abort)
	if aborted != (err != nil) {
		t.Errorf("aborted: %v, after %v", aborted, err)
	}
	return time.Since(began), err
}

func TestThePartsOfAnUploadEndTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if _, err := tryParts(t, &partServer{}, 3, time.Minute); err != nil {
			t.Error(err)
		}
		took, err := tryParts(t, &partServer{fails: "/2", hangs: "/3"}, 3, time.Minute)
		if status, ok := errors.AsType[*backoffhttp.StatusError](err); !ok || status.Code != 503 || took > 10*time.Second {
			t.Errorf("%v after %v", err, took)
		}
		took, err = tryParts(t, &partServer{hangs: "/3"}, 3, time.Second)
		if !errors.Is(err, context.DeadlineExceeded) || took != time.Second {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// The other parts are done soon. Then only the one that fails is sent.
func TestAPartThatAlwaysFailsNeedsMaxAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for attempts, waits := range map[int]bool{0: true, 3: false} {
			took, err := tryParts(t, &partServer{fails: "/2"}, attempts, 30*time.Second)
			if err == nil || waits != (took > 20*time.Second) {
				t.Errorf("with MaxAttempts %d it took %v: %v", attempts, took, err)
			}
		}
	})
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
