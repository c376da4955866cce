package backoff

import (
	"context"
	"time"

	"github.com/gobackoff/backoff/internal/circuit"
	"github.com/gobackoff/backoff/internal/draw"
	"github.com/gobackoff/backoff/internal/inbound"
	"github.com/gobackoff/backoff/internal/waker"
)

// config returns the settings of the circuit.
func (b *Breaker) config() circuit.Config {
	c := circuit.Config{
		FailureRate:         b.FailureRate,
		SlowRate:            b.SlowRate,
		MinCalls:            b.MinCalls,
		Window:              b.Window,
		WindowCalls:         b.WindowCalls,
		ConsecutiveFailures: b.ConsecutiveFailures,
		ConsecutiveSpan:     b.ConsecutiveSpan,
		MaxProbes:           b.MaxProbes,
		ProbeSuccesses:      b.ProbeSuccesses,
		RampUp:              b.RampUp,
	}
	if b.SlowCall <= 0 {
		c.SlowRate = -1
	}
	return c.WithDefaults()
}

// phase is a phase of the circuit, with the error of the calls that it refuses.
type phase struct {
	circuit.Live
	refusal error
}

// current returns the phase. It begins the first one at first use.
func (b *Breaker) current() *phase {
	if p := b.phase.Load(); p != nil {
		return p
	}
	return b.first()
}

func (b *Breaker) first() *phase {
	p := b.lock()
	b.mu.Unlock()
	return p
}

// lock takes the lock and returns the phase.
func (b *Breaker) lock() *phase {
	var err error
	if b.phase.Load() == nil {
		err = b.Validate() // without the lock, since Shared and OpenFor may panic
	}
	b.mu.Lock()
	p := b.phase.Load()
	if p == nil {
		mode := circuit.Enforce
		if err != nil {
			mode = circuit.Invalid
		}
		p = b.newPhase(circuit.Phase{Mode: mode})
		p.refusal = err
		b.phase.Store(p)
	}
	return p
}

// newPhase begins a phase.
func (b *Breaker) newPhase(next circuit.Phase) *phase {
	p := new(phase)
	p.Begin(next, circuit.Paths{Time: b.SlowCall > 0 || b.MinAttemptTime > 0, Consult: b.Shared != nil})
	return p
}

// step gives the circuit an input, under the lock, and begins the next phase if
// there is one. cause is the failure that the input brought.
func (b *Breaker) step(ctx context.Context, in *circuit.Input, cause error) circuit.Effects {
	c := b.config()
	next, effects := b.phase.Load().Step(&c, in, b.drawOpenTime)
	if effects.Changed {
		b.enter(ctx, next, effects.Trigger, cause)
		b.tellShared(next, effects)
	}
	return effects
}

// expire ends an open phase whose time is over, under the lock, and returns the
// phase after that.
func (b *Breaker) expire(ctx context.Context) *phase {
	p := b.phase.Load()
	if woken := waker.Since(ctx, p.Began); woken || p.Expired() {
		b.step(ctx, &circuit.Input{Kind: circuit.Tick, ProbeTimeout: b.probeTimeout(), Woken: woken}, nil)
	}
	return b.phase.Load()
}

// apply applies a manual Trip, Reset or Force.
func (b *Breaker) apply(in circuit.Input) {
	ctx := context.Background()
	b.lock()
	defer b.mu.Unlock()
	if in.Kind == circuit.Trip {
		b.expire(ctx)
	}
	b.step(ctx, &in, nil)
}

// enter begins the next phase, under the lock.
func (b *Breaker) enter(ctx context.Context, next circuit.Phase, why circuit.Trigger, cause error) {
	old, p := b.phase.Load(), b.newPhase(next)
	p.Last = old.Last
	if open, ok := old.refusal.(*OpenError); ok && (why == circuit.TriggerTime || next.Kind == circuit.Closed) {
		cause = open.Last
	}
	if next.Kind != circuit.Closed || next.Span > 0 {
		refusal := &OpenError{Name: b.Name, State: BreakerState(next.Kind), Last: cause}
		if next.Kind != circuit.HalfOpen && next.Mode != circuit.ForcedOpen {
			refusal.until = p.Began.Add(next.Span)
		}
		p.refusal = refusal
	}
	if b.timer != nil {
		b.timer.Stop()
	}
	b.timer = p.Arm()
	b.phase.Store(p)
	if b.Observer != nil && next.Kind != old.Kind {
		b.announce(ctx, old, p, why, cause)
	}
}

var triggerNames = [...]string{"rate", "consecutive", "slow", "rule", "time", "probe", "manual", "shared"}

