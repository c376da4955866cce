package backoffhttp_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

// h2 is as much of an HTTP/2 server as it takes to fail in ways that net/http's
// does not: it answers each request, in turn, by an action. Source: RFC 9113.
type h2 struct {
	mu       sync.Mutex
	actions  []h2action
	requests int
}

// An h2action writes the answer to a stream, and reports whether the connection
// goes on.
type h2action func(w *h2writer, stream uint32) bool

const (
	h2headers  = 1
	h2reset    = 3
	h2settings = 4
	h2ping     = 6
	h2goaway   = 7

	h2noError  = 0
	h2internal = 2
	h2refused  = 7
	h2calm     = 11
)

// h2OK answers 200 without a body: 0x88 is ":status: 200" in HPACK's static
// table.
func h2OK(w *h2writer, stream uint32) bool {
	w.frame(h2headers, 0x5, stream, []byte{0x88}) // END_STREAM, END_HEADERS
	return true
}

func h2Reset(code uint32) h2action {
	return func(w *h2writer, stream uint32) bool {
		w.frame(h2reset, 0, stream, binary.BigEndian.AppendUint32(nil, code))
		return true
	}
}

// h2GoAway sends a GOAWAY that says it has worked on streams up to last, and
// breaks those off.
func h2GoAway(last, code uint32) h2action {
	return func(w *h2writer, _ uint32) bool {
		w.frame(h2goaway, 0, 0, binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, last), code))
		return last == 0 // then the client closes, having nothing left to wait for
	}
}

// h2writer writes frames in order without blocking its callers.
type h2writer struct{ out chan []byte }

func (w *h2writer) frame(kind, flags byte, stream uint32, payload []byte) {
	head := []byte{0, 0, byte(len(payload)), kind, flags}
	w.out <- append(binary.BigEndian.AppendUint32(head, stream), payload...)
}

// serve speaks with one connection until it ends.
func (s *h2) serve(conn net.Conn) {
	w := &h2writer{out: make(chan []byte, 100)}
	written := make(chan struct{})
	go func() {
		defer close(written)
		for frame := range w.out {
			conn.Write(frame)
		}
	}()
	defer func() {
		go io.Copy(io.Discard, conn) // in memory a peer that cannot write does not read
		close(w.out)
		<-written
		conn.Close()
	}()
	io.ReadFull(conn, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")))
	w.frame(h2settings, 0, 0, nil)
	for s.next(conn, w) {
	}
}

// next reads a frame and does what is to be done about it.
func (s *h2) next(conn net.Conn, w *h2writer) bool {
	head := make([]byte, 9)
	if _, err := io.ReadFull(conn, head); err != nil {
		return false
	}
	payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
	if _, err := io.ReadFull(conn, payload); err != nil {
		return false
	}
	const ack = 1
	switch kind, flags := head[3], head[4]; {
	case kind == h2settings && flags&ack == 0:
		w.frame(h2settings, ack, 0, nil)
	case kind == h2ping && flags&ack == 0:
		w.frame(h2ping, ack, 0, payload)
	case kind == h2headers:
		return s.act()(w, binary.BigEndian.Uint32(head[5:]))
	}
	return true
}

func (s *h2) act() h2action {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	return s.actions[min(s.requests, len(s.actions))-1]
}

// serveHTTP2 returns a transport of net/http's that speaks HTTP/2 with such a
// server, in memory.
func serveHTTP2(t testing.TB, actions ...h2action) (*http.Transport, *h2) {
	s := &h2{actions: actions}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: &protocols, DialContext: func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		t.Cleanup(func() { far.Close() })
		go s.serve(far)
		return near, nil
	}}
	return tr, s
}

// attempts counts what reaches net/http.
func attempts(base http.RoundTripper, n *int) http.RoundTripper {
	return step(func(req *http.Request) (*http.Response, error) { *n++; return base.RoundTrip(req) })
}

