package backoff

import (
	"sync"
	"time"
)

// InFlight is a [Budget] that lets at most Max attempts be under way at once, of all
// the calls and reconnect loops that share it. It refuses at once, and
// queues nothing: where a service is out, callers learn it in microseconds, and no
// memory grows. Calls asleep between attempts do not count; for them see [Pending].
//
// The zero value is ready to use. An InFlight must not be copied, nor its field changed,
// after first use. It is safe for concurrent use. An attempt holds its place until
// its Done; one that hangs holds it for as long as it hangs. A second Done changes nothing.
type InFlight struct {
	// Max is the number of attempts. 0 means 100, a negative number no limit.
	Max int

	places places
}

// Reserve implements [Budget]. It takes a place for a first attempt; a retry
// takes it when it departs.
func (f *InFlight) Reserve(a Attempt) (Ticket, time.Duration, bool) {
	if a.Kind == KindRetry {
		return f.places.ticket(), 0, true
	}
	t := f.places.ticket()
	return t, 0, f.places.take(t, f.limit())
}

// Depart implements [Departures].
func (f *InFlight) Depart(t Ticket) bool { return f.places.take(t, f.limit()) }

// Done implements [Budget].
func (f *InFlight) Done(t Ticket, _ Outcome) { f.places.free(t) }

// Load returns how many attempts are under way.
func (f *InFlight) Load() int { return f.places.taken() }

func (f *InFlight) limit() int { return capOf(f.Max, defaultInFlight) }

// Pending is a [Budget] that lets at most Max calls be asleep between two attempts,
// of all that share it. An outage at 1000 calls a second, each backing off for up to 30 s, is
// 30,000 goroutines asleep, to wake on a service that is about to recover; a call that would
// be one too many ends at once with the error it has.
//
// It is used, and counts, as [InFlight] does.
type Pending struct {
	// Max is the number of calls. 0 means 1000, a negative number no limit.
	Max int

	places places
}

// Reserve implements [Budget]. It takes a place for a retry, which is about to sleep.
func (p *Pending) Reserve(a Attempt) (Ticket, time.Duration, bool) {
	if a.Kind != KindRetry {
		return Ticket{}, 0, true
	}
	t := p.places.ticket()
	return t, 0, p.places.take(t, capOf(p.Max, defaultPending))
}

// Depart implements [Departures]. The call is awake.
func (p *Pending) Depart(t Ticket) bool {
	p.places.free(t)
	return true
}

// Done implements [Budget].
func (p *Pending) Done(t Ticket, _ Outcome) { p.places.free(t) }

// Load returns how many calls are asleep.
func (p *Pending) Load() int { return p.places.taken() }

const (
	defaultInFlight = 100
	defaultPending  = 1000
)

func capOf(limit, otherwise int) int {
	if limit == 0 {
		return otherwise
	}
	return limit
}

// places counts who is in, and knows them by ticket, so that nobody leaves twice.
type places struct {
	mu   sync.Mutex
	last uint64
	in   map[uint64]struct{}
}

func (p *places) ticket() Ticket {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	return Ticket{p.last}
}

// take lets the holder of a ticket in, unless limit are. It is idempotent.
func (p *places) take(t Ticket, limit int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, in := p.in[t[0]]; in {
		return true
	}
	if limit >= 0 && len(p.in) >= limit {
		return false
	}
	if p.in == nil {
		p.in = make(map[uint64]struct{})
	}
	p.in[t[0]] = struct{}{}
	return true
}

func (p *places) free(t Ticket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.in, t[0])
}

func (p *places) taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.in)
}
