package backoffhttp_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
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
	"github.com/gobackoff/backoff/guard"
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

func TestResumeReportsPermanentResponses(t *testing.T) {
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
			tr, w := scripted(broken(answer(c.code, c.header...), "half", io.ErrUnexpectedEOF))
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
		require.ErrorIs(t, closedWhileRead(t, resp), context.Canceled)
		_, err := resp.Body.Read(make([]byte, 1))
		require.Error(t, err)
		require.Len(t, s.requests, 1)
	})
}

// closedWhileRead closes a body after a minute, and returns how a read ended that waited meanwhile.
func closedWhileRead(t *testing.T, resp *http.Response) error {
	ended := make(chan error)
	go func() {
		_, err := io.ReadAll(resp.Body)
		ended <- err
	}()
	time.Sleep(time.Minute)
	require.NoError(t, resp.Body.Close())
	return <-ended
}

func TestTheCallersContextEndsAResumedBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := within(t, 50*time.Millisecond)
		s := serveFile(cutAfter(3000))
		resp := roundTrip(t, s.transport(t), newRequest(t, "GET", "http://a.test/", nil).WithContext(ctx))
		_, err := io.ReadAll(resp.Body)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// Whether the broken connection or the end of the context is noticed first is chance.
func TestADownloadThatIsCancelledSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errCause := errors.New("ctrl-C")
		ctx, cancel := context.WithCancelCause(t.Context())
		s := serveFile(cutAfter(3000))
		resp := roundTrip(t, s.transport(t), newRequest(t, "GET", "http://a.test/", nil).WithContext(ctx))
		_, err := io.ReadFull(resp.Body, make([]byte, 3000))
		require.NoError(t, err)
		time.Sleep(time.Second) // the connection has broken
		cancel(errCause)
		_, err = io.ReadAll(resp.Body)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, errCause)
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

func TestAReadOfNothingReadsNothingAndAClosedBodyIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveFile()
		resp := getRoot(t, s.transport(t))
		n, err := resp.Body.Read(nil)
		require.Zero(t, n)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		_, err = resp.Body.Read(make([]byte, 1))
		require.ErrorContains(t, err, "closed response body")
	})
}

// A base may end a body early without saying so.
func TestABodyShorterThanAnnouncedIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		short := changed(answerBody(200, "0123", "Etag", `"v1"`), func(resp *http.Response) { resp.ContentLength = 10 })
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

// Each piece that arrives is a success of the host, which pays for retries: a long download
// does not live on those that a new client has.
func TestAPieceThatArrivesPaysForRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faults := slices.Repeat([]http.HandlerFunc{cutAfter(3000)}, 23)
		faults[9], faults[19] = status(503), status(503)
		s := serveFile(faults...)
		requireFile(t, &backoffhttp.Transport{Base: s.transport(t).Base, Policy: steady(), Resume: true})
		require.Len(t, s.requests, 24)
	})
}

// What the pieces pay for is not enough for a restart of the host. For that a body of several
// pieces has the retries of one call besides, once in its life.
func TestAResumedBodyOutlivesARestartOnce(t *testing.T) {
	pieces := slices.Repeat([]http.HandlerFunc{cutAfter(3000)}, 9)
	down := slices.Repeat([]http.HandlerFunc{status(503)}, 14)
	synctest.Test(t, func(t *testing.T) {
		s := serveFile(slices.Concat(pieces, down, pieces)...)
		tr := &backoffhttp.Transport{Base: s.transport(t).Base, Policy: steady(), Resume: true}
		tr.Policy.MaxAttempts = 16
		requireFile(t, tr)
	})
	synctest.Test(t, func(t *testing.T) {
		s := serveFile(slices.Concat(pieces[:2], down[:2], pieces[:1], down[:1], pieces[:1], down[:1])...)
		tr := s.transport(t)
		tr.Policy.Budget = refusing{}
		_, err := io.ReadAll(getRoot(t, tr).Body)
		require.ErrorIs(t, err, backoff.ErrBudget)
		require.Len(t, s.requests, 8, "three of them after a refusal, of four attempts")
	})
}

