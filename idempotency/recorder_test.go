package idempotency_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gobackoff/backoff/idempotency"
	"github.com/stretchr/testify/require"
)

// around is middleware that sets fields before its handler runs, other ones for
// each request.
func around(set func(header http.Header, request string), inner http.Handler) http.Handler {
	n := 0
	return handle(func(w http.ResponseWriter, r *http.Request) {
		n++
		set(w.Header(), strconv.Itoa(n))
		inner.ServeHTTP(w, r)
	})
}

// The middleware around sets a session, and the handler adds cookies of its own.
// Whoever comes with the key later gets the handler's cookies and his own
// session.
func TestWhatOthersAddedToAFieldIsNotKept(t *testing.T) {
	h := around(func(header http.Header, n string) {
		header.Add("Set-Cookie", "session=user"+n)
		header.Add("Set-Cookie", "csrf="+n)
		header.Add("Vary", "Origin")
		header.Add("Link", "</"+n+">")
		header.Set("Cache-Control", "no-store")
		header.Set("X-Request-Id", n)
		header.Set("X-Removed", n)
	}, once(handle(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Del("X-Removed")
		http.SetCookie(w, &http.Cookie{Name: "cart", Value: "7"})
		w.Header().Add("Vary", "Accept")
		w.Header()["Link"] = append([]string{"</first>"}, w.Header()["Link"]...)
		w.Header().Set("Cache-Control", "private")
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusOK)
		w.Header().Set("X-Late", "1")
		w.WriteHeader(http.StatusInternalServerError)
	}), idempotency.Options{}))
	first := request{key: "k"}.to(h).Result().Header
	require.Equal(t, http.Header{
		"Set-Cookie":    {"session=user1", "csrf=1", "cart=7"},
		"Vary":          {"Origin", "Accept"},
		"Link":          {"</first>", "</1>"},
		"Cache-Control": {"private"},
		"Connection":    {"close"},
		"X-Request-Id":  {"1"},
	}, first)
	again := request{key: "k"}.to(h).Result().Header
	require.Equal(t, http.Header{
		"Set-Cookie":          {"session=user2", "csrf=2", "cart=7"},
		"Vary":                {"Origin", "Accept"},
		"Link":                {"</2>", "</first>"},
		"Cache-Control":       {"private"},
		"X-Request-Id":        {"2"},
		"X-Removed":           {"2"},
		"Idempotent-Replayed": {"true"},
	}, again)
}

// However the handler treats the session of the middleware around it, no one
// else gets that session.
func TestNoHandlerPassesOnTheSessionAroundIt(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"sets it anew": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Set-Cookie", w.Header().Get("Set-Cookie"))
		},
		"removes it":  func(w http.ResponseWriter, r *http.Request) { w.Header().Del("Set-Cookie") },
		"replaces it": func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Set-Cookie", "own=1") },
		"repeats it": func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Set-Cookie"] = []string{"own=1", w.Header().Get("Set-Cookie"), "own=2"}
		},
		"hints first": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Add("Set-Cookie", "own=1")
		},
		"flushes": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Add("Set-Cookie", "own=1")
			w.(http.Flusher).Flush()
			io.WriteString(w, "x")
		},
		"copies": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Add("Set-Cookie", "own=1")
			io.Copy(w, strings.NewReader("x"))
		},
		"sends a record": func(w http.ResponseWriter, r *http.Request) {
			idempotency.Record{Status: 200, Header: http.Header{"Set-Cookie": {"own=1"}}}.Send(w)
		},
		"is too long": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Add("Set-Cookie", "own=1")
			io.WriteString(w, strings.Repeat("x", 2<<20))
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := around(func(header http.Header, n string) { header.Set("Set-Cookie", "session="+n) },
				once(handler, idempotency.Options{}))
			request{key: "k"}.to(h)
			again := request{key: "k"}.to(h).Result().Header["Set-Cookie"]
			require.Contains(t, again, "session=2")
			require.NotContains(t, again, "session=1")
		})
	}
}

// Middleware may set fields later than its handler begins, by a callback.
func TestWhatIsSetAroundARunningHandlerReachesTheClientAndIsNotKept(t *testing.T) {
	var outer http.ResponseWriter
	inner := once(handle(func(w http.ResponseWriter, r *http.Request) {
		outer.Header().Add("Set-Cookie", "refreshed=1")
		outer.Header().Set("X-Late", "1")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Add("Set-Cookie", "own=1")
	}), idempotency.Options{})
	s := service(t, handle(func(w http.ResponseWriter, r *http.Request) {
		outer = w
		inner.ServeHTTP(w, r)
	}))
	header := func() http.Header {
		resp, _ := exchange(t, s, request{key: "k"}.on(t.Context(), s.URL))
		return resp.Header
	}
	first := header()
	require.ElementsMatch(t, []string{"refreshed=1", "own=1"}, first["Set-Cookie"])
	require.Equal(t, "1", first.Get("X-Late"))
	again := header()
	require.Equal(t, []string{"own=1"}, again["Set-Cookie"])
	require.Empty(t, again["X-Late"])
}

