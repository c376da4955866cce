// Package faulty has the HTTP server of the examples. It listens on loopback
// and fails as its script says.
package faulty

import (
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// A Step answers one request.
type Step func(s *Server, w http.ResponseWriter, r *http.Request)

// A Server answers its first request with the first step of its script, and so
// on. The last step answers all further requests.
type Server struct {
	URL  string
	Addr string // the host and port of the URL

	script []Step

	mu       sync.Mutex
	requests int
	closed   bool
	http     *http.Server
}

// Start returns a server that listens on a free port of loopback. Where there
// is none, it panics.
func Start(script ...Step) *Server {
	s := &Server{Addr: "127.0.0.1:0", script: script}
	if err := s.Restart(); err != nil {
		panic(err)
	}
	s.URL = "http://" + s.Addr
	return s
}

// SetScript gives the server another script, and counts the requests from 0
// again.
func (s *Server) SetScript(script ...Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script, s.requests = script, 0
}

// Requests returns how many requests have arrived.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// Close stops the server and closes its connections.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.Stop()
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	step := s.script[min(s.requests, len(s.script)-1)]
	s.requests++
	s.mu.Unlock()
	step(s, w, r)
}

// Restart starts serving, always on the same port, unless the server is up, or
// closed.
func (s *Server) Restart() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.http != nil {
		return nil
	}
	l, err := net.Listen("tcp", s.Addr)
	if err != nil {
		return err
	}
	s.Addr = l.Addr().String()
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	go s.http.Serve(l)
	return nil
}

// Stop closes the listener and all connections except hijacked ones.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.http != nil {
		s.http.Close()
		s.http = nil
	}
}

// Text answers 200 with body.
func Text(body string) Step {
	return func(_ *Server, w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, body)
	}
}

// Status answers with a status and nothing else.
func Status(code int) Step {
	return func(_ *Server, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
	}
}

// Hang answers nothing until the client ends the request.
func Hang(_ *Server, _ http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body) // so that the server notices the end of the connection
	<-r.Context().Done()
}

// Busy answers with a status and a Retry-After header.
func Busy(code int, retryAfter string) Step {
	return func(_ *Server, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", retryAfter)
		w.WriteHeader(code)
	}
}

// Crash sends half of body and resets the connection. Then the server refuses
// connections for the time down.
func Crash(body string, down time.Duration) Step {
	return func(s *Server, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		io.WriteString(w, body[:len(body)/2])
		conn := hijack(w)
		s.Stop()
		reset(conn)
		// If another program has taken the port, the server stays down.
		time.AfterFunc(down, func() { s.Restart() })
	}
}

// ResetAfter returns a writer that resets the connection of w after n bytes.
func ResetAfter(w http.ResponseWriter, n int) http.ResponseWriter { return &limited{w, n} }

// limited resets its connection when no bytes are left.
type limited struct {
	http.ResponseWriter
	left int
}

// Write implements [http.ResponseWriter].
func (l *limited) Write(p []byte) (int, error) {
	n, err := l.ResponseWriter.Write(p[:min(len(p), l.left)])
	l.left -= n
	if err == nil && l.left == 0 {
		reset(hijack(l.ResponseWriter))
		err = io.ErrClosedPipe
	}
	return n, err
}

// hijack sends what was written to w, and returns its connection.
func hijack(w http.ResponseWriter) net.Conn {
	control := http.NewResponseController(w)
	control.Flush()
	conn, _, err := control.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	time.Sleep(20 * time.Millisecond) // so that the reset does not overtake the data
	return conn
}

// reset resets a connection (RST, not FIN).
func reset(conn net.Conn) {
	conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
}
