package backoffhttp_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

var file = bytes.Repeat([]byte("0123456789abcde\n"), 1<<12) // 64 KiB

// A fileServer serves file, and does with the nth request what the nth of its
// faults says.
type fileServer struct {
	faults   []http.HandlerFunc // nil serves the file
	etag     string
	modified time.Time
	requests []*http.Request
}

func (s *fileServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests = append(s.requests, r)
	if s.etag != "" {
		w.Header().Set("Etag", s.etag)
	}
	if n := len(s.requests); n <= len(s.faults) && s.faults[n-1] != nil {
		s.faults[n-1](w, r)
		return
	}
	http.ServeContent(w, r, "file", s.modified, bytes.NewReader(file))
}

// serveFile makes a server that names the version of the file.
func serveFile(faults ...http.HandlerFunc) *fileServer {
	return &fileServer{etag: `"v1"`, faults: faults}
}

// cutAfter breaks off after so many bytes.
func cutAfter(n int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(&cut{w, n}, r, "file", time.Time{}, bytes.NewReader(file))
	}
}

// requireFile requires that a GET gets the whole file.
func requireFile(t *testing.T, tr http.RoundTripper) {
	t.Helper()
	got, err := io.ReadAll(getRoot(t, tr).Body)
	require.NoError(t, err)
	require.True(t, bytes.Equal(file, got))
}

func (s *fileServer) transport(t *testing.T) *backoffhttp.Unguarded {
	base, _ := serveInMemory(t, s)
	tr := over(base)
	tr.Resume = true
	return tr
}

func TestResumeGoesOnWhereABodyBrokeOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveFile(cutAfter(20_000), cutAfter(30_000), status(503), status(500))
		began := time.Now()
		resp := getRoot(t, s.transport(t))
		require.Equal(t, 200, resp.StatusCode)
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.True(t, bytes.Equal(file, got))
		require.Len(t, s.requests, 5)
		require.Empty(t, s.requests[0].Header.Get("Range"))
		require.Equal(t, "identity", s.requests[0].Header.Get("Accept-Encoding"))
		require.Equal(t, "bytes=20000-65535", s.requests[1].Header.Get("Range"))
		require.Equal(t, `"v1"`, s.requests[1].Header.Get("If-Range"))
		require.Equal(t, "bytes=50000-65535", s.requests[4].Header.Get("Range"))
		require.Equal(t, 800*time.Millisecond, time.Since(began), "100; and, progress having been made, 100, 200 and 400")
	})
}

// What has arrived gives the attempts back: only standing still ends the
// download.
func TestResumeOutlastsMoreBreaksThanThereAreAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveFile(slices.Repeat([]http.HandlerFunc{cutAfter(3000)}, 20)...)
		requireFile(t, s.transport(t))
		require.Len(t, s.requests, 21)
	})
	synctest.Test(t, func(t *testing.T) {
		s := serveFile(cutAfter(3000), status(503), status(503), status(503), status(503))
		got, err := io.ReadAll(getRoot(t, s.transport(t)).Body)
		require.Len(t, got, 3000)
		require.ErrorIs(t, err, backoff.ErrExhausted)
		require.Len(t, s.requests, 4, "the first attempt is the one that broke off")
	})
}

func TestResumeByLastModified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fileServer{modified: time.Now().Add(-time.Hour)}
		s.faults = []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(&cut{w, 3000}, r, "file", s.modified, bytes.NewReader(file))
		}}
		requireFile(t, s.transport(t))
		require.Equal(t, s.modified.UTC().Format(http.TimeFormat), s.requests[1].Header.Get("If-Range"))
	})
}

// A part of a part.
func TestResumeOfARangeThatTheCallerAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveFile(cutAfter(3000))
		req := newRequest(t, "GET", "http://a.test/", nil)
		req.Header.Set("Range", "bytes=1000-9999")
		resp := roundTrip(t, s.transport(t), req)
		require.Equal(t, 206, resp.StatusCode)
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.True(t, bytes.Equal(file[1000:10000], got))
		require.Equal(t, "bytes=4000-9999", s.requests[1].Header.Get("Range"))
		require.Equal(t, "bytes=1000-9999", req.Header.Get("Range"))
	})
}

func TestResumeReportsDefinitiveAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveFile(cutAfter(3000), status(403))
		_, err := io.ReadAll(getRoot(t, s.transport(t)).Body)
		e := statusOf(t, err)
		require.Equal(t, 403, e.Code)
	})
}

func TestResumeNeedsAStrongValidatorAndAGET(t *testing.T) {
	now := "Sat, 01 Jan 2000 00:00:00 GMT"
	for name, c := range map[string]struct {
		method string
		header []string
		code   int
	}{
		"no validator":             {"GET", nil, 200},
		"a weak tag":               {"GET", []string{"Etag", `W/"v1"`}, 200},
		"a weak tag and a date":    {"GET", []string{"Etag", `W/"v1"`, "Last-Modified", "Fri, 31 Dec 1999 00:00:00 GMT", "Date", now}, 200},
		"modified this second":     {"GET", []string{"Last-Modified", now, "Date", now}, 200},
		"no ranges":                {"GET", []string{"Etag", `"v1"`, "Accept-Ranges", "none"}, 200},
		"not a GET":                {"PUT", []string{"Etag", `"v1"`}, 200},
		"a status that is neither": {"GET", []string{"Etag", `"v1"`}, 203},
		"a part of something":      {"GET", []string{"Etag", `"v1"`, "Content-Range", "lines 1-2/3"}, 206},
	} {
		t.Run(name, func(t *testing.T) {
			broken := func(req *http.Request) (*http.Response, error) {
				resp, _ := answer(c.code, c.header...)(req)
				resp.Body = io.NopCloser(io.MultiReader(strings.NewReader("half"), failingReader{io.ErrUnexpectedEOF}))
				return resp, nil
			}
			tr, w := scripted(broken)
			tr.Resume = true
			_, err := io.ReadAll(roundTrip(t, tr, newRequest(t, c.method, "http://a.test/", nil)).Body)
			require.Equal(t, io.ErrUnexpectedEOF, err)
			require.Equal(t, 1, w.requests())
		})
	}
}

// What net/http has decoded on the way cannot be continued; so none is asked
// for, unless the caller does.
func TestResumeLeavesCodingsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var zipped bytes.Buffer
		z := gzip.NewWriter(&zipped)
		z.Write(file)
		z.Close()
		s := serveFile()
		s.faults = []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			require.Equal(t, "gzip", r.Header.Get("Accept-Encoding"))
			w.Header().Set("Content-Encoding", "gzip")
			w.Write(zipped.Bytes())
		}}
		req := newRequest(t, "GET", "http://a.test/", nil)
		req.Header.Set("Accept-Encoding", "gzip")
		require.Equal(t, zipped.String(), text(t, roundTrip(t, s.transport(t), req)))
	})
	tr, w := scripted(answer(200))
	tr.Resume = true
	roundTrip(t, tr, newRequest(t, "PUT", "http://a.test/", nil))
	require.Empty(t, w.request(0).header.Get("Accept-Encoding"))
}

func TestClosingABodyEndsAReadThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveFile(cutAfter(3000))
		tr := s.transport(t)
		tr.Policy.Schedule = backoff.Constant(time.Hour)
		tr.Policy.MaxElapsed = -1
		resp := getRoot(t, tr)
		ended := make(chan error)
		go func() {
			_, err := io.ReadAll(resp.Body)
			ended <- err
		}()
		time.Sleep(time.Minute)
		require.NoError(t, resp.Body.Close())
		require.ErrorIs(t, <-ended, context.Canceled)
		_, err := resp.Body.Read(make([]byte, 1))
		require.Error(t, err)
		require.Len(t, s.requests, 1)
	})
}

func TestReadingAClosedBodyIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveFile()
		resp := getRoot(t, s.transport(t))
		require.NoError(t, resp.Body.Close())
		_, err := resp.Body.Read(make([]byte, 1))
		require.ErrorContains(t, err, "closed response body")
	})
}

func TestTheCallersContextEndsAResumedBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		s := serveFile(cutAfter(3000))
		resp := roundTrip(t, s.transport(t), newRequest(t, "GET", "http://a.test/", nil).WithContext(ctx))
		_, err := io.ReadAll(resp.Body)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// Each attempt at the rest has the policy's time, and its body has not.
func TestResumeWithAttemptTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveFile()
		slow := func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(&slowly{w}, r, "file", time.Time{}, bytes.NewReader(file))
		}
		s.faults = []http.HandlerFunc{cutAfter(3000), func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, slow}
		tr := s.transport(t)
		tr.Policy.AttemptTimeout = time.Second
		requireFile(t, tr)
		require.Len(t, s.requests, 3)
	})
}

type slowly struct{ http.ResponseWriter }

func (s *slowly) Write(p []byte) (int, error) {
	http.NewResponseController(s.ResponseWriter).Flush() // the header
	time.Sleep(2 * time.Second)
	return s.ResponseWriter.Write(p)
}

func TestResumeAndReadAheadGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveFile(cutAfter(3000))
		tr := s.transport(t)
		tr.ReadAhead = 5000
		resp := getRoot(t, tr)
		require.Len(t, s.requests, 2, "as it broke off within what is read ahead")
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.True(t, bytes.Equal(file, got))
	})
}

func TestAReadOfNothingReadsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveFile()
		resp := getRoot(t, s.transport(t))
		n, err := resp.Body.Read(nil)
		require.Zero(t, n)
		require.NoError(t, err)
	})
}

// A base may end a body early without saying so.
func TestABodyShorterThanAnnouncedIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		short := func(req *http.Request) (*http.Response, error) {
			resp, _ := answerBody(200, "0123", "Etag", `"v1"`)(req)
			resp.ContentLength = 10
			return resp, nil
		}
		rest := func(req *http.Request) (*http.Response, error) {
			first, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(req.Header.Get("Range"), "bytes="), "-9"))
			return answerBody(206, "0123456789"[first:], "Content-Range", "bytes "+strconv.Itoa(first)+"-9/*")(req)
		}
		tr, w := scripted(short, failure(syscall.ECONNRESET), rest)
		tr.Resume = true
		require.Equal(t, "0123456789", text(t, getRoot(t, tr)))
		require.Zero(t, w.open())
	})
}

// Asking for the rest of what has begun to arrive repeats no work: it is not
// refused by a budget that a client without success has used up. Standing still
// is.
func TestResumeIsNotRefusedByTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveFile(slices.Repeat([]http.HandlerFunc{cutAfter(3000)}, 20)...)
		requireFile(t, &backoffhttp.Transport{Base: s.transport(t).Base, Policy: steady(), Resume: true})
	})
	synctest.Test(t, func(t *testing.T) {
		s := serveFile(cutAfter(3000), status(503))
		tr := s.transport(t)
		tr.Policy.Budget = refusing{}
		_, err := io.ReadAll(getRoot(t, tr).Body)
		require.ErrorIs(t, err, backoff.ErrBudget)
		require.Len(t, s.requests, 2)
	})
}

// MaxElapsed begins anew with each piece that arrives, and so does what it
// leaves to the attempts.
func TestResumeHasTimeAfterALongBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		piece := func(code int, body, span string) step {
			return func(req *http.Request) (*http.Response, error) {
				select {
				case <-time.After(time.Second):
				case <-req.Context().Done():
					return nil, req.Context().Err()
				}
				resp, err := answerBody(code, body, "Etag", `"1"`, "Content-Range", span)(req)
				resp.Body = io.NopCloser(io.MultiReader(resp.Body, readerFunc(func([]byte) (int, error) {
					time.Sleep(time.Minute)
					return 0, io.ErrUnexpectedEOF
				})))
				resp.ContentLength = int64(10 - strings.Index("0123456789", body))
				return resp, err
			}
		}
		tr := over(newWire(piece(200, "0123", ""), piece(206, "456", "bytes 4-9/10"), piece(206, "789", "bytes 7-9/10")))
		tr.Resume, tr.Policy.MaxElapsed, tr.Policy.AttemptTimeout = true, 10*time.Second, 5*time.Second
		require.Equal(t, "0123456789", text(t, getRoot(t, tr)))
	})
}
