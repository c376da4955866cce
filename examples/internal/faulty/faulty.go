// Package faulty is a real HTTP server on loopback that fails as it is told: the
// other side of the examples.
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

// Server answers its first request by the first step of its script, and so on;
// the last step answers all that follow.
type Server struct {
	URL string

	addr   string
	script []Step

	mu       sync.Mutex
	requests int
	closed   bool
	http     *http.Server
}

// Start returns a server that listens on a free port of loopback.
func Start(script ...Step) (*Server, error) {
	s := &Server{addr: "127.0.0.1:0", script: script}
	if err := s.listen(); err != nil {
		return nil, err
	}
	s.URL = "http://" + s.addr
	return s, nil
}

// Requests returns how many requests have arrived.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// Close ends the server and its connections.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.http.Close()
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	step := s.script[min(s.requests, len(s.script)-1)]
	s.requests++
	s.mu.Unlock()
	step(s, w, r)
}

// listen begins to serve, the second time on the port of the first.
func (s *Server) listen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	l, err := net.Listen("tcp", s.addr)
	if err != nil {
		return err
	}
	s.addr = l.Addr().String()
	s.http = &http.Server{Handler: s}
	go s.http.Serve(l)
	return nil
}

// stop closes the listener and all connections but hijacked ones.
func (s *Server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.http.Close()
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

// Busy answers with a status and a Retry-After header.
func Busy(code int, retryAfter string) Step {
	return func(_ *Server, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", retryAfter)
		w.WriteHeader(code)
	}
}

// Cut sends half of body, then resets the connection.
func Cut(body string) Step {
	return func(_ *Server, w http.ResponseWriter, _ *http.Request) {
		sendHalf(w, body)
		Reset(w)
	}
}

// Crash sends half of body, then resets the connection, and all connections are
// refused until the server has come back after down.
func Crash(body string, down time.Duration) Step {
	return func(s *Server, w http.ResponseWriter, _ *http.Request) {
		sendHalf(w, body)
		conn := hijack(w)
		s.stop()
		reset(conn)
		// A port that was taken meanwhile goes on refusing, as it would in earnest.
		time.AfterFunc(down, func() { s.listen() })
	}
}

// Reset sends what was written to w, then resets the connection (RST, not FIN).
func Reset(w http.ResponseWriter) { reset(hijack(w)) }

func sendHalf(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	io.WriteString(w, body[:len(body)/2])
}

func hijack(w http.ResponseWriter) net.Conn {
	control := http.NewResponseController(w)
	control.Flush()
	conn, _, err := control.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	time.Sleep(20 * time.Millisecond) // or the reset would overtake the data
	return conn
}

func reset(conn net.Conn) {
	conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
}
