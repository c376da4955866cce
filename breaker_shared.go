package backoff

import (
	"context"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/window"
)

// Shared is what a fleet of processes knows of its services, for [Breaker.Shared]. The
// Client of package fleet is one; it keeps it in a store, such as Redis.
//
// All methods must be safe for concurrent use, and must not call a breaker. Opened and
// Closed are called under the breaker's lock and must not block.
type Shared interface {
	// Consult is asked at the first call of a closed circuit, at the first one after
	// Wake, and at every call of a half-open one. It should answer from memory. If it
	// blocks, the call waits that long, no other one of a closed circuit does.
	Consult(ctx context.Context, q SharedQuery) SharedHint
	// Opened says that the circuit was opened by what this process saw, for so long,
	// and how many times in a row.
	Opened(name string, openFor time.Duration, openings int)
	// Closed says that probes of this process closed it.
	Closed(name string)
}

// A SharedQuery is what a [Breaker] asks its fleet.
type SharedQuery struct {
	Name         string        // of the breaker
	State        State         // of its circuit: closed or half-open
	ProbeTimeout time.Duration // half-open: how long a probe may take
	// Wake makes the next call ask again, if the circuit is still closed then. It takes
	// no lock, does not block, and may be called at any time, any number of times, or
	// never; it does not keep a forgotten breaker alive.
	Wake func()
}

// A SharedHint is what a fleet says to one of its breakers. The zero value is no hint:
// the breaker goes by what it saw itself, and a half-open circuit probes.
type SharedHint struct {
	// State is that of the fleet's circuit. StateOpen opens this one for as long as For
	// says, up to MaxRetryAfter. StateHalfOpen makes it half-open; if it is, the call is not
	// to probe, because another process does.
	State    State
	For      time.Duration
	Openings int   // in a row, of the whole fleet
	Err      error // why, for [OpenError.Last]
}

// consult asks the fleet, and does as it says. It returns the half-open phase in which
// the fleet lets this call probe, if there is one.
func (b *Breaker) consult(ctx context.Context) *phase {
	for {
		p, q := b.query(ctx)
		if q.Wake == nil {
			return p
		}
		h := b.Shared.Consult(ctx, q)
		if b.heed(ctx, p, h) {
			continue // it is half-open now
		}
		if h.State != StateClosed {
			return nil
		}
		return p
	}
}

// query says what to ask. Without Wake there is nothing to be asked.
func (b *Breaker) query(ctx context.Context) (p *phase, q SharedQuery) {
	b.lock()
	defer b.unlock(ctx)
	p = b.turn()
	asks := p.state == StateHalfOpen || p.state == StateClosed && p.path.Load() == pathAsk
	if !asks || b.mode != ModeEnforce {
		return p, q
	}
	q = SharedQuery{Name: b.Name, State: p.state, ProbeTimeout: p.span, Wake: p.cool}
	if p.state == StateClosed {
		b.look(p, p.age())
		p.path.Store(b.quickPath()) // before the answer, whose Wake must not be lost
	}
	return p, q
}

// cool makes the next call of a closed phase take the long way.
func (p *phase) cool() {
	if !p.path.CompareAndSwap(pathQuick, pathAsk) {
		p.path.CompareAndSwap(pathTimed, pathAsk)
	}
}

// heed does what the fleet says, unless things have changed meanwhile, or a closed
// circuit knows better. It reports whether the fleet is to be asked again.
func (b *Breaker) heed(ctx context.Context, p *phase, h SharedHint) (again bool) {
	b.lock()
	defer b.unlock(ctx)
	switch {
	case b.phase.Load() != p, h.State == StateClosed, h.State == p.state:
		return false
	case h.State == StateOpen && h.For <= 0, p.state == StateClosed && b.thrives(p):
		return false
	}
	b.openings = uint16(max(int(b.openings), min(h.Openings, maxOpenings)))
	if h.State == StateOpen {
		if limit := limited(b.MaxRetryAfter, defaultMaxRetryAfter); limit > 0 {
			h.For = min(h.For, limit)
		}
		b.stayOpen(h.For, TriggerShared, h.Err)
		return false
	}
	b.halfOpen(0, TriggerShared, h.Err)
	return true
}

// thrives reports whether this process has reason to trust its own eyes: it has seen
// enough calls to judge by, and the last of them succeeded.
func (b *Breaker) thrives(p *phase) bool {
	f := b.look(p, p.age())
	good, bad, _ := f.counts()
	if f.last == nil {
		good = f.Least(window.Good) // those of an hour ago say nothing
	}
	return f.streak == 0 && good+bad >= uint64(b.minCalls())
}

// stayOpen begins an open phase of a given length.
func (b *Breaker) stayOpen(span time.Duration, why Trigger, err error) {
	p := &phase{state: StateOpen, began: clock.Now(), span: span}
	p.refusal = &OpenError{Name: b.Name, State: StateOpen, Last: err, until: p.began.Add(p.span)}
	b.arm(p)
	b.move(p, why, err)
}

// halfOpen begins a half-open phase, after an open one of so long.
func (b *Breaker) halfOpen(open time.Duration, why Trigger, cause error) *phase {
	p := &phase{state: StateHalfOpen, began: clock.Now(), trial: new(trial)}
	p.span = max(b.ProbeTimeout, open, delayOf(b.openFor(), 1)) // a fleet, or a jitter, may have it open for no time
	p.refusal = &OpenError{Name: b.Name, State: StateHalfOpen, Last: cause}
	b.move(p, why, cause)
	return p
}