// What a handler set before it panicked belongs to no answer: the middleware
// around that recovers sends another one.
func TestAPanicLeavesNothingInTheHeader(t *testing.T) {
	inner := once(handle(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		w.Header().Set("Set-Cookie", "own=1")
		w.Header().Set("Trailer", "X-Sum")
		w.WriteHeader(http.StatusEarlyHints)
		io.WriteString(w, "half")
		panic("broken")
	}), idempotency.Options{})
	s := service(t, handle(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			recover()
			http.Error(w, "sorry", http.StatusInternalServerError)
		}()
		w.Header().Set("X-Request-Id", "1")
		inner.ServeHTTP(w, r)
	}))
	resp, _ := exchange(t, s, request{key: "k"}.on(t.Context(), s.URL))
	require.Equal(t, http.StatusInternalServerError, resp.StatusCode)
	require.EqualValues(t, len("sorry\n"), resp.ContentLength)
	require.Equal(t, "1", resp.Header.Get("X-Request-Id"))
	require.Empty(t, resp.Header["Set-Cookie"])
	require.Empty(t, resp.Trailer)
}

// What a message says of its connection, its moment or its own exchange is not
// true of another message: RFC 9110, 6.6.1 and 7.6.1; RFC 9111, 5.1; RFC 9449, 8.2;
// RFC 7615, 3; RFC 9209; RFC 9211; draft-ietf-httpapi-ratelimit-headers-10, 7.3.
func TestAReplaySaysNothingThatIsTrueOfTheFirstResponseOnly(t *testing.T) {
	const long = "Thu, 01 Jan 2004 00:00:00 GMT"
	once1 := http.Header{
		"Connection": {"X-Hop, close", "x-other-hop"}, "X-Hop": {"1"}, "x-other-hop": {"2"}, "Keep-Alive": {"timeout=5"}, "Proxy-Connection": {"close"},
		"Te": {"trailers"}, "Upgrade": {"h2c"}, "Date": {long}, "Age": {"7"}, "Ratelimit": {`"a";r=0;t=9`}, "X-Ratelimit-Remaining": {"0"},
		"X-Ratelimit-Reset": {"9"}, "Server-Timing": {"db;dur=53"}, "Traceparent": {"00-1-1-01"}, "Tracestate": {"a=1"}, "Traceresponse": {"00-1-1-01"},
		"Dpop-Nonce": {"n"}, "Authentication-Info": {`nextnonce="n"`}, "Proxy-Authentication-Info": {`nextnonce="n"`},
		"Cache-Status": {"c; hit"}, "Proxy-Status": {"p"}, "date": {long}, "aGE": {"8"},
	}
	always := http.Header{
		"Set-Cookie": {"cart=7"}, "Location": {"/7"}, "Content-Type": {"text/x"}, "Etag": {`"7"`}, "Last-Modified": {long}, "Expires": {long},
		"Retry-After": {"7"}, "X-Request-Id": {"7"}, "Warning": {"199 - x"}, "Via": {"1.1 x"}, "Vary": {"Accept"}, "X-Connection": {"X-Hop"},
	}
	h := once(handle(func(w http.ResponseWriter, r *http.Request) {
		maps.Copy(w.Header(), once1)
		maps.Copy(w.Header(), always)
		w.WriteHeader(http.StatusCreated)
	}), idempotency.Options{})
	all := maps.Clone(once1)
	maps.Copy(all, always)
	require.Equal(t, all, request{key: "k"}.to(h).Header(), "the first response is the handler's")
	replay := maps.Clone(always)
	replay.Set("Idempotent-Replayed", "true")
	require.Equal(t, replay, request{key: "k"}.to(h).Header())

	// Nor does one that was kept by an earlier release, or by the handler itself.
	store := new(idempotency.MemoryStore)
	kept := once(handle(func(w http.ResponseWriter, r *http.Request) {
		c, _ := idempotency.ClaimFrom(r.Context())
		require.NoError(t, store.Finish(r.Context(), c, idempotency.Record{Status: http.StatusCreated, Header: all}))
		panic(http.ErrAbortHandler)
	}), idempotency.Options{Store: store})
	require.Panics(t, func() { request{key: "k"}.to(kept) })
	require.Equal(t, replay, request{key: "k"}.to(kept).Header())
}

// net/http dates what has no date: a replay is a message of its own.
func TestAReplayHasItsOwnDate(t *testing.T) {
	s := service(t, once(handle(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", "Thu, 01 Jan 2004 00:00:00 GMT")
	}), idempotency.Options{}))
	began := time.Now().Truncate(time.Second)
	exchange(t, s, request{key: "k"}.on(t.Context(), s.URL))
	resp, _ := exchange(t, s, request{key: "k"}.on(t.Context(), s.URL))
	date, err := http.ParseTime(resp.Header.Get("Date"))
	require.NoError(t, err)
	require.False(t, date.Before(began), "%v", date)
}