// announce reports a transition to the Observer, after the lock is released.
func (b *Breaker) announce(ctx context.Context, old, p *phase, why circuit.Trigger, cause error) {
	t := &BreakerTransition{
		Name:       b.Name,
		From:       BreakerState(old.Kind),
		To:         BreakerState(p.Kind),
		Trigger:    triggerNames[why],
		At:         p.Began,
		Generation: uint64(p.Generation),
		Openings:   int(p.Openings),
		RetryAfter: p.Left(0),
	}
	if p.Kind != circuit.Closed {
		t.Err = cause
	}
	b.mu.Add(func() {
		b.Observer.Notify(ctx, Event{Kind: EventTransition, Name: b.Name, Err: t.Err, Transition: t})
	})
}

// drawOpenTime draws how long the circuit stays open, if it opens for that
// number of times in a row. By the rule for outages that time begins with the
// last probe.
func (b *Breaker) drawOpenTime(number int, o *circuit.Outage) time.Duration {
	jitter := b.Jitter
	if jitter == nil {
		jitter = UniformJitter(0.8, 1.2)
	}
	if number == 1 || b.row == nil {
		b.row = new(circuit.Row)
	}
	b.row.Last = max(0, jitter(b.openTimeAfter(number, o), b.row.Last, draw.Unit(b.Rand)))
	if !b.ownOpenTime(o) {
		b.row.Lease = max(b.row.Last, b.openTime(1))
		return b.row.Last
	}
	b.row.Lease = circuit.LeaseFor(b.row.Last)
	return b.row.Last - o.Since
}

// ownOpenTime reports whether the rule for outages says how long the circuit
// stays open: the breaker itself found that calls failed, and decides alone.
func (b *Breaker) ownOpenTime(o *circuit.Outage) bool {
	return b.OpenFor == nil && b.Shared == nil && o.Failed()
}

// openTimeAfter returns how long the circuit stays open, before jitter. The
// brief openings do not lengthen the others.
func (b *Breaker) openTimeAfter(number int, o *circuit.Outage) time.Duration {
	usual := b.openTime(b.row.Usual(number))
	d := usual
	if b.ownOpenTime(o) {
		d = o.OpenFor(usual)
	} else if b.OpenFor == nil && o.Cause == circuit.Unsent {
		d = defaultOpenFor(250 * time.Millisecond).Delay(number)
	}
	if d != usual {
		b.row.Brief++
	}
	return d
}

// openTime returns how long the circuit stays open, before jitter, if what
// opened it may have reached the service.
func (b *Breaker) openTime(number int) time.Duration {
	if b.OpenFor == nil {
		return defaultOpenFor(5 * time.Second).Delay(number)
	}
	return delayOf(b.OpenFor, number)
}

// defaultOpenFor returns how long a circuit stays open, first and after that.
func defaultOpenFor(first time.Duration) Schedule {
	return Exponential{Initial: first, Multiplier: 1.2, Max: time.Minute}
}

// probeTimeout is how long a probe may take, at least.
func (b *Breaker) probeTimeout() time.Duration {
	if b.row == nil {
		return max(b.ProbeTimeout, b.openTime(1))
	}
	return max(b.ProbeTimeout, b.row.Lease)
}

// A call is one that was admitted.
type call struct {
	breaker  *Breaker
	ctx      context.Context
	phase    *phase        // that admitted it; nil if its end has no consequence
	probe    uint32        // the number of a probe; 0 if it is none
	began    time.Duration // the age of the phase then; 0 if it is not known
	returned bool          // from the operation
}

// admit admits a call, or says why not.
func (b *Breaker) admit(ctx context.Context, p *phase) (call, error) {
	switch path, age := p.Admit(b.Rand); {
	case path == circuit.PathCount:
		return call{breaker: b, ctx: ctx, phase: p, began: age}, nil
	case path == circuit.PathAsk, path == circuit.PathRefuse && waker.Since(ctx, p.Began):
		c, err := b.ask(ctx)
		return c, b.refuse(ctx, err)
	case path == circuit.PathRefuse:
		return call{}, b.refuse(ctx, p.refusal)
	}
	return call{ctx: ctx}, nil
}

// ask decides under the lock whether to admit a call.
func (b *Breaker) ask(ctx context.Context) (call, error) {
	b.lock()
	defer b.mu.Unlock()
	in := circuit.Input{Kind: circuit.Ask, Hold: b.consult(ctx, b.expire(ctx))}
	p := b.phase.Load()
	if p.Kind == circuit.HalfOpen && ctx.Value(probeOf{b}) == p {
		return call{ctx: ctx}, nil // the probe itself asks
	}
	e := b.step(ctx, &in, nil)
	switch {
	case !e.Admitted:
		return call{}, p.refusal
	case !e.Counts:
		return call{ctx: ctx}, nil
	}
	return call{breaker: b, ctx: ctx, phase: p, probe: e.Probe, began: in.Age}, nil
}

