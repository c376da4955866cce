package sim

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/gobackoff/backoff"
)

// A Service answers attempts. Serve is told when one arrives and when its client gives up,
// and says how long the answer takes and what it is.
type Service interface {
	Serve(now, deadline time.Duration, r *rand.Rand) (latency time.Duration, err error)
}

// The errors of simulated services.
var (
	ErrFault   = errors.New("simulated fault")
	ErrFull    = errors.New("simulated rejection: queue full")
	ErrDown    = errors.New("simulated rejection: down")
	ErrTimeout = backoff.WithClass(timeout{}, backoff.ClassRetryable)
)

// timeout is what an attempt is ended with that took too long.
type timeout struct{}

func (timeout) Error() string        { return "simulated timeout" }
func (timeout) Timeout() bool        { return true }
func (timeout) Is(target error) bool { return target == backoff.ErrAttemptTimeout }

// serving is a Server at work.
type serving struct {
	Server
	fault   Fault
	free    times // when each of the servers has done all that it was given
	leaving times // when those in the system leave it; kept only where there is a limit

	full, down, failure error // what clients are told
}

func newServing(s Server, f Fault) *serving {
	q := &serving{Server: s, fault: f, free: make(times, max(1, s.Servers))}
	q.full, q.down, q.failure = ErrFull, ErrDown, ErrFault
	if s.RetryAfter > 0 {
		q.full = backoff.RetryAfter(ErrFull, s.RetryAfter)
		q.down = backoff.RetryAfter(ErrDown, s.RetryAfter)
		q.failure = backoff.RetryAfter(ErrFault, s.RetryAfter)
	}
	return q
}

func (f *Fault) during(at time.Duration) bool { return at >= f.From && at-f.From < f.For }

// end returns when the fault is over.
func (f *Fault) end() time.Duration { return f.From + f.For }

func (q *serving) Serve(now, deadline time.Duration, r *rand.Rand) (time.Duration, error) {
	if q.fault.Down && q.fault.during(now) {
		return 0, q.down
	}
	if q.Limit > 0 && q.inSystem(now) >= q.Limit {
		q.reject(now)
		return 0, q.full
	}
	start := max(now, q.free[0])
	if q.DropExpired && start >= deadline {
		return forever, nil // there is nobody left to answer
	}
	end := start + min(q.time(start, r), forever-start)
	q.free.replace(end)
	if q.Limit > 0 {
		q.leaving.push(end)
	}
	if p := q.errors(now); p > 0 && r.Float64() < p {
		return end - now, q.failure
	}
	return end - now, nil
}

// time draws how long an attempt is served that begins at start.
func (q *serving) time(start time.Duration, r *rand.Rand) time.Duration {
	return q.slowed(start, q.Service.Draw(r))
}

// slowed is a service time at the capacity there is.
func (q *serving) slowed(at, d time.Duration) time.Duration {
	if q.fault.Capacity > 0 && q.fault.during(at) {
		return time.Duration(min(float64(d)/q.fault.Capacity, float64(forever/2)))
	}
	return d
}

func (q *serving) errors(at time.Duration) float64 {
	if q.fault.Errors > 0 && q.fault.during(at) {
		return q.fault.Errors
	}
	return q.Errors
}

// reject does the work of a rejection. It comes before all that waits, as it is answered at
// once.
func (q *serving) reject(now time.Duration) {
	if q.RejectCost > 0 {
		cost := time.Duration(q.RejectCost * float64(q.Service.Mean()))
		q.free.replace(max(now, q.free[0]) + q.slowed(now, cost))
	}
}

func (q *serving) inSystem(now time.Duration) int {
	for len(q.leaving) > 0 && q.leaving[0] <= now {
		q.leaving.pop()
	}
	return len(q.leaving)
}

// times is a heap of times, the earliest first.
type times []time.Duration

func (s *times) push(t time.Duration) {
	h := append(*s, t)
	i := len(h) - 1
	for ; i > 0 && t < h[(i-1)/2]; i = (i - 1) / 2 {
		h[i] = h[(i-1)/2]
	}
	h[i] = t
	*s = h
}

func (s *times) pop() {
	h := *s
	last := h[len(h)-1]
	*s = h[:len(h)-1]
	if len(*s) > 0 {
		s.replace(last)
	}
}

// replace puts t in the place of the earliest.
func (s *times) replace(t time.Duration) {
	h := *s
	i := 0
	for {
		child := 2*i + 1
		if child+1 < len(h) && h[child+1] < h[child] {
			child++
		}
		if child >= len(h) || h[child] >= t {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = t
}
