package sim

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/limits"
)

// A Service answers attempts. Serve is called when an attempt arrives at now,
// with the time at which its client gives up. It returns how long the answer
// takes, and the error that the answer carries.
type Service interface {
	Serve(now, deadline time.Duration, r *rand.Rand) (latency time.Duration, err error)
}

// The errors of simulated services.
var (
	ErrFault   = errors.New("simulated fault")
	ErrFull    = errors.New("simulated rejection: queue full")
	ErrDown    = errors.New("simulated rejection: down")
	ErrTooMuch = backoff.OfClass(errors.New("simulated rejection: too much"), backoff.ClassThrottled)
	ErrTimeout = backoff.OfClass(timeoutError{}, backoff.ClassRetryable)
)

// A timeoutError is the error of an attempt that took too long.
type timeoutError struct{}

// Error implements the error interface.
func (timeoutError) Error() string { return "simulated timeout" }

// Timeout reports true, as net.Error wants of a timeout.
func (timeoutError) Timeout() bool { return true }

// Is reports whether target is [backoff.ErrAttemptTimeout].
func (timeoutError) Is(target error) bool { return target == backoff.ErrAttemptTimeout }

// A serverState is a Server during a run. It implements [Service].
type serverState struct {
	Server
	fault      Fault
	freeAt     heap          // when each server has finished the work it has accepted
	departures heap          // when attempts leave the system; only kept with a Limit
	tokens     float64       // with a Rate: what the server would accept at once
	filled     time.Duration // when they were counted

	full, down, tooMuch, failure error // what clients receive
}

func newServerState(s Server, f Fault) *serverState {
	q := &serverState{Server: s, fault: f, freeAt: make(heap, max(1, s.Servers))}
	q.tokens = q.burst()
	q.full, q.down, q.tooMuch, q.failure = ErrFull, ErrDown, ErrTooMuch, ErrFault
	if s.Throttles {
		q.full, q.down = ErrTooMuch, ErrTooMuch
	}
	if s.RetryAfter > 0 {
		for _, err := range []*error{&q.full, &q.down, &q.tooMuch, &q.failure} {
			*err = backoff.RetryAfter(*err, s.RetryAfter)
		}
	}
	return q
}

// activeAt reports whether the fault lasts at a time.
func (f *Fault) activeAt(at time.Duration) bool { return at >= f.From && at-f.From < f.For }

// end returns when the fault ends.
func (f *Fault) end() time.Duration { return limits.Add(f.From, f.For) }

// Serve implements [Service].
func (q *serverState) Serve(now, deadline time.Duration, r *rand.Rand) (time.Duration, error) {
	if q.fault.Down && q.fault.Part == 0 && q.fault.activeAt(now) {
		return 0, q.down
	}
	if q.Rate > 0 && !q.takeToken(now) {
		q.reject(now)
		return 0, q.tooMuch
	}
	if q.Limit > 0 && q.inSystem(now) >= q.Limit {
		q.reject(now)
		return 0, q.full
	}
	start := max(now, q.freeAt[0].at)
	if q.DropExpired && start >= deadline {
		return forever, nil // the client does not wait for an answer any more
	}
	end := start + min(q.slowed(start, q.Service.Draw(r)), forever-start)
	q.freeAt.replace(event{at: end})
	if q.Limit > 0 {
		q.departures.push(event{at: end})
	}
	if p := q.errorRate(now); p > 0 && r.Float64() < p {
		return end - now, q.failure
	}
	return end - now, nil
}

// takeToken takes one of the tokens that come at Rate, if there is one.
func (q *serverState) takeToken(now time.Duration) bool {
	rate := q.Rate
	if q.fault.Capacity > 0 && q.fault.activeAt(now) {
		rate *= q.fault.Capacity
	}
	q.tokens = min(q.burst(), q.tokens+rate*(now-q.filled).Seconds())
	q.filled = now
	if q.tokens < 1-1e-9 { // a tenth of a second at 10 a second is one, despite rounding
		return false
	}
	q.tokens--
	return true
}

func (q *serverState) burst() float64 { return float64(max(1, q.Burst)) }

// A part is the part of a server that is down in a fault with a Part. It shares
// the server with the other calls before and after that.
type part struct{ *serverState }

// Serve implements [Service].
func (p part) Serve(now, deadline time.Duration, r *rand.Rand) (time.Duration, error) {
	if p.fault.activeAt(now) {
		return 0, p.down
	}
	return p.serverState.Serve(now, deadline, r)
}

// serviceFor returns the service that the next call of a user needs.
func (w *simulation) serviceFor() Service {
	if p := w.scenario.Fault.Part; p > 0 && w.work.Float64() < p {
		return part{w.service.(*serverState)}
	}
	return w.service
}

// slowed returns how long work of length d takes with the capacity left at a
// time.
func (q *serverState) slowed(at, d time.Duration) time.Duration {
	if q.fault.Capacity > 0 && q.fault.activeAt(at) {
		return time.Duration(min(float64(d)/q.fault.Capacity, float64(forever/2)))
	}
	return d
}

// errorRate returns the share of attempts that fail at a time.
func (q *serverState) errorRate(at time.Duration) float64 {
	if q.fault.Errors > 0 && q.fault.activeAt(at) {
		return q.fault.Errors
	}
	return q.Errors
}

// reject spends the time that a rejection costs. A rejection is answered at
// once, so its work comes before all waiting attempts.
func (q *serverState) reject(now time.Duration) {
	if q.RejectCost > 0 {
		cost := time.Duration(q.RejectCost * float64(q.Service.Mean()))
		q.freeAt.replace(event{at: max(now, q.freeAt[0].at) + q.slowed(now, cost)})
	}
}

// inSystem returns how many attempts wait or are being served.
func (q *serverState) inSystem(now time.Duration) int {
	for len(q.departures) > 0 && q.departures[0].at <= now {
		q.departures.pop()
	}
	return len(q.departures)
}