// results are what a budget is told. It makes attempts wait for an hour after so many.
type results struct {
	backoff.BudgetDefaults

	of   []string
	most int
}

func (b *results) Reserve(backoff.Attempt) (t backoff.Ticket, wait time.Duration, ok bool) {
	if len(b.of) >= b.most {
		wait = time.Hour
	}
	return t, wait, true
}

func (b *results) Done(_ backoff.Ticket, r backoff.Result) {
	s := r.String()
	if r.Answered() && r.Took > 0 {
		s += " after " + r.Took.String() // how fast the caller reads says nothing about the host
	}
	b.of = append(b.of, s)
}

// resumedUnder reads a body slowly. It returns what such a budget was told after the first answer
// and the end of its body.
func resumedUnder(t *testing.T, most int, steps ...step) (told []string, err error) {
	b := &results{most: most}
	tr := over(newWire(append([]step{brokenOff(200, "0123")}, steps...)...))
	tr.Resume, tr.Policy.Budget = true, b
	resp := roundTrip(t, tr, newRequest(t, "GET", "http://a.test/", nil).WithContext(within(t, time.Minute)))
	_, err = io.ReadAll(readerFunc(func(p []byte) (int, error) {
		time.Sleep(time.Second)
		return resp.Body.Read(p)
	}))
	require.NoError(t, resp.Body.Close())
	require.Equal(t, []string{"success", "failed"}, b.of[:2], "it has paid when it came")
	return b.of[2:], err
}

// A piece pays once, as a call does, however short it is and however it ends.
func TestAPiecePaysLikeOneCall(t *testing.T) {
	piece := func(first int, good string, err error) step {
		return broken(answer(206, "Content-Range", "bytes "+strconv.Itoa(first)+"-9/10"), good, err)
	}
	reset, rest := syscall.ECONNRESET, unsized(206, "6789", "Content-Range", "bytes 6-9/10")
	for name, c := range map[string]struct {
		steps []step
		want  []string
	}{
		"a byte each":    {[]step{piece(4, "4", reset), piece(5, "5", reset), rest}, []string{"success", "success", "success"}},
		"no byte":        {[]step{piece(4, "", reset), piece(4, "45", reset), piece(6, "", reset), rest}, []string{"failed", "success", "failed", "success"}},
		"no new byte":    {[]step{brokenOff(200, "012"), piece(4, "45", reset), rest}, []string{"failed", "success", "success"}},
		"after failures": {[]step{answer(503), answer(503), piece(4, "45", reset), answer(503), rest}, []string{"failed", "failed", "success", "failed", "success"}},
		"cut by a limit": {[]step{piece(4, "45", backoff.ErrAttemptTimeout), rest}, []string{"success", "success"}},
	} {
		bubble(t, name, func(t *testing.T) {
			told, err := resumedUnder(t, 100, c.steps...)
			require.NoError(t, err)
			require.Equal(t, c.want, told)
		})
	}
	bubble(t, "and not for the next one, which is not made", func(t *testing.T) {
		told, err := resumedUnder(t, 3, piece(4, "45", reset), rest)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, []string{"success", "not sent"}, told)
	})
}

// The caller of a body gets the words and the URL that the caller of a client gets.
func TestTheErrorOfAResumedBodyNamesTheBudgetOfTheHostAndTheURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveFile(cutAfter(3000), status(503))
		tr := &backoffhttp.Transport{Base: s.transport(t).Base, Resume: true, FailFast: true, Services: &guard.Services{
			New: func(string) *guard.Service { return &guard.Service{Budget: refusing{}} },
		}}
		_, err := io.ReadAll(getRoot(t, tr).Body)
		require.ErrorIs(t, err, backoff.ErrBudget)
		require.ErrorContains(t, err, `Get "http://`)
		require.ErrorContains(t, err, "; it is the budget of the host (Transport.Services)")
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

