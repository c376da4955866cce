package recipes

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/examples/internal/faulty"
)

// A fileServer serves a version of a file, and notes which ranges were asked for.
type fileServer struct {
	etag   string
	file   []byte
	ranges []string
	breaks int // after so many bytes of each response; 0 means never
}

func (f *fileServer) step(_ *faulty.Server, w http.ResponseWriter, r *http.Request) {
	f.ranges = append(f.ranges, r.Header.Get("Range"))
	w.Header().Set("ETag", f.etag)
	if f.breaks > 0 {
		w = faulty.ResetAfter(w, f.breaks)
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.file))
}

// plain sends a request once, as a program that is killed does.
var plain = &http.Client{}

func startFiles(t *testing.T, f *fileServer) (url, name string) {
	server := faulty.Start(f.step)
	t.Cleanup(server.Close)
	return server.URL, filepath.Join(t.TempDir(), "file")
}

func requireFile(t *testing.T, name string, want []byte) {
	t.Helper()
	if got, err := os.ReadFile(name); !bytes.Equal(got, want) {
		t.Errorf("%d bytes of %d, or others: %v", len(got), len(want), err)
	}
	if left, _ := filepath.Glob(name + ".*"); left != nil {
		t.Errorf("left: %q", left)
	}
}

// The connection breaks after each 100 kB.
func TestADownloadGoesOnByItself(t *testing.T) {
	f := &fileServer{etag: `"v1"`, file: bytes.Repeat([]byte("0123456789"), 30_000), breaks: 100_000}
	url, _ := startFiles(t, f)
	ctx := t.Context()
	t.Chdir(t.TempDir())

	err := download(ctx, files, url, "release.tar.gz")

	if err != nil {
		t.Error(err)
	}
	requireFile(t, "release.tar.gz", f.file)
}

