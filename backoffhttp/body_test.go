package backoffhttp_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

func TestABodyIsRewoundByGetBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(answer(503), answer(503), answer(200))
		req := newRequest(t, "PUT", "http://a.test/", strings.NewReader("content"))
		rewound, get := 0, req.GetBody
		req.GetBody = func() (io.ReadCloser, error) { rewound++; return get() }
		roundTrip(t, over(w), req)
		require.Equal(t, 2, rewound, "not before it is needed")
		for i := range 3 {
			require.Equal(t, "content", w.request(i).body)
		}
	})
}

func TestABodyWithoutGetBodyIsSentOnce(t *testing.T) {
	tr, w := scripted(answer(503))
	tr.Policy.ByClass = map[backoff.Class]backoff.ClassLimits{backoff.ClassRetryable: {MaxAttempts: 5}}
	resp := roundTrip(t, tr, newRequest(t, "PUT", "http://a.test/", stream("content")))
	require.Equal(t, 503, resp.StatusCode)
	require.Equal(t, 1, w.requests(), "whatever the limit of its class")
	require.Equal(t, "content", w.request(0).body)
	gave := gaveUp(t, resp)
	require.True(t, gave.RetryableError(), "a caller that can make the body again may retry")
	_, err := over(newWire(failure(refusedDial))).RoundTrip(newRequest(t, "PUT", "http://a.test/", stream("content")))
	require.EqualError(t, err, "backoff: gave up after 1 attempt; the body of the request cannot be sent again "+
		"(Request.GetBody, Transport.MaxBuffer): dial tcp: connection refused")
}

func TestTheErrorOfABodyThatCannotBeReadSaysSo(t *testing.T) {
	body := io.MultiReader(strings.NewReader("con"), iotest.ErrReader(syscall.ECONNRESET))
	_, err := over(newWire(answer(200))).RoundTrip(newRequest(t, "PUT", "http://a.test/", body))
	require.EqualError(t, err, "backoff: gave up after 1 attempt; the body of the request could not be read: connection reset by peer")
}

func TestABodyWithoutGetBodyIsBufferedUpToMaxBuffer(t *testing.T) {
	for name, c := range map[string]struct {
		limit    int64
		attempts int
	}{
		"it fits exactly":   {7, 2},
		"it is too long":    {6, 1},
		"without a limit":   {-1, 2},
		"no body is longer": {math.MaxInt64, 2},
		"buffering is off":  {0, 1},
	} {
		bubble(t, name, func(t *testing.T) {
			tr, w := scripted(answer(503), answer(200))
			tr.MaxBuffer = c.limit
			body := &watched{ReadCloser: io.NopCloser(stream("content"))}
			roundTrip(t, tr, newRequest(t, "PUT", "http://a.test/", body))
			require.Equal(t, c.attempts, w.requests())
			for i := range c.attempts {
				require.Equal(t, "content", w.request(i).body)
			}
			require.True(t, body.closed.Load())
		})
	}
}

