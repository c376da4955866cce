package backoff

import (
	"context"
	"time"

	"github.com/gobackoff/backoff/internal/circuit"
	"github.com/gobackoff/backoff/internal/draw"
	"github.com/gobackoff/backoff/internal/inorder"
	"github.com/gobackoff/backoff/internal/limits"
)

// config returns the settings of the circuit, with the defaults filled in.
func (b *Breaker) config() circuit.Config {
	c := circuit.Config{
		FailureRate:         limits.Or(b.FailureRate, defaultFailureRate),
		SlowRate:            -1,
		MinCalls:            max(1, limits.Or(b.MinCalls, defaultMinCalls)),
		Window:              limits.Or(b.Window, defaultWindow),
		WindowCalls:         b.WindowCalls,
		ConsecutiveFailures: limits.Or(b.ConsecutiveFailures, defaultConsecutiveFailures),
		ConsecutiveSpan:     limits.Or(b.ConsecutiveSpan, defaultConsecutiveSpan),
		MaxProbes:           limits.Or(b.MaxProbes, defaultMaxProbes),
		ProbeSuccesses:      limits.Or(b.ProbeSuccesses, defaultProbeSuccesses),
		RampUp:              b.RampUp,
	}
	if b.SlowCall > 0 {
		c.SlowRate = limits.Or(b.SlowRate, defaultFailureRate)
	}
	if b.Window < 0 {
		c.Window = circuit.Forever
	}
	if b.WindowCalls > 0 {
		c.MinCalls = min(c.MinCalls, b.WindowCalls)
	}
	return c
}

// paths says what calls of a closed circuit have to do.
func (b *Breaker) paths() circuit.Paths {
	return circuit.Paths{Time: b.timesCalls(), Consult: b.Shared != nil}
}

// timesCalls reports whether the duration of calls matters.
func (b *Breaker) timesCalls() bool { return b.SlowCall > 0 || b.MinAttemptTime > 0 }

// phase is a phase of the circuit, with the error of the calls that it refuses.
type phase struct {
	circuit.Live
	refusal error
}

// cause returns the failure that opened the circuit.
func (p *phase) cause() error {
	if e, ok := p.refusal.(*OpenError); ok {
		return e.Last
	}
	return nil
}

// current returns the phase. It begins the first one at first use.
func (b *Breaker) current() *phase {
	if p := b.phase.Load(); p != nil {
		return p
	}
	p := b.lock()
	b.unlock()
	return p
}

// lock takes the lock and returns the phase.
func (b *Breaker) lock() *phase {
	b.mu.Lock()
	p := b.phase.Load()
	if p == nil {
		p = b.firstPhase()
		b.phase.Store(p)
	}
	return p
}

func (b *Breaker) firstPhase() *phase {
	err := b.Validate()
	if err == nil {
		return b.newPhase(circuit.Phase{}, nil)
	}
	p := b.newPhase(circuit.Phase{Mode: circuit.Invalid}, nil)
	p.refusal = err
	return p
}

// newPhase begins a phase. cause is the failure that opened the circuit.
func (b *Breaker) newPhase(next circuit.Phase, cause error) *phase {
	p := new(phase)
	p.Begin(next, b.paths())
	if next.Kind != circuit.Closed || next.Span > 0 {
		refusal := &OpenError{Name: b.Name, State: State(next.Kind), Last: cause}
		if next.Kind != circuit.HalfOpen && next.Mode != circuit.ForcedOpen {
			refusal.until = p.Began.Add(next.Span)
		}
		p.refusal = refusal
	}
	return p
}

// input returns an input that comes now, under the lock.
func (b *Breaker) input(k circuit.InputKind) circuit.Input {
	c := b.config()
	return b.phase.Load().Input(k, &c)
}

// step gives the circuit an input, under the lock, and begins the next phase if
// there is one. cause is the failure that the input brought.
func (b *Breaker) step(ctx context.Context, in circuit.Input, cause error) circuit.Effects {
	c := b.config()
	return b.stepBy(ctx, &c, &in, cause)
}

// stepBy is step where the settings are at hand.
func (b *Breaker) stepBy(ctx context.Context, c *circuit.Config, in *circuit.Input, cause error) circuit.Effects {
	next, effects := b.phase.Load().Step(c, in, b.drawOpenTime)
	if effects.Changed {
		b.enter(ctx, next, effects.Trigger, cause)
		if b.Shared != nil && next.Mode == circuit.Enforce {
			b.tellShared(next, effects)
		}
	}
	return effects
}

// expire ends an open phase whose time is over, under the lock, and returns the
// phase after that.
func (b *Breaker) expire(ctx context.Context) *phase {
	if b.phase.Load().Expired() {
		in := b.input(circuit.Tick)
		in.ProbeTimeout = b.probeTimeout()
		b.step(ctx, in, nil)
	}
	return b.phase.Load()
}

// enter begins the next phase, under the lock.
func (b *Breaker) enter(ctx context.Context, next circuit.Phase, why circuit.Trigger, cause error) {
	old := b.phase.Load()
	if why == circuit.TriggerTime || next.Kind == circuit.Closed {
		cause = old.cause()
	}
	p := b.newPhase(next, cause)
	if b.timer != nil {
		b.timer.Stop()
	}
	b.timer = p.Arm()
	b.phase.Store(p)
	if b.Observer == nil || next.Kind == old.Kind {
		return
	}
	t := Transition{
		Name:       b.Name,
		From:       State(old.Kind),
		To:         State(next.Kind),
		Trigger:    Trigger(why),
		At:         p.Began,
		Generation: uint64(next.Generation),
		Openings:   int(next.Openings),
	}
	if next.Kind != circuit.Closed {
		t.Err = cause
	}
	if next.Kind == circuit.Open && next.Span != circuit.Forever {
		t.RetryAfter = next.Span
	}
	b.enqueue(ctx, t)
}

