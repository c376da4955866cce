package backoffhttp_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/pace"
)

// A step is what becomes of one attempt. It is a RoundTripper, too.
type step func(*http.Request) (*http.Response, error)

func (s step) RoundTrip(req *http.Request) (*http.Response, error) { return s(req) }

// answer is a response with a header given as pairs. Its body says the status.
// changed is a step whose answer is changed.
func changed(s step, change func(*http.Response)) step {
	return func(req *http.Request) (*http.Response, error) {
		resp, err := s(req)
		change(resp)
		return resp, err
	}
}

// broken is a step whose answer has some bytes, of a length that is not known,
// and then an error.
func broken(s step, good string, err error) step {
	return changed(s, func(resp *http.Response) {
		resp.ContentLength, resp.Body = -1, io.NopCloser(io.MultiReader(strings.NewReader(good), failingReader{err}))
	})
}

func answer(code int, header ...string) step {
	return answerBody(code, "body of "+strconv.Itoa(code), header...)
}

func answerBody(code int, body string, header ...string) step {
	return func(req *http.Request) (*http.Response, error) {
		resp := &http.Response{
			Status: strconv.Itoa(code) + " " + http.StatusText(code), StatusCode: code,
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{}, Request: req, ContentLength: int64(len(body)),
			Body: io.NopCloser(strings.NewReader(body)),
		}
		for i := 0; i < len(header); i += 2 {
			resp.Header.Add(header[i], header[i+1])
		}
		return resp, nil
	}
}

// failure is an attempt without a response.
func failure(err error) step {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// A sent is a request as it arrived at the base.
type sent struct {
	method string
	url    string
	header http.Header
	body   string
	at     time.Time
}

// wire is a RoundTripper in memory, which follows a script; the last step
// stands for all that follow.
type wire struct {
	mu     sync.Mutex
	steps  []step
	sent   []sent
	bodies []*watched
}

func newWire(steps ...step) *wire { return &wire{steps: steps} }

func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	s := sent{method: req.Method, url: req.URL.String(), header: req.Header.Clone(), at: time.Now()}
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		req.Body.Close()
		if err != nil {
			return nil, err
		}
		s.body = string(body)
	}
	w.mu.Lock()
	w.sent = append(w.sent, s)
	step := w.steps[min(len(w.sent), len(w.steps))-1]
	w.mu.Unlock()
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	resp, err := step(req)
	if resp != nil {
		body := &watched{ReadCloser: resp.Body}
		resp.Body = body
		w.mu.Lock()
		w.bodies = append(w.bodies, body)
		w.mu.Unlock()
	}
	return resp, err
}

func (w *wire) requests() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.sent)
}

func (w *wire) request(i int) sent {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent[i]
}

// waits returns the time between the requests.
func (w *wire) waits() []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []time.Duration
	for i := 1; i < len(w.sent); i++ {
		all = append(all, w.sent[i].at.Sub(w.sent[i-1].at))
	}
	return all
}

// open returns how many bodies were not closed.
func (w *wire) open() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, b := range w.bodies {
		if !b.closed.Load() {
			n++
		}
	}
	return n
}

// watched is a body that knows what was done with it.
type watched struct {
	io.ReadCloser
	read   atomic.Int64
	closed atomic.Bool
}

func (b *watched) Read(p []byte) (int, error) {
	if b.closed.Load() {
		return 0, errors.New("read after close")
	}
	n, err := b.ReadCloser.Read(p)
	b.read.Add(int64(n))
	return n, err
}

func (b *watched) Close() error {
	b.closed.Store(true)
	return b.ReadCloser.Close()
}

// steady is a policy without chance: 100, 200, 400 ms.
func steady() backoff.Policy { return backoff.Policy{Jitter: backoff.NoJitter} }

// atOnce is a policy that does not wait.
func atOnce() backoff.Policy { return backoff.Policy{Schedule: backoff.Constant(0)} }

// over is a Transport over base that waits 100, 200 and 400 ms, without guards.
func over(base http.RoundTripper) *backoffhttp.Unguarded {
	return &backoffhttp.Unguarded{Base: base, Policy: steady()}
}

// scripted is such a Transport over a wire with these steps.
func scripted(steps ...step) (*backoffhttp.Unguarded, *wire) {
	w := newWire(steps...)
	return over(w), w
}

// holding is a Transport over a wire with these steps, whose hosts hold all calls off
// when one of them is told to wait, and have no other guards.
func holding(steps ...step) (*backoffhttp.Transport, *wire) {
	w := newWire(steps...)
	tr := &backoffhttp.Transport{Base: w, Policy: steady()}
	tr.Services = &guard.Services{New: func(string) *guard.Service {
		return &guard.Service{Budget: &pace.HoldOff{MaxWait: tr.Policy.MaxRetryAfter}, NoBreaker: true}
	}}
	return tr, w
}