// Each run gets a third of the file. The last one only has to rename it.
func TestADownloadGoesOnWithThePartOfAnEarlierRun(t *testing.T) {
	f := &fileServer{etag: `"v1"`, file: bytes.Repeat([]byte("0123456789"), 30_000), breaks: 100_000}
	url, name := startFiles(t, f)
	said := int64(0)
	defer func(before func(string, int64, int64)) { progress = before }(progress)
	progress = func(of string, done, total int64) {
		if of != name || total != 300_000 || done <= said {
			t.Errorf("%d of %d of %s, after %d", done, total, of, said)
		}
		said = done
	}
	runs := 1
	for ; download(t.Context(), plain, url, name) != nil && runs < 10; runs++ {
		if _, err := os.Stat(name); err == nil {
			t.Fatal("a part is under the name of the file")
		}
	}
	if requireFile(t, name, f.file); runs < 3 || f.ranges[0] != "" || f.ranges[1] == "" || said != 300_000 {
		t.Errorf("%d runs, ranges %q, %d bytes at the end", runs, f.ranges, said)
	}
	if err := errors.Join(os.Rename(name, name+".part"), os.WriteFile(name+".part.etag", []byte(f.etag+"\n"+url), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := download(t.Context(), plain, url, name); err != nil {
		t.Error(err)
	}
	requireFile(t, name, f.file)
}

// The server fails fourteen times after it has sent a third of the file, as during a restart.
func TestADownloadOutlivesARestart(t *testing.T) {
	f := &fileServer{etag: `"v1"`, file: bytes.Repeat([]byte("0123456789"), 30_000), breaks: 100_000}
	script := append([]faulty.Step{f.step}, slices.Repeat([]faulty.Step{faulty.Status(503)}, 14)...)
	server := faulty.Start(append(script, f.step)...)
	t.Cleanup(server.Close)
	name := filepath.Join(t.TempDir(), "file")
	of := files.Transport.(*backoffhttp.Transport)
	quick := &backoffhttp.Transport{Policy: of.Policy, Resume: of.Resume}
	quick.Policy.Schedule = backoff.Constant(10 * time.Millisecond)
	if err := download(t.Context(), &http.Client{Transport: quick}, server.URL, name); err != nil {
		t.Error(err)
	}
	requireFile(t, name, f.file)
}

// A part of another version is never mixed with the file. If the version of a part is not
// known, the download begins anew.
func TestADownloadHasOneVersion(t *testing.T) {
	old, changed := bytes.Repeat([]byte("o"), 100_000), bytes.Repeat([]byte("n"), 120_000)
	for _, etag := range []string{`"v2"`, `W/"v1"`, ""} {
		f := &fileServer{etag: `"v1"`, file: old, breaks: 50_000}
		if etag != `"v2"` {
			f.etag = etag // the same for both
		}
		url, name := startFiles(t, f)
		if download(t.Context(), plain, url, name) == nil {
			t.Fatal("no error")
		}
		f.etag, f.file, f.breaks = etag, changed, 0
		if err := download(t.Context(), plain, url, name); err != nil {
			t.Errorf("%s: %v", etag, err)
		}
		requireFile(t, name, changed)
	}
}

// The server obeys the Range, but not the If-Range, or sends another range.
func TestAServerThatSendsAnotherRangeSpoilsNoFile(t *testing.T) {
	file := bytes.Repeat([]byte("0123456789"), 1000)
	for _, answer := range []struct{ etag, has string }{
		{`"v2"`, "bytes 10-9999/10000"},
		{`"v1"`, "bytes 0-9999/10000"},
		{`"v1"`, ""},
	} {
		server := faulty.Start(func(_ *faulty.Server, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", answer.etag)
			w.Header().Set("Content-Range", answer.has)
			w.WriteHeader(http.StatusPartialContent)
			w.Write(file[10:])
		}, func(_ *faulty.Server, w http.ResponseWriter, _ *http.Request) {
			w.Write(file)
		})
		t.Cleanup(server.Close)
		name := filepath.Join(t.TempDir(), "file")
		known := []byte(`"v1"` + "\n" + server.URL)
		if err := errors.Join(os.WriteFile(name+".part", file[:10], 0o600), os.WriteFile(name+".part.etag", known, 0o600)); err != nil {
			t.Fatal(err)
		}
		if err := download(t.Context(), plain, server.URL, name); err != nil || server.Requests() != 2 {
			t.Errorf("%+v: %v after %d requests", answer, err, server.Requests())
		}
		requireFile(t, name, file)
	}
}

// The server only ever sends another range.
func TestADownloadBeginsAnewOnce(t *testing.T) {
	server := faulty.Start(func(_ *faulty.Server, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusPartialContent)
	})
	t.Cleanup(server.Close)
	name := filepath.Join(t.TempDir(), "file")
	if err := download(t.Context(), plain, server.URL, name); !errors.Is(err, backoffhttp.ErrChanged) || server.Requests() != 2 {
		t.Errorf("%v after %d requests", err, server.Requests())
	}
	requireNothing(t, name)
}

// Two files have the same ETag, and are stored under the same name.
func TestAnotherURLBeginsAnew(t *testing.T) {
	f := &fileServer{etag: `"v1"`, file: bytes.Repeat([]byte("o"), 100_000), breaks: 50_000}
	url, name := startFiles(t, f)
	if download(t.Context(), plain, url+"/old", name) == nil {
		t.Fatal("no error")
	}
	f.file, f.breaks = bytes.Repeat([]byte("n"), 120_000), 0
	if err := download(t.Context(), plain, url+"/new", name); err != nil {
		t.Error(err)
	}
	requireFile(t, name, f.file)
}

func TestAMissingFileLeavesNothing(t *testing.T) {
	server := faulty.Start(faulty.Status(404))
	t.Cleanup(server.Close)
	name := filepath.Join(t.TempDir(), "file")
	var answer *backoffhttp.StatusError
	if err := download(t.Context(), plain, server.URL, name); !errors.As(err, &answer) {
		t.Error(err)
	}
	requireNothing(t, name)
}

func requireNothing(t *testing.T, name string) {
	t.Helper()
	if left, _ := filepath.Glob(name + "*"); left != nil {
		t.Errorf("left: %q", left)
	}
}

// A missing file costs no part that is there.
func TestAFailedDownloadKeepsThePart(t *testing.T) {
	server := faulty.Start(faulty.Status(404))
	t.Cleanup(server.Close)
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name+".part", []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	var answer *backoffhttp.StatusError
	if err := download(t.Context(), plain, server.URL, name); !errors.As(err, &answer) || answer.Code != 404 {
		t.Error(err)
	}
	if part, err := os.ReadFile(name + ".part"); string(part) != "half" {
		t.Error(string(part), err)
	}
}

func TestADownloadThatStallsEnds(t *testing.T) {
	server := faulty.Start(func(_ *faulty.Server, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"v1"`)
		w.Write([]byte("half"))
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	t.Cleanup(server.Close)
	defer func(d time.Duration) { stallsAfter = d }(stallsAfter)
	stallsAfter = 100 * time.Millisecond
	for _, client := range []*http.Client{plain, files} {
		name := filepath.Join(t.TempDir(), "file")
		if err := download(t.Context(), client, server.URL, name); !errors.Is(err, errStalled) {
			t.Error(err)
		}
		if part, err := os.ReadFile(name + ".part"); string(part) != "half" {
			t.Error(string(part), err)
		}
	}
}
