package guards

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"sync/atomic"
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
	header := a.header.Clone()
	if header == nil {
		header = http.Header{}
	}
	return &http.Response{
		StatusCode: a.status, Status: fmt.Sprint(a.status, " ", http.StatusText(a.status)), Header: header,
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

// unnamed is the error of a resolver that is down.
func unnamed() answer {
	err := &net.DNSError{Err: "server misbehaving", Name: "service.example", Server: "10.0.0.2:53", IsTemporary: true}
	return answer{after: usual, err: &net.OpError{Op: "dial", Net: "tcp", Err: err}}
}

// written is an answer that a handler writes.
func written(req *http.Request, handle http.HandlerFunc) answer {
	w := httptest.NewRecorder()
	handle(w, req)
	return answer{after: usual, status: w.Code, header: w.Header()}
}

// A queue is the work that a service has accepted, done one after the other. What
// it has accepted it does, also for callers who have gone.
type queue struct {
	free  time.Time // when all of it is done
	worst time.Duration
}

// length returns how long new work would wait.
func (q *queue) length() time.Duration { return max(0, time.Until(q.free)) }

// add accepts work, and returns how long it takes until it is done.
func (q *queue) add(work time.Duration) time.Duration {
	wait := q.length()
	q.worst = max(q.worst, wait)
	q.free = time.Now().Add(wait + work)
	return wait + work
}

// A limiter is a token bucket.
type limiter struct {
	rate, burst float64
	tokens      float64
	filled      time.Time
	refused     int
}

func newLimiter(rate, burst float64) *limiter {
	return &limiter{rate: rate, burst: burst, tokens: burst, filled: time.Now()}
}

// take takes a token if there is one.
func (l *limiter) take() bool {
	now := time.Now()
	l.tokens = min(l.burst, l.tokens+l.rate*now.Sub(l.filled).Seconds())
	l.filled = now
	if l.tokens < 1 {
		l.refused++
		return false
	}
	l.tokens--
	return true
}

// A load is calls that begin whether earlier ones have ended or not. Each begins
// at a random time of its share of the second, so that few runs tell much.
type load struct {
	rate     float64 // calls a second
	length   time.Duration
	deadline time.Duration // of a call; 0 means none
	seed     uint64
}

// with returns the load with another seed.
func (l load) with(seed uint64) load {
	l.seed = seed
	return l
}

// A call is what a caller saw.
type call struct {
	began, took time.Duration
	ok          bool
}

// run makes the calls, and returns what became of them when all have ended. do
// gets the number of the call.
func (l load) run(do func(ctx context.Context, n int) bool) calls {
	all := make(calls, int(l.rate*l.length.Seconds()))
	times := rand.New(rand.NewPCG(l.seed, 2))
	var group sync.WaitGroup
	began := time.Now()
	for n := range all {
		at := time.Duration((float64(n) + times.Float64()) / l.rate * float64(time.Second))
		time.Sleep(at - time.Since(began))
		group.Go(func() { all[n] = one(began, l.deadline, n, do) })
	}
	group.Wait()
	return all
}

// A job is a number of calls by workers. Each makes one at a time.
type job struct {
	workers, calls int
	length         time.Duration // in place of calls; 0 means no limit
	deadline       time.Duration
}

func (j job) run(do func(ctx context.Context, n int) bool) calls {
	var all calls
	var mu sync.Mutex
	var next atomic.Int64
	var group sync.WaitGroup
	began := time.Now()
	for range j.workers {
		group.Go(func() {
			for {
				n := int(next.Add(1)) - 1
				if j.calls > 0 && n >= j.calls || j.length > 0 && time.Since(began) >= j.length {
					return
				}
				c := one(began, j.deadline, n, do)
				mu.Lock()
				all = append(all, c)
				mu.Unlock()
				if c.took == 0 {
					time.Sleep(usual) // or time would not pass while a client refuses all calls
				}
			}
		})
	}
	group.Wait()
	return all
}

// one makes a call.
func one(began time.Time, deadline time.Duration, n int, do func(context.Context, int) bool) call {
	ctx := context.Background()
	if deadline > 0 {
		within, cancel := context.WithTimeout(ctx, deadline)
		defer cancel()
		ctx = within
	}
	start := time.Now()
	ok := do(ctx, n)
	return call{began: start.Sub(began), took: time.Since(start), ok: ok}
}

// calls are the calls of a run.
type calls []call

// good returns how many succeeded.
func (c calls) good() (n int) {
	for _, one := range c {
		if one.ok {
			n++
		}
	}
	return n
}

// share returns how many of a hundred succeeded.
func (c calls) share() float64 { return 100 * float64(c.good()) / float64(max(1, len(c))) }

// waits returns how long the callers waited who got an answer, the shortest first.
func (c calls) waits() (all []time.Duration) {
	for _, one := range c {
		if one.ok {
			all = append(all, one.took)
		}
	}
	slices.Sort(all)
	return all
}

// between returns the calls that began in a part of the run.
func (c calls) between(from, to time.Duration) (some calls) {
	for _, one := range c {
		if from <= one.began && one.began < to {
			some = append(some, one)
		}
	}
	return some
}

// end returns when the last call ended.
func (c calls) end() (last time.Duration) {
	for _, one := range c {
		last = max(last, one.began+one.took)
	}
	return last
}

// quantile returns a quantile of sorted times in seconds, and -1 if there are
// none.
func quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return -1
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))].Seconds()
}