// drawOpenTime draws how long the circuit stays open.
func (b *Breaker) drawOpenTime(openings int) time.Duration {
	jitter := b.Jitter
	if jitter == nil {
		jitter = defaultOpenJitter
	}
	if openings == 1 {
		b.lastOpen = 0
	}
	b.lastOpen = max(0, jitter(delayOf(b.openFor(), openings), b.lastOpen, draw.Unit(b.Rand)))
	return b.lastOpen
}

func (b *Breaker) openFor() Schedule {
	if b.OpenFor == nil {
		return defaultOpenFor
	}
	return b.OpenFor
}

// probeTimeout is how long a probe may take, at least. It matters where the
// circuit was open for no time, because of its Jitter or its fleet.
func (b *Breaker) probeTimeout() time.Duration {
	return max(b.ProbeTimeout, delayOf(b.openFor(), 1))
}

// A permit belongs to a call that was admitted. The zero value belongs to a
// call whose result does not count.
type permit struct {
	phase *phase
	probe uint32        // the number of a probe; 0 if it is none
	began time.Duration // the age of the phase then, where the duration matters
}

// admit admits a call, or says why not.
func (b *Breaker) admit(ctx context.Context, p *phase) (permit, error) {
	switch p.Path.Load() {
	case circuit.PathCount:
		return permit{phase: p}, nil
	case circuit.PathTime:
		return permit{phase: p, began: p.Age()}, nil
	case circuit.PathRamp:
		return b.admitShare(p)
	case circuit.PathRefuse:
		return permit{}, p.refusal
	case circuit.PathPass:
		return permit{}, nil
	}
	return b.ask(ctx)
}

// admitShare admits a growing share of the calls.
func (b *Breaker) admitShare(p *phase) (permit, error) {
	age := p.Age()
	if age >= p.Span {
		p.AdmitAll(b.paths())
	} else if draw.Unit(b.Rand) >= p.Share(age) {
		return permit{}, p.refusal
	}
	return permit{phase: p, began: age}, nil
}

// ask decides under the lock whether to admit a call.
func (b *Breaker) ask(ctx context.Context) (permit, error) {
	var probing *phase
	if b.Shared != nil {
		probing = b.consult(ctx)
	}
	b.lock()
	defer b.unlock()
	p := b.expire(ctx)
	in := b.input(circuit.Ask)
	in.Hold = b.Shared != nil && p != probing
	e := b.step(ctx, in, nil)
	switch {
	case !e.Admitted:
		return permit{}, p.refusal
	case !e.Counts:
		return permit{}, nil
	}
	return permit{phase: p, probe: e.Probe, began: in.Age}, nil
}

// stats returns the state in detail, under the lock.
func (b *Breaker) stats() BreakerStats {
	in := b.input(circuit.Tick)
	p := b.phase.Load()
	if p.Kind == circuit.Closed {
		b.step(context.Background(), in, nil)
	}
	now := p.Live.State()
	s := BreakerStats{
		State:               b.State(),
		Mode:                Mode(now.Mode),
		Successes:           in.Calls.Good,
		Failures:            in.Calls.Bad,
		Slow:                in.Calls.Slow,
		ConsecutiveFailures: now.Failures.InARow,
		Openings:            int(now.Openings),
		Probes:              now.Probes.Leases.Count(in.Age),
		Generation:          uint64(now.Generation),
	}
	if now.Kind == circuit.Open && now.Span != circuit.Forever {
		s.RetryAfter = max(0, now.Span-in.Age)
	}
	return s
}

// transition is a change of state, and the context of the call that caused it.
type transition struct {
	ctx context.Context
	Transition
}

// enqueue adds a transition, under the lock.
func (b *Breaker) enqueue(ctx context.Context, t Transition) {
	if b.transitions == nil {
		b.transitions = new(inorder.Queue[transition])
	}
	b.transitions.Add(transition{ctx, t})
}

// unlock gives the lock back and delivers the transitions that came up under
// it.
func (b *Breaker) unlock() {
	claimed := b.transitions != nil && b.transitions.Claim()
	b.mu.Unlock()
	if claimed {
		b.transitions.Deliver(&b.mu, b.deliver)
	}
}

func (b *Breaker) deliver(t transition) {
	b.Observer.tell(t.ctx, &Event{Kind: EventTransition, Name: b.Name, Err: t.Err, Transition: &t.Transition})
}

// consult asks the fleet and does what it says. It returns the half-open phase
// in which the call may probe, if there is one.
func (b *Breaker) consult(ctx context.Context) *phase {
	for {
		p, asks := b.consults(ctx)
		if !asks {
			return p
		}
		var advice Transition
		if p.Kind == circuit.HalfOpen {
			advice = b.Shared.Probe(ctx, b.Name, p.Span)
		} else {
			advice = b.Shared.Consult(ctx, b.Name, p.Wake)
		}
		if b.advise(ctx, p, advice) {
			continue // it is half-open now
		}
		if advice.To != StateClosed {
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
func (b *Breaker) advise(ctx context.Context, p *phase, t Transition) (again bool) {
	b.lock()
	defer b.unlock()
	if b.phase.Load() != p || t.To == StateClosed {
		return false
	}
	in := b.input(circuit.Advise)
	in.Advice, in.For, in.Openings = circuit.Kind(t.To), b.capRetryAfter(t.RetryAfter), t.Openings
	if p.Kind == circuit.Closed {
		in.ProbeTimeout = b.probeTimeout()
	}
	return b.step(ctx, in, t.Err).Changed && b.phase.Load().Kind == circuit.HalfOpen
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