func TestABodyKnownToBeTooLongIsNotRead(t *testing.T) {
	reads := 0
	base := step(func(req *http.Request) (*http.Response, error) {
		require.Zero(t, reads)
		return answer(200)(req)
	})
	tr := over(base)
	tr.MaxBuffer = 10
	req := newRequest(t, "PUT", "http://a.test/", readerFunc(func([]byte) (int, error) { reads++; return 0, io.EOF }))
	req.ContentLength = 11
	roundTrip(t, tr, req)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestABufferedBodyHasItsLength(t *testing.T) {
	var lengths []int64
	tr := over(step(func(req *http.Request) (*http.Response, error) {
		lengths = append(lengths, req.ContentLength)
		if req.Body == http.NoBody {
			lengths = append(lengths, -2)
		}
		return answer(200)(req)
	}))
	tr.MaxBuffer = 100
	roundTrip(t, tr, newRequest(t, "PUT", "http://a.test/", stream("content")))
	roundTrip(t, tr, newRequest(t, "PUT", "http://a.test/", stream("")))
	trailed := newRequest(t, "PUT", "http://a.test/", stream("content"))
	trailed.Trailer, trailed.ContentLength = http.Header{"X-Sum": nil}, -1
	roundTrip(t, tr, trailed)
	require.Equal(t, []int64{7, 0, -2, -1}, lengths, "trailers go with chunks")
}

func TestABodyThatCannotBeReadIsAnError(t *testing.T) {
	broken := errors.New("disk gone")
	w := newWire(answer(200))
	for _, limit := range []int64{100, -1} {
		tr := over(w)
		tr.MaxBuffer = limit
		body := &watched{ReadCloser: io.NopCloser(failingReader{broken})}
		_, err := tr.RoundTrip(newRequest(t, "PUT", "http://a.test/", body))
		require.ErrorIs(t, err, broken)
		require.True(t, body.closed.Load())
	}
	require.Zero(t, w.requests())
}

// The source of the body is another service, whose failures look like those of
// the server. Only a request that may be sent twice is sent again after them.
func TestAPostIsNotRepeatedAfterItsOwnBodyFailed(t *testing.T) {
	for name, setup := range protocols {
		s := serve(t, echo, setup)
		for method, want := range map[string]int{"POST": 1, "PUT": 4} {
			for _, broken := range []error{refusedDial, backoff.OfClass(errors.New("no stock"), backoff.ClassNotSent)} {
				tr := &backoffhttp.Unguarded{Base: s.Client().Transport, Policy: atOnce()}
				req, bodies := withBrokenBody(newRequest(t, method, s.URL, nil), broken)
				_, err := tr.RoundTrip(req)
				require.ErrorIs(t, err, broken)
				require.Equal(t, want, *bodies, "%s %s", name, method)
			}
		}
	}
	synctest.Test(t, func(t *testing.T) { // net/http repeats the refused stream with the broken body
		base, s := serveHTTP2(t, h2Reset(h2refused), func(*h2writer, uint32) bool { return true })
		req, _ := withBrokenBody(newRequest(t, "POST", "http://a.test/", nil), refusedDial)
		req.Body = io.NopCloser(stream("charge"))
		require.ErrorIs(t, try(over(base), req), refusedDial)
		require.Equal(t, 2, s.requests)
	})
}

func TestABodyInMemoryIsSentAsItIs(t *testing.T) {
	for _, body := range []io.Reader{nil, http.NoBody, strings.NewReader("x"), bytes.NewReader(nil), new(bytes.Buffer), new(os.File)} {
		req := newRequest(t, "POST", "http://a.test/", body)
		if req.GetBody == nil {
			req.GetBody = func() (io.ReadCloser, error) { return new(os.File), nil }
		}
		over(step(func(sent *http.Request) (*http.Response, error) {
			require.Same(t, req, sent, "it costs nothing")
			return answer(200)(req)
		})).RoundTrip(req)
	}
}

func TestAHostIsNotBlamedForTheBodiesOfItsRequests(t *testing.T) {
	for name, failFast := range map[string]bool{"waits": false, "fails fast": true} {
		bubble(t, name, func(t *testing.T) {
			tr := &backoffhttp.Transport{Base: newWire(answer(200)), FailFast: failFast}
			for range 50 {
				ctx := within(t, time.Minute)
				req, _ := withBrokenBody(newRequest(t, "PUT", "http://a.test/", nil).WithContext(ctx), refusedDial)
				require.ErrorIs(t, try(tr, req), refusedDial)
			}
			began := time.Now()
			getRoot(t, tr)
			require.Zero(t, time.Since(began))
		})
	}
}

// refusedDial is the error of a connection that was refused.
var refusedDial error = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

// withBrokenBody gives req a body that ends with an error, and counts how often
// it was made.
func withBrokenBody(req *http.Request, broken error) (*http.Request, *int) {
	made := new(int)
	req.GetBody = func() (io.ReadCloser, error) {
		*made++
		return io.NopCloser(io.MultiReader(strings.NewReader("char"), failingReader{broken})), nil
	}
	req.Body, _ = req.GetBody()
	return req, made
}

// An answer that comes before the body was sent leaves net/http writing the
// first body while the second one is read: they must not share anything
// (go-retryablehttp#105).
func TestARewoundBodyIsNotSharedWithTheAttemptBefore(t *testing.T) {
	s := serve(t, inTurn(status(503), func(w http.ResponseWriter, r *http.Request) {
		io.Copy(w, r.Body)
	}))
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<17)
	for _, body := range []io.Reader{bytes.NewReader(content), bytes.NewBuffer(content), stream(string(content))} {
		tr := &backoffhttp.Unguarded{Policy: atOnce(), MaxBuffer: -1}
		resp := roundTrip(t, tr, newRequest(t, "PUT", s.URL, body))
		require.Equal(t, string(content), text(t, resp))
	}
}