// probeOf is the key of the phase that let a probe in, in the context of the
// probe.
type probeOf struct{ *Breaker }

// begin returns the context for the operation. That of a probe lets the probe
// call the breaker again.
func (c *call) begin() context.Context {
	switch {
	case c.probe != 0:
		return context.WithValue(c.ctx, probeOf{c.breaker}, c.phase)
	case c.began == 0 && c.phase != nil && inbound.Limits(c.ctx):
		c.began = c.phase.Age()
	}
	return c.ctx
}

// refuse returns why a call is refused, nil if it is not, and tells the
// Observer.
func (b *Breaker) refuse(ctx context.Context, why error) error {
	if b.Observer != nil && why != nil {
		b.tellRefused(ctx, why)
	}
	return why
}

func (b *Breaker) tellRefused(ctx context.Context, why error) {
	reason := ReasonInvalid
	if _, ok := why.(*OpenError); ok {
		reason = ReasonOpen
	}
	b.Observer.Notify(ctx, Event{Kind: EventRefused, Name: b.Name, Reason: reason, Err: why})
}

// leave is deferred. It reports a panic or a Goexit.
func (c *call) leave() {
	if !c.returned {
		c.report(errCrashed)
	}
}

// report reports how the call ended.
func (c call) report(err error) {
	if c.phase == nil {
		return
	}
	in := c.score(err)
	if c.phase.Settle(&in) {
		return
	}
	b := c.breaker
	p := b.lock()
	defer b.mu.Unlock()
	if p != c.phase {
		return // too late
	}
	if b.step(c.ctx, &in, err).Undecided && b.TripIf != nil && b.asksToTrip() && b.phase.Load() == p {
		b.step(c.ctx, &circuit.Input{Kind: circuit.Rule, Cause: in.Score}, err)
	}
}

// asksToTrip asks the user's own rule. It gives the lock back meanwhile.
func (b *Breaker) asksToTrip() bool {
	stats := b.stats()
	b.mu.Unlock()
	defer b.mu.Lock()
	return b.TripIf(stats)
}

// stats returns the state in detail, under the lock.
func (b *Breaker) stats() BreakerStats {
	p := b.phase.Load()
	look := circuit.Input{Kind: circuit.Tick, Age: p.Age(), Calls: p.Opened()}
	if p.Kind == circuit.Closed {
		b.step(context.Background(), &look, nil)
	}
	now := p.Live.State()
	return BreakerStats{
		State:               b.State(),
		Mode:                BreakerMode(now.Mode),
		Successes:           look.Calls.Good,
		Failures:            look.Calls.Bad,
		Slow:                look.Calls.Slow,
		ConsecutiveFailures: int(look.Calls.InARow),
		Openings:            int(now.Openings),
		Probes:              now.Probes.Leases.Count(look.Age),
		Generation:          uint64(now.Generation),
		RetryAfter:          now.Left(look.Age),
	}
}

// consult asks the fleet about the phase p, under the lock, and does what it
// says. It reports whether the call must not probe.
func (b *Breaker) consult(ctx context.Context, p *phase) (hold bool) {
	if !p.Consults() {
		return false
	}
	advice := b.advice(ctx, p)
	switch {
	case b.phase.Load() != p:
		return true
	case advice.To == BreakerClosed:
		return false
	}
	effects := b.step(ctx, &circuit.Input{
		Kind:         circuit.Advise,
		Advice:       circuit.Kind(advice.To),
		For:          b.capRetryAfter(advice.RetryAfter),
		Openings:     advice.Openings,
		ProbeTimeout: b.probeTimeout(),
	}, advice.Err)
	return !effects.Changed || b.consult(ctx, b.phase.Load()) // it may be half-open now
}

// advice asks the fleet about a phase. It gives the lock back meanwhile.
func (b *Breaker) advice(ctx context.Context, p *phase) BreakerTransition {
	b.mu.Unlock()
	defer b.mu.Lock()
	if p.Kind == circuit.HalfOpen {
		return b.Shared.Probe(ctx, b.Name, p.Span)
	}
	return b.Shared.Consult(ctx, b.Name, p.Wake)
}

// tellShared reports to the fleet what this process has found out by itself.
func (b *Breaker) tellShared(p circuit.Phase, e circuit.Effects) {
	switch {
	case b.Shared == nil || p.Mode != circuit.Enforce:
	case e.Draw:
		b.Shared.Opened(b.Name, p.Span, b.row.Usual(int(p.Openings)))
	case e.Trigger == circuit.TriggerProbe:
		b.Shared.Closed(b.Name)
	}
}