// The length of a response is that of its body, also of one that is sent again
// through middleware that has set a length itself.
func TestAReplayHasTheLengthOfItsBody(t *testing.T) {
	s := service(t, around(func(header http.Header, n string) { header.Set("Content-Length", strings.Repeat("5", len(n))) },
		once(handle(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "5")
			io.WriteString(w, "whole")
		}), idempotency.Options{})))
	for range 11 { // from the tenth on it is 55
		require.Equal(t, "whole", ask(t, s, request{key: "k"}))
	}
}

// A handler may write more or less than its Content-Length. Its client gets what
// net/http sends then, and what was cut short is not sent again.
func TestAResponseThatContradictsItsLengthIsSentAsByNetHTTPAndNotKeptCutShort(t *testing.T) {
	for name, test := range map[string]struct {
		method, length string
		status         int
		pieces         []string
		again          string // what is kept
	}{
		"a byte too many":      {"POST", "5", 200, []string{"whole", "!", "?"}, "whole"},
		"too many in one":      {"POST", "5", 200, []string{"whole!", "whole"}, `"status":410`},
		"a byte too few":       {"POST", "6", 201, []string{"who", "le"}, `"status":410`},
		"nothing":              {"POST", "6", 200, nil, `"status":410`},
		"too large to be kept": {"POST", "120", 200, slices.Repeat([]string{"0123456789"}, 12), `"status":410`},
		"of another":           {"HEAD", "6", 200, nil, "200 OK"},
		"no change":            {"POST", "6", 304, []string{"x"}, "304"},
		"no content":           {"POST", "6", 204, []string{"x"}, "204"},
	} {
		for _, flush := range []bool{false, true} {
			heard := make(chan []error, 2)
			handler := handle(func(w http.ResponseWriter, r *http.Request) {
				var errs []error
				w.Header().Set("Content-Length", test.length)
				w.WriteHeader(test.status)
				for _, piece := range test.pieces {
					_, err := io.WriteString(w, piece)
					if errs = append(errs, err); flush {
						w.(http.Flusher).Flush()
					}
				}
				heard <- errs
			})
			get := func(s *httptest.Server) string {
				resp, err := s.Client().Do(request{method: test.method, key: "k"}.on(t.Context(), s.URL))
				if err != nil {
					return err.Error()[len(s.URL):]
				}
				defer resp.Body.Close()
				body, err := io.ReadAll(resp.Body)
				return fmt.Sprint(resp.Status, resp.ContentLength, string(body), err)
			}
			bare := service(t, handler)
			kept := service(t, once(handler, idempotency.Options{Methods: []string{"POST", "HEAD"}, MaxResponse: 100}))
			require.Equal(t, get(bare), get(kept), name)
			require.Equal(t, <-heard, <-heard, name)
			require.Contains(t, get(kept), test.again, name)
			require.Empty(t, heard, "%s: the effect happens once", name)
		}
	}
}

// gone is the connection to a client that has disconnected.
type gone struct{ http.ResponseWriter }

func (gone) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
func (gone) FlushError() error         { return io.ErrClosedPipe }

// A handler that streams stops where its client is gone, as httputil.ReverseProxy
// does by a panic. What it would have stopped at would be kept for the whole, or
// the request carried out again.
func TestAClientThatDisconnectsDoesNotCutShortWhatIsKept(t *testing.T) {
	answer := strings.Repeat("0123456789", 10)
	for limit, want := range map[int64]string{0: answer, int64(len(answer) / 2): `"status":410`} {
		runs, piece := 0, 0
		h := once(handle(func(w http.ResponseWriter, r *http.Request) {
			runs++
			for piece = 0; piece < 10; piece++ {
				_, err := io.WriteString(w, "0123456789")
				if flushed := http.NewResponseController(w).Flush(); err != nil || flushed != nil {
					require.ErrorIs(t, err, io.ErrClosedPipe)
					require.ErrorIs(t, flushed, io.ErrClosedPipe)
					return
				}
			}
		}), idempotency.Options{MaxResponse: limit})
		h.ServeHTTP(gone{httptest.NewRecorder()}, request{key: "k"}.on(t.Context(), "http://service.example"))
		require.Contains(t, request{key: "k"}.to(h).Body.String(), want)
		require.Equal(t, 1, runs)
		require.Equal(t, map[int64]int{0: 10, 50: 5}[limit], piece, "what is not kept need not go on")
	}
}

func TestAConnectionThatCannotFlushSaysSo(t *testing.T) {
	h := once(handle(func(w http.ResponseWriter, r *http.Request) {
		require.ErrorIs(t, http.NewResponseController(w).Flush(), http.ErrNotSupported)
	}), idempotency.Options{})
	request := request{key: "k"}.on(t.Context(), "http://service.example")
	h.ServeHTTP(struct{ http.ResponseWriter }{httptest.NewRecorder()}, request)
}
