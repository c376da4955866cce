package backoffhttp_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/backofftest/fault"
)

// A host is a server of HTTP/2 behind a proxy, to which all of its connections go.
type host struct {
	*testServer
	*fault.Proxy
}

func (h host) URL() string { return "https://" + h.Addr() }

// speakHTTP2 starts a server behind a proxy.
func speakHTTP2(t *testing.T, h http.HandlerFunc) host {
	s := serve(t, h, protocols["HTTP/2"])
	proxy, err := new(fault.Injector).Proxy(s.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	return host{s, proxy}
}

// transport returns a transport of its own for the host.
func (h host) transport(t *testing.T) *http.Transport {
	base := h.Client().Transport.(*http.Transport).Clone()
	t.Cleanup(base.CloseIdleConnections)
	return base
}

// atFirst has so much time for the first attempt, and a minute for each other.
func atFirst(d time.Duration) backoff.Schedule {
	return backoff.ScheduleFunc(func(n int) time.Duration {
		if n == 1 {
			return d
		}
		return time.Minute
	})
}

// A proxy swallows what comes on the connection. Over HTTP/2 the end of an attempt ends
// its stream only, and the connection is the next one's, too.
func TestARetryDoesNotGoOutOnTheConnectionThatWentSilent(t *testing.T) {
	for name, around := range map[string]func(http.RoundTripper) http.RoundTripper{
		"http.Transport": func(base http.RoundTripper) http.RoundTripper { return base },
		"wrapped": func(base http.RoundTripper) http.RoundTripper {
			return step(func(req *http.Request) (*http.Response, error) { return base.RoundTrip(req.Clone(req.Context())) })
		},
		"traced by the program": func(base http.RoundTripper) http.RoundTripper {
			return step(func(req *http.Request) (*http.Response, error) {
				ctx := httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {}})
				return base.RoundTrip(req.WithContext(ctx))
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := speakHTTP2(t, status(200))
			n := 0
			tr := &backoffhttp.Transport{Base: attempts(around(h.transport(t)), &n)}
			tr.Policy = backoff.Policy{Schedule: backoff.Constant(100 * time.Millisecond), Jitter: backoff.NoJitter, AttemptTimeoutSchedule: atFirst(500 * time.Millisecond)}
			get := func() { text(t, roundTrip(t, tr, newRequest(t, "GET", h.URL(), nil))) }
			get()
			h.Silence()
			get()
			require.Equal(t, 3, n, "the second attempt gets through")
			require.Equal(t, 2, h.Connections())
			get()
			require.Equal(t, 4, n)
			require.Equal(t, 2, h.Connections())
		})
	}
}

func TestAPostThatIsNotRepeatedLeavesTheNextCallNoSilentConnection(t *testing.T) {
	h := speakHTTP2(t, status(200))
	n := 0
	tr := over(attempts(h.transport(t), &n))
	tr.Policy.AttemptTimeout = 500 * time.Millisecond
	require.NoError(t, try(tr, newRequest(t, "GET", h.URL(), nil)))
	h.Silence()
	require.ErrorIs(t, try(tr, newRequest(t, "POST", h.URL(), strings.NewReader("charge"))), backoff.ErrAttemptTimeout)
	require.Equal(t, 2, n)
	ctx := backoffhttp.WithRetry(t.Context(), func(p *backoff.Policy) { p.AttemptTimeout = time.Minute })
	require.NoError(t, try(tr, newRequest(t, "POST", h.URL(), strings.NewReader("charge")).WithContext(ctx)))
	require.Equal(t, 3, n)
	require.Equal(t, 2, h.Connections())
}

func TestASilentConnectionCostsOtherHostsNothing(t *testing.T) {
	dead, alive := speakHTTP2(t, status(200)), speakHTTP2(t, status(200))
	tr := over(dead.transport(t))
	tr.Policy.AttemptTimeoutSchedule = atFirst(500 * time.Millisecond)
	for range 3 {
		require.NoError(t, try(tr, newRequest(t, "GET", alive.URL(), nil)))
		require.NoError(t, try(tr, newRequest(t, "GET", dead.URL(), nil)))
		dead.Silence()
	}
	require.Equal(t, 3, dead.Connections())
	require.Equal(t, 1, alive.Connections())
}

