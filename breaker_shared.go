package backoff

import (
	"context"
	"time"

	"github.com/gobackoff/backoff/internal/circuit"
)

// Shared is what the processes of a fleet know together about their services,
// for [Breaker.Shared]. The Client of package fleet implements it with a store
// such as Redis.
//
// All methods must be safe for concurrent use and must not call a breaker.
// Opened and Closed are called under the breaker's lock and must not block.
type Shared interface {
	// Consult returns what the fleet knows about a circuit that is closed in
	// this process. StateOpen opens the circuit here for SharedState.For, and
	// StateHalfOpen makes it half-open.
	//
	// It is called by the first call of a closed circuit, and by the first call
	// after wake. It should answer from memory; if it blocks, it holds up that
	// call only. wake may be called at any time, any number of times, or never.
	// It takes no lock, does not block, and does not keep a forgotten breaker
	// alive.
	Consult(ctx context.Context, name string, wake func()) SharedState
	// Probe returns whether a call may probe a circuit that is half-open in
	// this process, where timeout is how long the probe may take. The zero
	// SharedState lets it. StateHalfOpen refuses the call, because another
	// process probes. StateOpen refuses it and opens the circuit for
	// SharedState.For.
	//
	// It is called by every call of a half-open circuit.
	Probe(ctx context.Context, name string, timeout time.Duration) SharedState
	// Opened reports that this process opened the circuit by what it saw: for
	// how long, and how many times in a row.
	Opened(name string, openFor time.Duration, openings int)
	// Closed reports that probes of this process closed the circuit.
	Closed(name string)
}

// A SharedState is what a fleet knows about a circuit. The zero value says
// nothing: the breaker goes by what it sees itself, and a half-open circuit
// probes.
type SharedState struct {
	State    State         // of the fleet's circuit
	For      time.Duration // how long it stays open; [Breaker.MaxRetryAfter] bounds it
	Openings int           // in a row, of the whole fleet
	Err      error         // why, for [OpenError.Last]
}

// consult asks the fleet and does what it says. It returns the half-open phase
// in which the call may probe, if there is one.
func (b *Breaker) consult(ctx context.Context) *phase {
	for {
		p, asks := b.consults(ctx)
		if !asks {
			return p
		}
		var s SharedState
		if p.Kind == circuit.HalfOpen {
			s = b.Shared.Probe(ctx, b.Name, p.Span)
		} else {
			s = b.Shared.Consult(ctx, b.Name, p.Wake)
		}
		if b.advise(ctx, p, s) {
			continue // it is half-open now
		}
		if s.State != StateClosed {
			return nil
		}
		return p
	}
}

// consults returns the phase and whether the fleet is to be asked about it.
func (b *Breaker) consults(ctx context.Context) (p *phase, asks bool) {
	b.lock()
	defer b.unlock()
	p = b.expire(ctx)
	asks = p.Kind == circuit.HalfOpen || p.Kind == circuit.Closed && p.Path.Load() == circuit.PathAsk
	if !asks || p.Mode != circuit.Enforce {
		return p, false
	}
	if p.Kind == circuit.Closed {
		b.step(ctx, b.input(circuit.Tick), nil)
		p.Consulted(b.paths()) // before the answer, so that its wake is not lost
	}
	return p, true
}

// advise does what the fleet says about a phase. It reports whether the circuit
// has become half-open, so that the fleet is to be asked for the probe.
func (b *Breaker) advise(ctx context.Context, p *phase, s SharedState) (again bool) {
	b.lock()
	defer b.unlock()
	if b.phase.Load() != p || s.State == StateClosed {
		return false
	}
	in := b.input(circuit.Advise)
	in.Advice, in.For, in.Openings = circuit.Kind(s.State), b.capRetryAfter(s.For), s.Openings
	if p.Kind == circuit.Closed {
		in.ProbeTimeout = b.probeTimeout()
	}
	return b.step(ctx, in, s.Err).Changed && b.phase.Load().Kind == circuit.HalfOpen
}

// tellShared reports to the fleet what this process has found out by itself.
func (b *Breaker) tellShared(p circuit.Phase, e circuit.Effects) {
	switch {
	case e.Draw:
		b.Shared.Opened(b.Name, p.Span, int(p.Openings))
	case e.Trigger == circuit.TriggerProbe:
		b.Shared.Closed(b.Name)
	}
}