const digits = "0123456789"

// brokenOff is an answer with header whose body breaks off after good. Its
// length is not known.
func brokenOff(code int, good string, header ...string) step {
	return broken(answer(code, append(header, "Etag", `"v1"`)...), good, syscall.ECONNRESET)
}

// unsized is an answer whose length is not known.
func unsized(code int, body string, header ...string) step {
	return changed(answerBody(code, body, header...), func(resp *http.Response) { resp.ContentLength = -1 })
}

// resumed reads the body of an answer that is resumed.
func resumed(t *testing.T, steps ...step) (body string, w *wire, err error) {
	w = newWire(steps...)
	tr := over(w)
	tr.Resume = true
	resp := getRoot(t, tr)
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, resp.Body.Close())
	require.Zero(t, w.open())
	return string(got), w, err
}

// A server may send less than it is asked for (RFC 9110, 15.3.7). The body does
// not end there.
func TestABodyWithoutALengthIsNeverCutShort(t *testing.T) {
	const v1 = `"v1"`
	for name, c := range map[string]struct {
		steps []step
		asked []string
	}{
		"parts of a known whole": {
			[]step{unsized(206, "456", "Content-Range", "bytes 4-6/10"), unsized(206, "789", "Content-Range", "bytes 7-9/10")},
			[]string{"bytes=4-", "bytes=7-9"},
		},
		"parts of an unknown whole": {
			[]step{unsized(206, "456", "Content-Range", "bytes 4-6/*"), unsized(206, "789", "Content-Range", "bytes 7-9/*"), answer(416, "Content-Range", "bytes */10")},
			[]string{"bytes=4-", "bytes=7-", "bytes=10-"},
		},
		"a part shorter than it says": {
			[]step{unsized(206, "45", "Content-Range", "bytes 4-9/10"), unsized(206, "6789", "Content-Range", "bytes 6-9/10")},
			[]string{"bytes=4-", "bytes=6-9"},
		},
		"the whole again, cut short": {
			[]step{unsized(200, digits[:2], "Etag", v1), unsized(200, digits, "Etag", v1)},
			[]string{"bytes=4-", "bytes=4-"},
		},
		"the whole again, with a length, broken off": {
			[]step{brokenOff(206, "45", "Content-Range", "bytes 4-9/10"), answerBody(200, digits, "Etag", v1)},
			[]string{"bytes=4-", "bytes=6-9"},
		},
		"a part that breaks off after its last byte": {
			[]step{brokenOff(206, "456789", "Content-Range", "bytes 4-9/10")},
			[]string{"bytes=4-"},
		},
		"a unit in upper case": {
			[]step{unsized(206, "456789", "Content-Range", "Bytes 4-9/10")},
			[]string{"bytes=4-"},
		},
	} {
		bubble(t, name, func(t *testing.T) {
			got, w, err := resumed(t, append([]step{brokenOff(200, "0123")}, c.steps...)...)
			require.NoError(t, err)
			require.Equal(t, digits, got)
			var asked []string
			for i := 1; i < w.requests(); i++ {
				asked = append(asked, w.request(i).header.Get("Range"))
			}
			require.Equal(t, c.asked, asked)
		})
	}
}

// The connection broke after the last byte, but before the end of the body.
func TestABodyThatIsCompleteEndsWhereNothingIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got, _, err := resumed(t, brokenOff(200, digits), answer(416, "Content-Range", "bytes */10"))
		require.NoError(t, err)
		require.Equal(t, digits, got)
	})
	for name, header := range map[string][]string{
		"it is longer": {"Content-Range", "bytes */11"}, "it is shorter": {"Content-Range", "bytes */9"},
		"it does not say": nil, "nonsense": {"Content-Range", "bytes */*"},
	} {
		synctest.Test(t, func(t *testing.T) {
			got, _, err := resumed(t, brokenOff(200, digits), answer(416, header...))
			require.ErrorIs(t, err, backoffhttp.ErrChanged, name)
			require.Equal(t, digits, got)
		})
	}
}

