package main

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// A server works on one request after another, in the order of arrival. It does
// not notice that a client has given up, and does the work all the same.
type server struct {
	url   string
	http  http.Server
	began time.Time

	mu   sync.Mutex
	free time.Time // when the work of all requests is done
}

func startServer() (*server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{url: "http://" + listener.Addr().String(), began: time.Now()}
	s.http.Handler = s
	go s.http.Serve(listener)
	return s, nil
}

// ServeHTTP implements [http.Handler].
func (s *server) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	select {
	case <-time.After(time.Until(s.enqueue())):
	case <-r.Context().Done():
	}
}

// enqueue adds a request, and returns when its work is done.
func (s *server) enqueue() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); s.free.Before(now) {
		s.free = now
	}
	capacity := healthy
	if at := s.free.Sub(s.began); at >= dipFrom && at < dipTo {
		capacity = slow
	}
	s.free = s.free.Add(time.Second / time.Duration(capacity))
	return s.free
}