// without are services without guards.
func without() *guard.Services {
	return &guard.Services{New: func(string) *guard.Service { return &guard.Service{NoBudget: true, NoBreaker: true} }}
}

// sharing are services that hold all calls off, as holding does, and have a Pacer and
// a Breaker besides.
func sharing() *guard.Services {
	return &guard.Services{New: func(string) *guard.Service {
		return &guard.Service{Budget: backoff.JoinBudgets(new(pace.HoldOff), new(pace.Pacer))}
	}}
}

func newRequest(t testing.TB, method, url string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	require.NoError(t, err)
	return req
}

// within returns a context that lasts so long.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// stream hides a reader's type, so that a request gets no GetBody.
func stream(s string) io.Reader { return struct{ io.Reader }{strings.NewReader(s)} }

func roundTrip(t testing.TB, rt http.RoundTripper, req *http.Request) *http.Response {
	t.Helper()
	resp, err := rt.RoundTrip(req)
	require.NoError(t, err)
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// getRoot makes a GET of http://a.test/, whose answer is closed with the test.
func getRoot(t testing.TB, rt http.RoundTripper) *http.Response {
	t.Helper()
	return roundTrip(t, rt, newRequest(t, "GET", "http://a.test/", nil))
}

// gaveUp returns why a Transport gave up on a call that ended with resp.
func gaveUp(t testing.TB, resp *http.Response) *backoff.Error {
	t.Helper()
	var gave *backoff.Error
	require.ErrorAs(t, backoffhttp.Check(resp), &gave)
	return gave
}

// statusOf returns the answer that is in the tree of err.
func statusOf(t testing.TB, err error) *backoffhttp.StatusError {
	t.Helper()
	var status *backoffhttp.StatusError
	require.ErrorAs(t, err, &status)
	return status
}

// try sends a request and closes the answer, if there is one.
func try(rt http.RoundTripper, req *http.Request) error {
	resp, err := rt.RoundTrip(req)
	if err == nil {
		resp.Body.Close()
	}
	return err
}

// bubble runs a subtest in virtual time.
func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

func text(t testing.TB, resp *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return string(body)
}

// pipes is a listener in memory, which virtual time can see through.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
	dials atomic.Int64
}

// serveInMemory starts a server that ends with the test, and returns a
// transport that reaches it under any name.
func serveInMemory(t testing.TB, h http.Handler) (*http.Transport, *pipes) {
	p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	server := &http.Server{Handler: h}
	go server.Serve(p)
	tr := &http.Transport{DialContext: p.dial}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		server.Close()
	})
	return tr, p
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	p.dials.Add(1)
	select {
	case p.conns <- far:
		return near, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// testServer is a server on loopback that counts connections and requests.
type testServer struct {
	*httptest.Server
	connections atomic.Int64
	requests    atomic.Int64
}

func serve(t testing.TB, h http.HandlerFunc, setup ...func(*httptest.Server)) *testServer {
	c := new(testServer)
	c.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.requests.Add(1)
		h(w, r)
	}))
	c.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			c.connections.Add(1)
		}
	}
	c.Config.ErrorLog = quiet
	for _, f := range setup {
		f(c.Server)
	}
	if c.Server.URL == "" {
		c.Start()
	}
	t.Cleanup(c.Close)
	return c
}

// inTurn answers each request by a step of its own; the last one stands for all
// that follow.
func inTurn(steps ...http.HandlerFunc) http.HandlerFunc {
	var n atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) {
		steps[min(int(n.Add(1)), len(steps))-1](w, r)
	}
}

func status(code int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Add(header[i], header[i+1])
		}
		w.WriteHeader(code)
		io.WriteString(w, "body of "+strconv.Itoa(code))
	}
}

// reset resets the connection without an answer.
func reset(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	conn.Close()
}

// hangUp closes the connection without an answer.
func hangUp(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	conn.Close()
}

// quiet is a log for servers that are meant to fail.
var quiet = log.New(io.Discard, "", 0)

// A request for a handler or a server. Its method is POST unless it says
// another.
type request struct {
	method string
	header http.Header
}

func (q request) on(ctx context.Context, url string) *http.Request {
	if q.method == "" {
		q.method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(ctx, q.method, url+"/", http.NoBody)
	if err != nil {
		panic(err)
	}
	for name, values := range q.header {
		r.Header[name] = values
	}
	return r
}

// to sends the request to a handler, without a network.
func (q request) to(h http.Handler) *httptest.ResponseRecorder {
	return q.with(context.Background(), h)
}

func (q request) with(ctx context.Context, h http.Handler) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, q.on(ctx, "http://service.example"))
	return w
}

func handle(f http.HandlerFunc) http.Handler { return f }

// service is a handler behind a real server.
func service(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}