// The server may have worked on a stream that it breaks off.
func TestHTTP2StreamErrorsAreRetriedWhereTheRequestMayBe(t *testing.T) {
	for _, action := range []h2action{h2Reset(h2internal), h2GoAway(1, h2noError)} {
		for method, want := range map[string]int{"GET": 2, "POST": 1} {
			synctest.Test(t, func(t *testing.T) {
				base, s := serveHTTP2(t, action, h2OK)
				err := try(over(base), newRequest(t, method, "http://a.test/", nil))
				require.Equal(t, want, s.requests)
				require.Equal(t, method == "GET", err == nil, "%v", err)
			})
		}
	}
}

// net/http repeats refused streams by itself first, for about a minute.
func TestHTTP2RefusedStreamsAreRetriedForAnyMethod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuse := h2Reset(h2refused)
		base, s := serveHTTP2(t, refuse, refuse, refuse, refuse, refuse, refuse, refuse, refuse, h2OK)
		n := 0
		req := newRequest(t, "POST", "http://a.test/", strings.NewReader("charge"))
		require.Equal(t, 200, roundTrip(t, over(attempts(base, &n)), req).StatusCode)
		require.Equal(t, 9, s.requests)
		require.Equal(t, 2, n, "the first of which gave up after a minute")
	})
}

func TestHTTP2AnAttemptsTimeEndsTheRepeatingOfNetHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base, _ := serveHTTP2(t, h2Reset(h2refused))
		tr := over(base)
		tr.Policy.AttemptTimeout = 2 * time.Second
		began := time.Now()
		_, err := tr.RoundTrip(newRequest(t, "GET", "http://a.test/", nil))
		require.ErrorIs(t, err, backoff.ErrAttemptTimeout)
		require.NotErrorIs(t, err, context.Canceled)
		require.Equal(t, 8700*time.Millisecond, time.Since(began))
	})
}

func TestHTTP2GoAwayBeyondTheLastStreamIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base, s := serveHTTP2(t, h2GoAway(0, h2noError), h2OK)
		roundTrip(t, over(base), newRequest(t, "POST", "http://a.test/", strings.NewReader("charge")))
		require.Equal(t, 2, s.requests)
	})
	synctest.Test(t, func(t *testing.T) { // net/http does not repeat the first stream of a connection then
		base, s := serveHTTP2(t, h2GoAway(0, h2internal), h2OK)
		n := 0
		roundTrip(t, over(attempts(base, &n)), newRequest(t, "POST", "http://a.test/", strings.NewReader("charge")))
		require.Equal(t, 2, s.requests)
		require.Equal(t, 2, n)
	})
}

// What comes after the header is no evidence that the request did not arrive,
// unless the program marks it so.
func TestHTTP2APostIsNotRepeatedAfterItsHeaderCame(t *testing.T) {
	read := func(resp *http.Response) error { _, err := io.ReadAll(resp.Body); return err }
	for name, end := range map[string]h2action{"REFUSED_STREAM": h2Reset(h2refused), "GOAWAY": h2GoAway(0, h2noError)} {
		begin := func(w *h2writer, stream uint32) bool {
			w.frame(h2headers, 0x4, stream, []byte{0x88}) // END_HEADERS; status 200
			return end(w, stream)
		}
		for method, want := range map[string]int{"GET": 4, "POST": 1} {
			for inspect, f := range map[string]func(*http.Response) error{
				"ReadAhead": nil,
				"Inspect":   func(resp *http.Response) error { return fmt.Errorf("inspect: %w", read(resp)) },
			} {
				bubble(t, name+" "+method+" "+inspect, func(t *testing.T) {
					base, s := serveHTTP2(t, begin)
					tr := over(base)
					tr.ReadAhead, tr.Inspect, tr.Policy.Classify = -1, f, backoffhttp.Classify
					try(tr, newRequest(t, method, "http://a.test/", strings.NewReader("charge")))
					require.Equal(t, want, s.requests)
				})
			}
		}
		bubble(t, name+", marked", func(t *testing.T) {
			base, s := serveHTTP2(t, begin)
			tr := over(base)
			tr.Inspect = func(resp *http.Response) error { return backoff.OfClass(read(resp), backoff.ClassNotSent) }
			require.NoError(t, try(tr, newRequest(t, "POST", "http://a.test/", strings.NewReader("charge"))))
			require.Equal(t, 4, s.requests)
		})
	}
}

