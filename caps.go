package backoff

import (
	"sync"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
)

// InFlight is a [Budget] that lets at most Max attempts be under way at once, of all
// the calls and reconnect loops that share it. It refuses at once, and
// queues nothing: where a service is out, callers learn it in microseconds, and no
// memory grows. Calls asleep between attempts do not count; for them see [Pending].
//
// The zero value is ready to use. An InFlight must not be copied, nor its field changed,
// after first use. It is safe for concurrent use. An attempt holds its place until
// its Done; one that hangs holds it for as long as it hangs. A second Done changes nothing.
// A run under [Policy.Supervise] holds its place until it is [ReportReady], or ends.
type InFlight struct {
	// Max is the number of attempts. 0 means 100, a negative number no limit.
	Max int

	places places
}

// Reserve implements [Budget]. It takes a place for a first attempt and for a hedge; a
// retry takes it when it departs.
func (f *InFlight) Reserve(a Attempt) (Ticket, time.Duration, bool) {
	if a.Kind == AttemptRetry {
		return f.places.ticket(), 0, true
	}
	t, ok := f.places.enter(f.limit(), time.Time{})
	return t, 0, ok
}

// Depart implements [Confirmer].
func (f *InFlight) Confirm(t Ticket) bool { return f.places.take(t, f.limit()) }

// Done implements [Budget].
func (f *InFlight) Done(t Ticket, _ Result) { f.places.free(t) }

// Load returns how many attempts are under way.
func (f *InFlight) Load() int { return f.places.taken() }

func (f *InFlight) limit() int { return capOf(f.Max, defaultInFlight) }

// Pending is a [Budget] that lets at most Max calls be asleep between two attempts,
// of all that share it. An outage at 1000 calls a second, each backing off for up to 30 s, is
// 30,000 goroutines asleep, to wake on a service that is about to recover; a call that would
// be one too many ends at once with the error it has.
//
// It is used as [InFlight] is. A second Done changes nothing. A call holds its place until it
// departs, or for 10 minutes: whoever has a loop of his own may leave it in the middle of a
// sleep, as gax does, and never say so. Who sleeps longer than that is not counted any more. Neither are
// the loops of [Policy.Supervise], which are there whether they sleep or not.
type Pending struct {
	// Max is the number of calls. 0 means 1000, a negative number no limit.
	Max int

	places places
}

// Reserve implements [Budget]. It takes a place for a retry, which is about to sleep.
func (p *Pending) Reserve(a Attempt) (Ticket, time.Duration, bool) {
	if a.Kind != AttemptRetry {
		return Ticket{}, 0, true
	}
	now := a.Time()
	limit := capOf(p.Max, defaultPending)
	t, ok := p.places.enter(limit, now)
	if !ok {
		p.places.reclaim(now.Add(-longestSleep))
		t, ok = p.places.enter(limit, now)
	}
	return t, 0, ok
}

// Depart implements [Confirmer]. The call is awake.
func (p *Pending) Confirm(t Ticket) bool {
	p.places.free(t)
	return true
}

// Done implements [Budget].
func (p *Pending) Done(t Ticket, _ Result) { p.places.free(t) }

// Load returns how many calls are asleep.
func (p *Pending) Load() int {
	p.places.reclaim(clock.Now().Add(-longestSleep))
	return p.places.taken()
}

const (
	defaultInFlight = 100
	defaultPending  = 1000
	longestSleep    = 10 * time.Minute
)

func capOf(limit, otherwise int) int {
	if limit == 0 {
		return otherwise
	}
	return limit
}

// places counts who is in, and knows them by ticket, so that nobody leaves twice.
type places struct {
	mu     sync.Mutex
	last   uint64               // ticket
	oldest uint64               // ticket that may be in
	in     map[uint64]time.Time // since when; zero for those who are not to be reclaimed
}

func (p *places) ticket() Ticket {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	return Ticket{p.last}
}

// enter lets a newcomer in, unless limit are.
func (p *places) enter(limit int, now time.Time) (Ticket, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	return Ticket{p.last}, p.admit(p.last, limit, now)
}

// take lets the holder of a ticket in, unless limit are. It is idempotent.
func (p *places) take(t Ticket, limit int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, in := p.in[t[0]]
	return in || p.admit(t[0], limit, time.Time{})
}

func (p *places) admit(ticket uint64, limit int, now time.Time) bool {
	if limit >= 0 && len(p.in) >= limit {
		return false
	}
	if p.in == nil {
		p.in = make(map[uint64]time.Time)
	}
	p.in[ticket] = now
	return true
}

func (p *places) free(t Ticket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.in, t[0])
}

// reclaim frees the places of those who entered at the given time or before. It looks at
// each ticket once.
func (p *places) reclaim(until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ; p.oldest <= p.last; p.oldest++ {
		if since, in := p.in[p.oldest]; in && since.After(until) {
			return
		}
		delete(p.in, p.oldest)
	}
}

func (p *places) taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.in)
}
