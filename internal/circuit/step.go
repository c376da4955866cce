package circuit

import (
	"time"

	"github.com/gobackoff/backoff/internal/limits"
)

// machine is a circuit during a step. Its methods get the settings and the
// input as arguments: as fields they would be allocated, because State holds a
// string.
type machine struct {
	State
	effects Effects
}

// Step returns the state after an input, and what the caller has to do. An
// input begins at most one phase. Step changes neither the settings nor the
// input.
func Step(c *Config, s State, in *Input) (State, Effects) {
	m := machine{State: s}
	if in.Calls.New > 0 {
		m.Failures.succeed()
	}
	switch in.Kind {
	case Tick:
		m.tick(in)
	case Extend:
		m.extend(in)
	case Ask:
		m.ask(c, in)
	case Answer:
		m.answer(c, in)
	case Rule, Trip:
		m.trip(c, in)
	case Reset:
		m.reset()
	case Force:
		m.force(in.Mode)
	case Advise:
		m.advise(c, in)
	}
	return m.State, m.effects
}

// enter begins a phase, which has learned nothing yet.
func (m *machine) enter(k Kind, span time.Duration, why Trigger) {
	m.Generation++
	m.Kind, m.Span = k, span
	m.effects.Changed, m.effects.Trigger, m.effects.Row = true, why, m.Failures
	m.Failures, m.Probes = Failures{}, Probes{}
}

// counts reports whether the circuit goes through its states, which is neither
// forced nor invalid.
func (m *machine) counts() bool { return m.Mode <= Observe }

// current reports whether the input speaks of the current phase.
func (m *machine) current(generation uint32) bool { return generation == m.Generation && m.counts() }

func (m *machine) tick(in *Input) {
	woken := in.Woken && m.Kind != Closed && m.counts()
	if woken {
		m.Openings = 0
	}
	if woken || m.Over(in.Age) {
		m.enter(HalfOpen, max(in.ProbeTimeout, m.Span), TriggerTime)
	}
}

func (m *machine) extend(in *Input) {
	if m.Kind == Open {
		m.Span = max(m.Span, in.For)
	}
}

// ask admits a call or refuses it. On trial, a call that would be refused is
// admitted and has no consequence.
func (m *machine) ask(c *Config, in *Input) {
	switch {
	case !m.counts():
		m.effects.Admitted = m.Mode == ForcedClosed
	case m.Kind == Closed:
		m.effects.Admitted, m.effects.Counts = true, true
	case m.Kind == HalfOpen && !in.Hold && m.grant(c, in):
		m.effects.Admitted, m.effects.Counts = true, true
	default:
		m.effects.Admitted = m.Mode == Observe
	}
}

// grant makes a call a probe if there is a place for one more. A probe that
// does not answer loses its place when its lease ends.
func (m *machine) grant(c *Config, in *Input) bool {
	p := &m.Probes
	p.Leases = p.Leases.after(in.Age)
	if p.Leases.len() >= p.most(c) {
		return false
	}
	p.Granted, p.Newest = p.Granted+1, in.Age
	p.Leases = p.Leases.with(p.Granted, limits.Add(in.Age, m.Span))
	m.effects.Probe = p.Granted
	return true
}

// most returns how many probes may be under way. One that says nothing may have waited for
// another call to the same service, which the circuit refused: so two may go from then on.
func (p *Probes) most(c *Config) int {
	if p.Silent {
		return c.MaxProbes + 1
	}
	return c.MaxProbes
}

// answer records how a call ended.
func (m *machine) answer(c *Config, in *Input) {
	switch {
	case !m.current(in.Permit.Generation):
	case m.Kind == HalfOpen:
		m.answerProbe(c, in)
	case m.Kind == Closed && in.Score != None:
		m.answerCall(c, in)
	}
}

// answerProbe counts a probe also after its lease: if all take longer, the circuit
// would neither close nor open again. A failure says nothing beside the success of
// a later probe.
func (m *machine) answerProbe(c *Config, in *Input) {
	m.Probes.Leases = m.Probes.Leases.after(in.Age).without(in.Permit.Probe)
	switch {
	case in.Score == None:
		m.Probes.Silent = true
	case in.Score != Good || in.Slow:
		if in.Permit.Probe >= m.Probes.Served {
			m.open(c, in, in.Rest, TriggerProbe)
		}
	default:
		m.Probes.Successes++
		m.Probes.Served = max(m.Probes.Served, in.Permit.Probe)
		if int(m.Probes.Successes) >= c.ProbeSuccesses {
			m.close(c)
		}
	}
}

// close begins a closed phase after probes that succeeded.
func (m *machine) close(c *Config) {
	ramp := time.Duration(0)
	if m.Mode == Enforce {
		ramp = max(0, c.RampUp)
	}
	m.enter(Closed, ramp, TriggerProbe)
}

func (m *machine) answerCall(c *Config, in *Input) {
	f := &m.Failures
	switch in.Score {
	case Good:
		f.succeed()
		if !in.Slow {
			return
		}
	case Throttled:
		f.Throttled++
	case Unsent, Hung, Bad:
		if f.InARow++; f.InARow == 1 {
			f.First, f.Share = in.Age, in.Calls.shareBefore()
		}
		f.Rest = max(f.Rest, limits.Add(in.Age, in.Rest))
	}
	if why, ok := m.broken(c, in); ok {
		m.open(c, in, max(m.rest(in.Age), in.Rest), why)
	} else {
		m.effects.Undecided = true
	}
}

