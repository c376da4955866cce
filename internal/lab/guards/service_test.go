package guards

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"syscall"
	"time"
)

// A service answers requests after a while, in virtual time.
type service struct {
	mu      sync.Mutex
	began   time.Time
	seed    uint64
	rand    *rand.Rand
	arrived int
	tries   map[string]int // of each call
	// answer is called under the lock when a request arrives.
	answer func(*service, *http.Request) answer
}

// An answer is a status, or an error in its place, after a while.
type answer struct {
	after  time.Duration
	status int
	header http.Header
	err    error
}

// never is an answer that does not come.
const never = 24 * time.Hour

// usual is how long a service takes.
const usual = 5 * time.Millisecond

func newService(seed uint64, to func(*service, *http.Request) answer) *service {
	return &service{began: time.Now(), seed: seed, rand: rand.New(rand.NewPCG(seed, 1)), tries: map[string]int{}, answer: to}
}

// since returns how long the service has been there.
func (s *service) since() time.Duration { return time.Since(s.began) }

// luck is the luck of an attempt, from 0 to 1: the same for all clients.
func (s *service) luck(req *http.Request) float64 {
	s.tries[req.URL.Path]++
	return luck(s.seed, req.URL.Path, s.tries[req.URL.Path])
}

// luck returns a number from 0 to 1 that depends on all it gets.
func luck(seed uint64, name string, n int) float64 {
	h := fnv.New64a()
	fmt.Fprint(h, seed, name, n)
	return rand.New(rand.NewPCG(h.Sum64(), seed)).Float64()
}

// RoundTrip implements [http.RoundTripper].
func (s *service) RoundTrip(req *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.arrived++
	a := s.answer(s, req)
	s.mu.Unlock()
	if !sleep(req, a.after) {
		return nil, req.Context().Err()
	}
	if a.err != nil {
		return nil, a.err
	}
	return response(req, a), nil
}

// sleep waits, and reports false if the request's context ended.
func sleep(req *http.Request, d time.Duration) bool {
	if d <= 0 {
		return req.Context().Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-req.Context().Done():
		return false
	}
}

func response(req *http.Request, a answer) *http.Response {
	if a.header == nil {
		a.header = http.Header{}
	}
	return &http.Response{
		StatusCode: a.status, Status: fmt.Sprint(a.status, " ", http.StatusText(a.status)), Header: a.header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody, Request: req,
	}
}

// What services answer.
func ok(after time.Duration) answer { return answer{after: after, status: http.StatusOK} }
func unavailable(after time.Duration) answer {
	return answer{after: after, status: http.StatusServiceUnavailable}
}
func tooMany() answer { return answer{after: usual, status: http.StatusTooManyRequests} }

// refused is the error of a host on which nothing listens.
func refused() answer {
	return answer{err: &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}}
}

// written is an answer that a handler writes.
func written(req *http.Request, handle http.HandlerFunc) answer {
	w := httptest.NewRecorder()
	handle(w, req)
	return answer{after: usual, status: w.Code, header: w.Header()}
}