// A short answer is read to its end, by us or by net/http. The end of
// the attempt's context, which comes when the body is closed, does not break
// the connection.
func TestOneConnectionServesAllAttempts(t *testing.T) {
	for name, timeout := range map[string]time.Duration{"without AttemptTimeout": 0, "with AttemptTimeout": time.Second} {
		for _, late := range []time.Duration{0, 30 * time.Millisecond} {
			bubble(t, fmt.Sprint(name, ", the body late by ", late), func(t *testing.T) {
				base, pipes := serveInMemory(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.WriteHeader(503)
					http.NewResponseController(w).Flush()
					time.Sleep(late)
					io.WriteString(w, "too much to do")
				}))
				tr := over(base)
				tr.Policy.AttemptTimeout = timeout
				require.Equal(t, "too much to do", text(t, getRoot(t, tr)))
				require.EqualValues(t, 1, pipes.dials.Load())
			})
		}
	}
}

// The answer is dropped before the wait, not after it.
func TestTheConnectionIsFreeDuringTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, w := scripted(answer(503), answer(200))
		time.AfterFunc(50*time.Millisecond, func() { require.Zero(t, w.open()) })
		getRoot(t, tr)
	})
}

// A server that answers 2 GiB to a status that is retried.
func TestABodyOfTwoGigabytesIsNotRead(t *testing.T) {
	const size = 2 << 30
	for name, length := range map[string]int64{"announced": size, "not announced": -1} {
		bubble(t, name, func(t *testing.T) {
			w := newWire(changed(answer(503), func(resp *http.Response) {
				resp.ContentLength, resp.Body = length, io.NopCloser(&endless{left: size})
			}), answer(200))
			getRoot(t, over(w))
			require.LessOrEqual(t, w.bodies[0].read.Load(), int64(128<<10))
			require.True(t, w.bodies[0].closed.Load())
		})
	}
}

type endless struct{ left int64 }

func (e *endless) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), e.left)
	e.left -= n
	return int(n), nil
}

// A body that stalls is given up on after a tenth of a second at most: Go 1.27
// reads it while the retry waits already.
func TestABodyThatStallsDoesNotHoldUpTheRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		served := 0
		base, pipes := serveInMemory(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if served++; served > 1 {
				return
			}
			w.WriteHeader(503)
			io.WriteString(w, "more to come")
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}))
		began := time.Now()
		getRoot(t, over(base))
		require.LessOrEqual(t, time.Since(began), 200*time.Millisecond, "100 ms for the body, and the wait")
		require.EqualValues(t, 2, pipes.dials.Load())
	})
}

func TestAStreamThatStallsDoesNotHoldUpTheRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base, _ := serveHTTP2(t, func(w *h2writer, stream uint32) bool {
			w.frame(h2headers, 0x4, stream, []byte{0x8e}) // END_HEADERS; status 500
			return true
		}, h2OK)
		began := time.Now()
		require.Equal(t, 200, getRoot(t, over(base)).StatusCode)
		require.Equal(t, 200*time.Millisecond, time.Since(began), "100 ms for the body, and the wait")
	})
}

// Go 1.26 holds a lock while it waits for the header of gzip, so that closing
// the body ends nothing.
func TestACompressedBodyThatStallsDoesNotHoldUpTheRetry(t *testing.T) {
	for name, begin := range map[string]string{"at once": "", "in the header of gzip": "\x1f\x8b\x08"} {
		for protocol, setup := range protocols {
			t.Run(name+", "+protocol, func(t *testing.T) {
				s := serve(t, inTurn(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Encoding", "gzip")
					w.WriteHeader(503)
					io.WriteString(w, begin)
					http.NewResponseController(w).Flush()
					select { // the call would wait as long
					case <-r.Context().Done():
					case <-time.After(10 * time.Second):
					}
				}, status(200)), setup)
				tr := &backoffhttp.Unguarded{Base: s.Client().Transport, Policy: atOnce()}
				began := time.Now()
				roundTrip(t, tr, newRequest(t, "GET", s.URL, nil))
				require.Less(t, time.Since(began), 8*time.Second)
			})
		}
	}
}