func TestTheTimeoutOfAWrappedClientGivesTheSilentConnectionUp(t *testing.T) {
	h := speakHTTP2(t, status(200))
	n := 0
	client := backoffhttp.WrapClient(&http.Client{Transport: attempts(h.transport(t), &n), Timeout: 500 * time.Millisecond},
		backoff.Policy{MaxAttempts: 10, Schedule: backoff.Constant(100 * time.Millisecond)})
	get := func() {
		resp, err := client.Get(h.URL())
		require.NoError(t, err)
		text(t, resp)
	}
	get()
	h.Silence()
	get()
	require.Less(t, n, 10)
	require.GreaterOrEqual(t, h.Connections(), 2)
}

// paths answers /slow after 3 s, sends a byte of /stream each 100 ms for 10 s, and says
// nothing for 10 s to /quiet.
func paths(w http.ResponseWriter, r *http.Request) {
	pause := func(d time.Duration) {
		select {
		case <-time.After(d):
		case <-r.Context().Done():
		}
	}
	switch r.URL.Path {
	case "/slow":
		pause(3 * time.Second)
	case "/quiet":
		pause(10 * time.Second)
	case "/stream":
		for range 100 {
			io.WriteString(w, ".")
			http.NewResponseController(w).Flush()
			pause(100 * time.Millisecond)
		}
	}
}

func get2(t *testing.T, rt http.RoundTripper, ctx context.Context, path string) error {
	return try(rt, newRequest(t, "GET", "http://a.test"+path, nil).WithContext(ctx))
}

// silenced makes the connections that a transport has dialed so far silent.
func silenced(base *http.Transport) (silence func()) {
	var conns []*swallowing
	dial := base.DialContext
	base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		conns = append(conns, &swallowing{Conn: conn})
		return conns[len(conns)-1], err
	}
	return func() {
		for _, c := range conns {
			c.silent.Store(true)
		}
	}
}

// swallowing is a connection that may stop to carry what is written to it.
type swallowing struct {
	net.Conn
	silent atomic.Bool
}

func (s *swallowing) Write(p []byte) (int, error) {
	if s.silent.Load() {
		return len(p), nil
	}
	return s.Conn.Write(p)
}

// quicConn is what HTTP/3 clients give to a trace.
type quicConn struct{ net.Conn }

func (quicConn) LocalAddr() net.Addr { return &net.UDPAddr{} }
func (quicConn) Close() error        { panic("connection operation prohibited") }

type unhashable struct {
	net.Conn
	_ []byte
}

func (unhashable) LocalAddr() net.Addr { return &net.TCPAddr{} }

func TestAConnectionThatMayNotBeClosedIsLeftAlone(t *testing.T) {
	for _, conn := range []net.Conn{nil, &quicConn{}, unhashable{}} {
		synctest.Test(t, func(t *testing.T) {
			tr := over(newWire(func(req *http.Request) (*http.Response, error) {
				httptrace.ContextClientTrace(req.Context()).GotConn(httptrace.GotConnInfo{Conn: conn})
				<-req.Context().Done()
				return nil, req.Context().Err()
			}, answer(200)))
			tr.Policy.AttemptTimeout = time.Second
			getRoot(t, tr)
		})
	}
}

// net/http closes connections of HTTP/1.1 itself, and may have given one to another call.
func TestHTTP1StaysAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base, p := serveInMemory(t, http.HandlerFunc(paths))
		silence := silenced(base)
		tr := over(base)
		tr.Policy.AttemptTimeout = 500 * time.Millisecond
		require.NoError(t, get2(t, tr, t.Context(), "/"))
		silence()
		require.NoError(t, get2(t, tr, t.Context(), "/"))
		require.EqualValues(t, 2, p.dials.Load())
	})
}