// What contradicts the first answer, or itself, is refused at once. What was
// read before is as it was.
func TestResumeRefusesWhatContradicts(t *testing.T) {
	const v1 = `"v1"`
	first := brokenOff(200, "0123", "Content-Length", "10")
	sized := func(req *http.Request) (*http.Response, error) {
		resp, err := first(req)
		resp.ContentLength = 10
		return resp, err
	}
	for name, c := range map[string]struct {
		first step
		then  []step
		got   string // 0123 by default
	}{
		"another version":                         {sized, []step{unsized(200, digits, "Etag", `"v2"`)}, ""},
		"a part of another version":               {sized, []step{unsized(206, "456789", "Content-Range", "bytes 4-9/10", "Etag", `"v2"`)}, ""},
		"another part":                            {sized, []step{unsized(206, digits, "Content-Range", "bytes 0-9/10")}, ""},
		"no content":                              {sized, []step{unsized(204, "")}, ""},
		"another complete length":                 {sized, []step{unsized(206, "456789", "Content-Range", "bytes 4-9/12")}, ""},
		"another complete length than before":     {first, []step{brokenOff(206, "45", "Content-Range", "bytes 4-9/10"), unsized(206, "6789", "Content-Range", "bytes 6-9/12")}, "012345"},
		"another length of the whole":             {sized, []step{answerBody(200, digits+"ab", "Etag", v1)}, ""},
		"a whole shorter than what was read":      {first, []step{answerBody(200, "012", "Etag", v1)}, ""},
		"a coding":                                {sized, []step{unsized(206, "456789", "Content-Range", "bytes 4-9/10", "Etag", v1, "Content-Encoding", "gzip")}, ""},
		"a coding of the whole":                   {first, []step{unsized(200, digits, "Etag", v1, "Content-Encoding", "br")}, ""},
		"a coding less":                           {brokenOff(200, "0123", "Content-Encoding", "gzip"), []step{unsized(200, digits, "Etag", v1)}, ""},
		"another coding":                          {brokenOff(200, "0123", "Content-Encoding", "gzip"), []step{unsized(206, "456789", "Content-Range", "bytes 4-9/10", "Content-Encoding", "identity")}, ""},
		"decoded on the way":                      {sized, []step{uncompressed(unsized(206, "456789", "Content-Range", "bytes 4-9/10", "Etag", v1))}, ""},
		"bytes beyond the range":                  {sized, []step{unsized(206, "456789ab", "Content-Range", "bytes 4-9/10")}, digits},
		"bytes beyond a part":                     {first, []step{unsized(206, "456789", "Content-Range", "bytes 4-6/10")}, "0123456"},
		"bytes beyond the whole":                  {sized, []step{unsized(200, digits+"ab", "Etag", v1)}, digits},
		"more than its length":                    {sized, []step{answerBody(206, "456789ab", "Content-Range", "bytes 4-9/10")}, ""},
		"less than its range":                     {sized, []step{answerBody(206, "4567", "Content-Range", "bytes 4-9/10")}, ""},
		"several parts":                           {sized, []step{unsized(206, "--x\r\n", "Content-Type", "multipart/byteranges; boundary=x")}, ""},
		"several parts, and the range of one":     {sized, []step{unsized(206, "--x\r\n1", "Content-Type", "Multipart/ByteRanges; boundary=x", "Content-Range", "bytes 4-9/10")}, ""},
		"two ranges":                              {sized, []step{unsized(206, "456789", "Content-Range", "bytes 4-9/10", "Content-Range", "bytes 0-5/10")}, ""},
		"a range of nothing":                      {sized, []step{unsized(206, "456789", "Content-Range", "bytes */10")}, ""},
		"lines":                                   {sized, []step{unsized(206, "456789", "Content-Range", "lines 4-9/10")}, ""},
		"an end beyond all numbers":               {first, []step{unsized(206, "456789", "Content-Range", "bytes 4-9223372036854775807/*")}, ""},
		"a weak tag":                              {sized, []step{unsized(206, "456789", "Content-Range", "bytes 4-9/10", "Etag", `W/"v1"`)}, ""},
		"a whole of an unknown version":           {first, []step{unsized(200, "abcdefghij")}, ""},
		"a whole of an unknown version as a part": {first, []step{unsized(200, "abcdefghij", "Content-Range", "bytes 4-9/10")}, ""},
		"a part with another status":              {sized, []step{unsized(203, "456789", "Content-Range", "bytes 4-9/10", "Etag", v1)}, ""},
		"not modified":                            {sized, []step{unsized(304, "", "Etag", v1)}, ""},
		"moved":                                   {sized, []step{unsized(302, "", "Location", "http://b.test/")}, ""},
		"a whole, after a part":                   {brokenOff(206, "0123", "Content-Range", "bytes 0-4/10"), []step{unsized(200, digits, "Etag", v1)}, ""},
		"beyond the part that was asked for":      {brokenOff(206, "0123", "Content-Range", "bytes 0-4/10"), []step{unsized(206, "456789", "Content-Range", "bytes 4-9/10")}, ""},
		"not satisfiable":                         {sized, []step{answer(416, "Content-Range", "bytes */4")}, ""},
	} {
		bubble(t, name, func(t *testing.T) {
			got, w, err := resumed(t, append([]step{c.first}, c.then...)...)
			require.ErrorIs(t, err, backoffhttp.ErrChanged)
			require.NotErrorIs(t, err, io.EOF)
			require.Equal(t, 1+len(c.then), w.requests(), "asked no further")
			if c.got == "" {
				c.got = "0123"
			}
			require.Equal(t, c.got, got)
		})
	}
}