// closings counts how often a body is closed.
type closings struct {
	io.Reader
	n int
}

func (c *closings) Close() error { c.n++; return nil }

func TestABodyIsClosedOnce(t *testing.T) {
	for name, content := range map[string]io.Reader{"read": strings.NewReader("content"), "broken": failingReader{errors.New("disk gone")}} {
		for _, limit := range []int64{0, 3, 100} {
			body := &closings{Reader: content}
			tr := over(newWire(answer(200)))
			tr.MaxBuffer = limit
			resp, err := tr.RoundTrip(newRequest(t, "PUT", "http://a.test/", body))
			require.Equal(t, 1, body.n, "%s, %d", name, limit)
			if err == nil {
				resp.Body.Close()
			}
		}
	}
}

// switchProtocols answers 101, and then says what it hears.
func switchProtocols(w http.ResponseWriter, r *http.Request) {
	conn, buffer, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	go func() {
		defer conn.Close()
		io.Copy(conn, buffer)
	}()
}

// A connection has no beginning that could be read ahead: its other side waits
// for the client.
func TestAConnectionIsNotReadAhead(t *testing.T) {
	for name, set := range aSecond {
		for _, asked := range []bool{true, false} {
			for _, ahead := range []int64{1, 1000, -1} {
				bubble(t, fmt.Sprintf("%s, asked for %v, %d", name, asked, ahead), func(t *testing.T) {
					base, _ := serveInMemory(t, http.HandlerFunc(switchProtocols))
					client := limited(base, set)
					tr := client.Transport.(*backoffhttp.Transport)
					tr.ReadAhead, tr.Resume = ahead, true
					req := newRequest(t, "GET", "http://a.test/", nil).WithContext(within(t, time.Minute))
					if asked {
						req.Header.Set("Connection", "Upgrade")
						req.Header.Set("Upgrade", "echo")
					}
					began := time.Now()
					resp, err := client.Do(req)
					require.NoError(t, err)
					require.Equal(t, 101, resp.StatusCode)
					require.Zero(t, time.Since(began))
					time.Sleep(2 * time.Second) // the attempt's time does not cut the connection
					conn := resp.Body.(io.ReadWriteCloser)
					_, err = conn.Write([]byte("hello"))
					require.NoError(t, err)
					got := make([]byte, 5)
					_, err = io.ReadFull(conn, got)
					require.NoError(t, err)
					require.Equal(t, "hello", string(got))
					require.NoError(t, conn.Close())
				})
			}
		}
	}
}

// What CONNECT opens is a tunnel.
func TestATunnelIsNotReadAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent, _ := io.Pipe()
		tr := over(newWire(changed(answer(200), func(resp *http.Response) { resp.Body = silent })))
		tr.ReadAhead, tr.Policy.AttemptTimeout = -1, time.Second
		began := time.Now()
		roundTrip(t, tr, newRequest(t, "CONNECT", "http://a.test/", nil))
		require.Zero(t, time.Since(began))
	})
}

// A body that stalls is an attempt that failed, in every protocol.
func TestReadingAheadEndsWithTheAttemptsTime(t *testing.T) {
	for name, setup := range protocols {
		t.Run(name, func(t *testing.T) {
			stall := func(w http.ResponseWriter, r *http.Request) {
				http.NewResponseController(w).Flush()
				<-r.Context().Done()
			}
			s := serve(t, inTurn(stall, status(200)), setup)
			tr := &backoffhttp.Unguarded{Base: s.Client().Transport, Policy: atOnce(), ReadAhead: -1}
			tr.Policy.AttemptTimeout = 100 * time.Millisecond
			require.Equal(t, "body of 200", text(t, roundTrip(t, tr, newRequest(t, "GET", s.URL, nil))))
		})
	}
}