// go-retryablehttp#207: without GetBody net/http cannot go on after a GOAWAY.
func TestHTTP2GoAwayWithABufferedBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base, s := serveHTTP2(t, h2GoAway(0, h2noError), h2OK)
		tr := over(base)
		tr.MaxBuffer = 1 << 10
		roundTrip(t, tr, newRequest(t, "POST", "http://a.test/", stream("charge")))
		require.Equal(t, 2, s.requests)
	})
}

func TestHTTP2GoAwayWithABodyThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read := make(chan struct{})
		base, s := serveHTTP2(t, func(w *h2writer, stream uint32) bool {
			<-read
			return h2GoAway(0, h2noError)(w, stream)
		}, h2OK)
		body := io.MultiReader(readerFunc(func([]byte) (int, error) { close(read); return 0, io.EOF }), strings.NewReader("charge"))
		_, err := over(base).RoundTrip(newRequest(t, "PUT", "http://a.test/", body))
		require.ErrorContains(t, err, "define Request.GetBody")
		require.Equal(t, backoff.ClassNotSent, backoffhttp.Classify(err), "a caller that can make the body again may retry")
		require.Equal(t, 1, s.requests)
	})
}

func TestHTTP2GoAwayWithABodyThatIsUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base, s := serveHTTP2(t, h2GoAway(0, h2noError), h2OK)
		base.ExpectContinueTimeout = time.Minute
		body := &closings{Reader: strings.NewReader("charge")}
		req := newRequest(t, "POST", "http://a.test/", body)
		req.Header.Set("Expect", "100-continue")
		roundTrip(t, over(base), req)
		require.Equal(t, 2, s.requests)
		time.Sleep(2 * time.Minute) // until then net/http waits for a 100, and the body is its own
		synctest.Wait()
		require.Equal(t, 1, body.n)
	})
}

func TestHTTP2EnhanceYourCalmIsThrottling(t *testing.T) {
	for _, action := range []h2action{h2Reset(h2calm), h2GoAway(1, h2calm)} {
		synctest.Test(t, func(t *testing.T) {
			base, _ := serveHTTP2(t, action, h2OK)
			tr := over(base)
			var class backoff.Class
			tr.Policy.Observer = func(_ context.Context, e backoff.Event) {
				if e.Kind == backoff.EventRetry {
					class = e.Class
				}
			}
			getRoot(t, tr)
			require.Equal(t, backoff.ClassThrottled, class)
		})
	}
}

// All protocols of net/http behave alike.
var protocols = map[string]func(*httptest.Server){
	"HTTP/1.1":          func(*httptest.Server) {},
	"HTTP/1.1 over TLS": func(s *httptest.Server) { s.StartTLS() },
	"HTTP/2": func(s *httptest.Server) {
		s.EnableHTTP2 = true
		s.StartTLS()
	},
}

func TestEveryProtocol(t *testing.T) {
	for name, setup := range protocols {
		t.Run(name, func(t *testing.T) {
			s := serve(t, inTurn(status(503), abort, status(429, "Retry-After", "0"), echo), setup)
			tr := &backoffhttp.Unguarded{Base: s.Client().Transport, Policy: atOnce()}
			resp := roundTrip(t, tr, newRequest(t, "PUT", s.URL, strings.NewReader("content")))
			require.Equal(t, strings.HasPrefix(name, "HTTP/2"), resp.ProtoMajor == 2)
			require.Equal(t, "content", text(t, resp))
			require.EqualValues(t, 4, s.requests.Load())
		})
	}
}

// abort ends the stream, or the connection, without an answer.
func abort(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func echo(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }

// The retries wait, because Go 1.27 reads the rest of a body meanwhile.
func TestEveryProtocolKeepsItsConnection(t *testing.T) {
	for name, setup := range protocols {
		t.Run(name, func(t *testing.T) {
			s := serve(t, inTurn(status(503), status(500), status(200)), setup)
			require.Equal(t, "body of 200", text(t, roundTrip(t, over(s.Client().Transport), newRequest(t, "GET", s.URL, nil))))
			require.EqualValues(t, 1, s.connections.Load())
		})
	}
}