func uncompressed(s step) step {
	return changed(s, func(resp *http.Response) { resp.Uncompressed = true })
}

// An answer to If-Range need not repeat the version or the coding (RFC 9110,
// 15.3.7).
func TestResumeTakesAPartThatRepeatsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got, _, err := resumed(t, brokenOff(200, "0123", "Content-Encoding", "gzip"),
			answerBody(206, "456789", "Content-Range", "bytes 4-9/10"))
		require.NoError(t, err)
		require.Equal(t, digits, got)
	})
}

// A part whose range and length disagree is not resumed: it comes as it is.
func TestAPartThatContradictsItselfIsNotResumed(t *testing.T) {
	for name, header := range map[string][]string{
		"a length":      {"Etag", `"v1"`, "Content-Range", "bytes 0-9/10"},
		"several parts": {"Etag", `"v1"`, "Content-Range", "bytes 0-3/10", "Content-Type", "multipart/byteranges; boundary=x"},
	} {
		tr, w := scripted(answerBody(206, "0123", header...))
		tr.Resume = true
		require.Equal(t, "0123", text(t, getRoot(t, tr)), name)
		require.Equal(t, 1, w.requests(), name)
	}
}

// The whole again that ends early never looks like the end.
func TestAnEndThatComesTooEarlyIsNoEOF(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got, w, err := resumed(t, brokenOff(200, "0123"), unsized(200, "01", "Etag", `"v1"`))
		require.Equal(t, "0123", got)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.NotErrorIs(t, err, io.EOF)
		require.Equal(t, 4, w.requests())
	})
}

// tickets counts the attempts that a budget has under way.
type tickets struct {
	backoff.BudgetDefaults

	out int
}

func (b *tickets) Reserve(backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	b.out++
	return backoff.Ticket{}, 0, true
}

func (b *tickets) Done(backoff.Ticket, backoff.Result) { b.out-- }

