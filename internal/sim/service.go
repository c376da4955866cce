package sim

import (
	"errors"
	"time"
)

// A Service answers attempts. Serve is told when one arrives, and says how long the
// client waits for the answer and what it is; u and work are the random numbers of this
// attempt: uniform on [0,1), and exponential with the mean 1.
type Service interface {
	Serve(at time.Duration, u, work float64) (latency time.Duration, err error)
}

// The errors of simulated services.
var (
	ErrFault   = errors.New("simulated fault")
	ErrTimeout = errors.New("simulated timeout")
	ErrFull    = errors.New("simulated rejection: queue full")
)

// Faulty answers at once, or after Latency with an error.
type Faulty struct {
	// Failing is the probability of an error at a given time.
	Failing func(at time.Duration) float64
	// Latency is how long a failure takes.
	Latency time.Duration
}

// Serve implements [Service].
func (s *Faulty) Serve(at time.Duration, u, _ float64) (time.Duration, error) {
	if u < s.Failing(at) {
		return s.Latency, ErrFault
	}
	return 0, nil
}

// Always returns a probability for [Faulty] that does not change.
func Always(p float64) func(time.Duration) float64 {
	return func(time.Duration) float64 { return p }
}

// Within returns a probability for [Faulty] that is p from one time to another and 0 else.
func Within(from, to time.Duration, p float64) func(time.Duration) float64 {
	return func(at time.Duration) float64 {
		if at >= from && at < to {
			return p
		}
		return 0
	}
}

// Queue is one server with a first-come-first-served queue and exponential service. Clients
// give up after Timeout, which it does not notice: it does their work all the same.
type Queue struct {
	Capacity float64       // served per second
	Timeout  time.Duration // of an attempt
	Limit    int           // of attempts in the system; 0 means none
	Drop     bool          // expired work is dropped for free
	Slow     Slump

	free    time.Duration // when the server has done all that waits
	leaving []time.Duration
}

// A Slump is a time during which capacity is less.
type Slump struct {
	From, To time.Duration
	Capacity float64
}

// Serve implements [Service].
func (q *Queue) Serve(at time.Duration, _, work float64) (time.Duration, error) {
	if q.Limit > 0 && q.inSystem(at) >= q.Limit {
		return 0, ErrFull
	}
	start := max(at, q.free)
	if q.Drop && start-at >= q.Timeout {
		return q.Timeout, ErrTimeout
	}
	q.free = start + time.Duration(work/q.capacity(start)*float64(time.Second))
	if q.Limit > 0 {
		q.leaving = append(q.leaving, q.free)
	}
	if q.free-at > q.Timeout {
		return q.Timeout, ErrTimeout
	}
	return q.free - at, nil
}

func (q *Queue) capacity(at time.Duration) float64 {
	if at >= q.Slow.From && at < q.Slow.To {
		return q.Slow.Capacity
	}
	return q.Capacity
}

func (q *Queue) inSystem(at time.Duration) int {
	for len(q.leaving) > 0 && q.leaving[0] <= at {
		q.leaving = q.leaving[1:]
	}
	return len(q.leaving)
}