// rest returns for how long the service still asks a closed circuit to be left
// alone.
func (m *machine) rest(age time.Duration) time.Duration { return max(0, m.Failures.Rest-age) }

// broken returns the rule by which the calls of a closed phase open the
// circuit.
func (m *machine) broken(c *Config, in *Input) (Trigger, bool) {
	n := &in.Calls
	total := n.Good + n.Bad
	switch {
	case in.Score >= Unsent && m.tooManyInARow(c, in.Age):
		return TriggerConsecutive, true
	case m.onlyThrottled(c, in):
		return TriggerRate, true
	case in.Score == Throttled || total < uint64(c.MinCalls):
	case c.tooManyFailures(in):
		return TriggerRate, true
	case reached(n.Slow, total, c.SlowRate):
		return TriggerSlow, true
	}
	return 0, false
}

// tooManyFailures reports whether the rate of failures is reached. A closed phase
// that is younger than ConsecutiveSpan says too little of a service that serves
// some calls: retries that succeed must first pay for others. Until a call has
// succeeded, those that have not ended may, as failures are often quicker.
func (c *Config) tooManyFailures(in *Input) bool {
	n := &in.Calls
	total := n.Good + n.Bad
	if c.WindowCalls <= 0 && in.Age < c.ConsecutiveSpan {
		if n.Good > 0 {
			return false
		}
		total = max(total, n.Begun)
	}
	return reached(n.Bad, total, c.FailureRate)
}

func (m *machine) tooManyInARow(c *Config, age time.Duration) bool {
	f := &m.Failures
	switch {
	case c.ConsecutiveFailures < 0 || age-f.First < c.ConsecutiveSpan:
		return false
	case c.ConsecutiveFailures == 0:
		return ServesNone(f.InARow, f.Share)
	}
	return uint64(f.InARow) >= uint64(c.ConsecutiveFailures)
}

// onlyThrottled reports whether nothing succeeded for a whole window, and what
// failed in a row makes enough calls with the throttled ones.
func (m *machine) onlyThrottled(c *Config, in *Input) bool {
	f := &m.Failures
	switch {
	case f.Throttled == 0 || c.FailureRate < 0 || f.row() < uint64(c.MinCalls):
		return false
	case c.WindowCalls > 0:
		return f.row() >= uint64(c.WindowCalls)
	}
	return in.Calls.Good == 0 && in.Age >= c.Window
}

// reached compares by division. The quotient of two integers is the float64
// that is nearest to it, and so is a rate written as a decimal, while their
// product may be just beside.
func reached(n, total uint64, rate float64) bool {
	return rate >= 0 && float64(n)/float64(total) >= rate
}

// open begins an open phase that lasts at least as long as the service asks
// for. The count of openings starts again if the circuit was closed for a whole
// window.
func (m *machine) open(c *Config, in *Input, rest time.Duration, why Trigger) {
	if m.Kind == Closed && m.healthy(c, in) {
		m.Openings = 0
	}
	m.Openings = uint16(min(int(m.Openings)+1, MaxOpenings))
	m.effects.Draw, m.effects.Cause = true, max(in.Cause, in.Score)
	m.enter(Open, rest, why)
}

// healthy reports whether a closed phase has lasted for a whole window.
func (m *machine) healthy(c *Config, in *Input) bool {
	if c.WindowCalls > 0 {
		return in.Calls.Full || m.Failures.row() >= uint64(c.WindowCalls)
	}
	return in.Age >= c.Window
}

func (m *machine) trip(c *Config, in *Input) {
	why := TriggerRule
	switch {
	case in.Kind == Trip && m.counts():
		why = TriggerManual
	case !m.current(in.Permit.Generation):
		return
	}
	if m.Kind != Open {
		m.open(c, in, m.rest(in.Age), why)
	}
}

func (m *machine) reset() {
	if m.counts() {
		m.restart()
	}
}

func (m *machine) force(mode Mode) {
	if mode != m.Mode && mode < Invalid && m.Mode < Invalid {
		m.Mode = mode
		m.restart()
	}
}

// restart forgets everything.
func (m *machine) restart() {
	m.Openings = 0
	if m.Mode == ForcedOpen {
		m.enter(Open, Forever, TriggerManual)
	} else {
		m.enter(Closed, 0, TriggerManual)
	}
}

// advise does what the fleet says, unless a closed circuit knows better.
func (m *machine) advise(c *Config, in *Input) {
	switch {
	case !m.current(in.Permit.Generation) || m.Mode != Enforce || m.Kind == Open:
		return
	case in.Advice == Closed || in.Advice == m.Kind || in.Advice == Open && in.For <= 0:
		return
	case m.Kind == Closed && m.trustsItself(c, &in.Calls):
		return
	}
	m.Openings = uint16(max(int(m.Openings), min(in.Openings, MaxOpenings)))
	if in.Advice == Open {
		m.enter(Open, in.For, TriggerShared)
	} else {
		m.enter(HalfOpen, in.ProbeTimeout, TriggerShared)
	}
}

// trustsItself reports whether a closed circuit has seen enough calls to judge
// by, and the last of them succeeded.
func (m *machine) trustsItself(c *Config, n *Counts) bool {
	return m.Failures.InARow == 0 && n.Dated+n.Bad >= uint64(c.MinCalls)
}