// A body that is not read to its end keeps no place in a budget.
func TestAResumedBodyGivesItsTicketBack(t *testing.T) {
	rest := unsized(206, "456789", "Content-Range", "bytes 4-9/10")
	for name, c := range map[string]struct {
		then step
		read int64
	}{
		"read to its end":      {rest, 11},
		"closed in the middle": {rest, 6},
		"refused":              {unsized(206, "456789ab", "Content-Range", "bytes 4-9/10"), 12},
	} {
		bubble(t, name, func(t *testing.T) {
			b := &tickets{}
			tr := over(newWire(brokenOff(200, "0123"), c.then))
			tr.Resume, tr.Policy.Budget = true, b
			resp := getRoot(t, tr)
			io.CopyN(io.Discard, resp.Body, c.read)
			require.NoError(t, resp.Body.Close())
			require.NoError(t, resp.Body.Close())
			require.Zero(t, b.out)
			_, err := resp.Body.Read(make([]byte, 1))
			require.Error(t, err)
			require.Zero(t, b.out)
		})
	}
}

// Close may come from another goroutine, while Read waits for bytes.
func TestAResumedBodyClosedDuringAReadGivesItsTicketBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &tickets{}
		far, near := io.Pipe()
		defer near.Close()
		tr := over(newWire(brokenOff(200, "0123"), func(req *http.Request) (*http.Response, error) {
			resp, err := unsized(206, "", "Content-Range", "bytes 4-9/10")(req)
			resp.Body = far
			return resp, err
		}))
		tr.Resume, tr.Policy.Budget = true, b
		resp := getRoot(t, tr)
		require.ErrorIs(t, closedWhileRead(t, resp), io.ErrClosedPipe)
		require.Zero(t, b.out)
	})
}

// Whatever is answered, what was read is a beginning of the file, and an end
// without an error is the end of the file.
func FuzzResume(f *testing.F) {
	f.Add(206, "bytes 4-9/10", "456789", int64(-1), true)
	f.Add(206, "bytes 4-6/10", "456789", int64(3), false)
	f.Add(206, "bytes 4-6/*", "456", int64(0), true)
	f.Add(200, "", digits, int64(10), true)
	f.Add(416, "bytes */4", "", int64(0), false)
	f.Fuzz(func(t *testing.T, code int, span, body string, length int64, sized bool) {
		right := digits // bytes that are not those of the version that it names, nobody can tell
		if code == 206 {
			right = digits[4:]
		}
		if code < 200 || code > 599 || !strings.HasPrefix(right, body[:min(len(body), len(right))]) {
			return
		}
		first := brokenOff(200, "0123")
		then := changed(answerBody(code, body, "Content-Range", span, "Etag", `"v1"`), func(resp *http.Response) { resp.ContentLength = max(-1, length) })
		w := newWire(func(req *http.Request) (*http.Response, error) {
			resp, err := first(req)
			if sized {
				resp.ContentLength = 10
			}
			return resp, err
		}, then)
		tr := over(w)
		tr.Resume, tr.Policy = true, backoff.Policy{Schedule: backoff.Constant(0), MaxAttempts: 2}
		got, err := io.ReadAll(getRoot(t, tr).Body)
		if !strings.HasPrefix(digits, string(got)) || err == nil && sized && string(got) != digits || errors.Is(err, io.EOF) {
			t.Errorf("%d, %q, %q, %d, %v: got %q, %v", code, span, body, length, sized, got, err)
		}
	})
}

// As with a plain http.Transport, a caller that gives a cause can tell its own end from another.
func TestABodyThatItsCallerEndsForAReasonEndsWithThatReasonAlone(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Etag", `"1"`)
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "abc")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer server.Close()
	ctx, stop := context.WithCancelCause(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
	require.NoError(t, err)
	client := http.Client{Transport: &backoffhttp.Transport{Resume: true}}
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	stalls := errors.New("the download stalls")
	time.AfterFunc(50*time.Millisecond, func() { stop(stalls) })
	_, err = io.ReadAll(resp.Body)
	require.ErrorIs(t, err, stalls)
	require.NotErrorIs(t, err, context.Canceled)
	require.EqualError(t, err, "the download stalls")
}
