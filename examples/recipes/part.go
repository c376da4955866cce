package recipes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

// files continues a body that breaks off, also if the host then fails for 7 s.
var files = &http.Client{Transport: &backoffhttp.Transport{
	Policy: backoff.Policy{
		Name:        "download",
		MaxAttempts: 16, // without a byte in between
		Schedule:    backoff.Exponential{Initial: 300 * time.Millisecond, Max: time.Second},
		Jitter:      backoff.EqualJitter,
	},
	Resume: true,
}}

// A body that brings no byte for so long ends the download. It includes the waits between attempts.
var stallsAfter = time.Minute

// progress is told how many bytes of a file are there. total is -1 if the server does not say it.
var progress = func(name string, done, total int64) {}

var errStalled = errors.New("the download stalls")

// download stores a file under a name. Until it is whole, it is name.part, and name.part.etag says
// which version of which URL that is. If a download fails, the next one goes on with its part,
// unless the file has changed. There must be one download of a name at a time.
func download(ctx context.Context, client *http.Client, url, name string) error {
	part, err := os.OpenFile(name+".part", os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	defer part.Close()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	timer := time.AfterFunc(stallsAfter, func() { stop(errStalled) })
	defer timer.Stop()
	err = fill(ctx, client, url, part, timer)
	if errors.Is(err, backoffhttp.ErrChanged) {
		if err = os.RemoveAll(version(part)); err == nil {
			err = fill(ctx, client, url, part, timer) // from its first byte
		}
	}
	info, failed := part.Stat()
	closed := errors.Join(failed, part.Sync(), part.Close())
	if err != nil && failed == nil && info.Size() == 0 {
		return errors.Join(err, closed, os.Remove(part.Name()), os.RemoveAll(version(part))) // as after a 404
	}
	if err = errors.Join(err, closed); err != nil {
		return err
	}
	return errors.Join(os.Remove(version(part)), os.Rename(part.Name(), name))
}

// version names the file with the ETag of a part and its URL. There is no ETag if it is weak.
func version(part *os.File) string { return part.Name() + ".etag" }

// fill adds what a part has not.
func fill(ctx context.Context, client *http.Client, url string, part *os.File, timer *time.Timer) error {
	size, err := part.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	known, _ := os.ReadFile(version(part))
	if etag, of, _ := strings.Cut(string(known), "\n"); size > 0 && etag != "" && of == url {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", size))
		req.Header.Set("If-Range", etag)
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	whole, err := begin(part, size, url, resp)
	if err != nil || whole {
		return err
	}
	done, err := part.Seek(0, io.SeekCurrent) // 0, if the part was not used
	if err != nil {
		return err
	}
	body := &awake{Reader: resp.Body, timer: timer, name: strings.TrimSuffix(part.Name(), ".part"), done: done, total: -1}
	if resp.ContentLength >= 0 {
		body.total = done + resp.ContentLength
	}
	_, err = io.Copy(part, body)
	return err
}

// begin prepares a part of some size for the body of a response from a URL. It reports whether the
// part is the whole file already.
func begin(part *os.File, size int64, url string, resp *http.Response) (whole bool, err error) {
	etag, got := resp.Header.Get("ETag"), resp.Header.Get("Content-Range")
	asked := resp.Request.Header.Get("If-Range")
	switch {
	case asked != "" && resp.StatusCode == http.StatusRequestedRangeNotSatisfiable && got == fmt.Sprintf("bytes */%d", size):
		return true, nil
	case asked != "" && resp.StatusCode == http.StatusPartialContent && etag == asked && strings.HasPrefix(got, fmt.Sprintf("bytes %d-", size)):
		return false, nil
	case resp.StatusCode == http.StatusRequestedRangeNotSatisfiable, resp.StatusCode == http.StatusPartialContent:
		return false, fmt.Errorf("%w: the rest of %d bytes of %s is %q of %s", backoffhttp.ErrChanged, size, asked, got, etag)
	}
	if err = backoffhttp.Check(resp, backoffhttp.Status2xx); err != nil {
		return false, err
	}
	if strings.HasPrefix(etag, "W/") {
		etag = "" // two versions may have the same weak one
	}
	if _, err = part.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	return false, errors.Join(part.Truncate(0), os.WriteFile(version(part), []byte(etag+"\n"+url), 0o666))
}

// An awake body puts off a timer, and tells the progress, whenever it brings bytes.
type awake struct {
	io.Reader
	timer       *time.Timer
	name        string
	done, total int64
}

func (a *awake) Read(p []byte) (int, error) {
	n, err := a.Reader.Read(p)
	if n > 0 {
		a.timer.Reset(stallsAfter)
		a.done += int64(n)
		progress(a.name, a.done, a.total)
	}
	return n, err
}
