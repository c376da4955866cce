// Package model is a circuit breaker as one would write it without a thought of
// speed: a list of what happened, and a look at the clock for everything. It
// stands for the documentation. Tests run it beside package circuit and beside
// backoff.Breaker, which must do exactly the same; nothing else imports it.
package model

import (
	"slices"
	"time"

	"github.com/gobackoff/backoff/internal/circuit"
)

// A Circuit is the model. Call Enter once before anything else.
type Circuit struct {
	circuit.Config               // all set, none of them to its negative value
	SlowCall       time.Duration // 0: no call is slow
	ProbeTimeout   time.Duration
	OpenFor        func(openings int) time.Duration // without jitter

	Phases   int // entered so far
	Openings int // in a row

	kind   circuit.Kind
	since  time.Time
	span   time.Duration // of the open phase
	calls  []call        // closed: all of them
	begun  int           // closed: calls that were admitted
	inARow []time.Time   // closed: the last failures
	row    []call        // closed: what failed or was throttled since the last success
	leases map[*Permit]bool
	passed int // probes that succeeded
}

// call is a call that ended.
type call struct {
	at                   time.Time
	bad, slow, throttled bool
}

// A Permit is for a call that was admitted.
type Permit struct {
	phase    int
	at, ends time.Time
}

// Enter begins a phase.
func (m *Circuit) Enter(k circuit.Kind) {
	m.kind, m.since = k, time.Now()
	m.Phases++
	m.calls, m.begun, m.inARow, m.row, m.passed, m.leases = nil, 0, nil, nil, 0, map[*Permit]bool{}
}

func (m *Circuit) elapsed() time.Duration { return time.Since(m.since) }

func (m *Circuit) open() {
	if m.kind == circuit.Closed {
		if m.WindowCalls > 0 && max(len(m.calls), len(m.row)) >= m.WindowCalls || m.WindowCalls == 0 && m.elapsed() >= m.Window {
			m.Openings = 0
		}
	}
	m.Openings++
	m.span = m.OpenFor(m.Openings)
	m.Enter(circuit.Open)
}

func (m *Circuit) expire() {
	if m.Kind() == circuit.HalfOpen && m.kind == circuit.Open {
		m.Enter(circuit.HalfOpen)
	}
}

// Kind returns the state at this moment.
func (m *Circuit) Kind() circuit.Kind {
	if m.kind == circuit.Open && m.elapsed() >= m.span {
		return circuit.HalfOpen
	}
	return m.kind
}

// Allow returns a permit for a call, or nil.
func (m *Circuit) Allow() *Permit {
	m.expire()
	now := time.Now()
	p := &Permit{phase: m.Phases, at: now, ends: now.Add(max(m.ProbeTimeout, m.span))}
	switch m.kind {
	case circuit.Closed:
		m.begun++
	case circuit.Open:
		return nil
	case circuit.HalfOpen:
		if m.probing() >= m.MaxProbes {
			return nil
		}
		m.leases[p] = true
	}
	return p
}

// probing returns how many probes are under way.
func (m *Circuit) probing() (n int) {
	for p := range m.leases {
		if time.Now().Before(p.ends) {
			n++
		}
	}
	return n
}

// Done takes in how a call ended.
func (m *Circuit) Done(p *Permit, s circuit.Score) {
	now := time.Now()
	slow := s != circuit.None && m.SlowCall > 0 && now.Sub(p.at) >= m.SlowCall
	switch {
	case p.phase != m.Phases:
	case m.kind == circuit.HalfOpen:
		if m.leases[p] && now.Before(p.ends) {
			delete(m.leases, p)
			m.probed(s, slow)
		}
	case s != circuit.None:
		m.count(s, slow)
	}
}

func (m *Circuit) probed(s circuit.Score, slow bool) {
	switch {
	case s == circuit.None:
	case s != circuit.Good || slow:
		m.open()
	default:
		if m.passed++; m.passed == m.ProbeSuccesses {
			m.Enter(circuit.Closed)
		}
	}
}

func (m *Circuit) count(s circuit.Score, slow bool) {
	now := time.Now()
	c := call{at: now, bad: s != circuit.Good, slow: slow, throttled: s == circuit.Throttled}
	if !c.throttled {
		m.calls = append(m.calls, c)
	}
	if m.row = append(m.row, c); !c.bad {
		m.row = nil
	}
	if m.throttledOnly() {
		m.open()
		return
	}
	switch s {
	case circuit.Throttled:
		return
	case circuit.Good:
		m.inARow = nil
		if !slow {
			return
		}
	case circuit.Unsent, circuit.Bad:
		m.inARow = append(m.inARow, now)
		if len(m.inARow) >= m.ConsecutiveFailures && now.Sub(m.inARow[0]) >= m.ConsecutiveSpan {
			m.open()
			return
		}
	}
	total, bad, slowly := m.counts()
	share := func(n int) float64 { return float64(n) / float64(total) }
	least := m.MinCalls
	if m.WindowCalls > 0 {
		least = min(least, m.WindowCalls)
	}
	failed := share(bad) >= m.FailureRate
	if m.WindowCalls <= 0 && m.elapsed() < m.ConsecutiveSpan {
		pending := m.Openings == 0 && float64(bad)/float64(m.begun) < m.FailureRate
		failed = failed && bad == total && !pending
	}
	if total >= least && (failed || m.SlowCall > 0 && share(slowly) >= m.SlowRate) {
		m.open()
	}
}

// throttledOnly reports whether the calls since the last success open the
// circuit, as some of them were throttled and they fill a whole window.
func (m *Circuit) throttledOnly() bool {
	isThrottled := func(c call) bool { return c.throttled }
	total, bad, _ := m.counts()
	switch {
	case !slices.ContainsFunc(m.row, isThrottled):
		return false
	case m.WindowCalls > 0:
		return len(m.row) >= m.WindowCalls
	}
	return len(m.row) >= m.MinCalls && total == bad && m.elapsed() >= m.Window
}

// counts returns what the window holds: the last calls, or those of the current
// tenth of the time and the nine before it.
func (m *Circuit) counts() (total, bad, slow int) {
	calls := m.calls
	if m.WindowCalls > 0 {
		calls = calls[max(0, len(calls)-m.WindowCalls):]
	} else {
		tenth := func(t time.Time) int64 { return int64(t.Sub(m.since) / (m.Window / 10)) }
		calls = slices.DeleteFunc(slices.Clone(calls), func(c call) bool { return tenth(c.at) <= tenth(time.Now())-10 })
	}
	for _, c := range calls {
		if total++; c.bad {
			bad++
		}
		if c.slow {
			slow++
		}
	}
	return total, bad, slow
}

// Reset closes the circuit and forgets all.
func (m *Circuit) Reset() {
	m.Openings = 0
	m.Enter(circuit.Closed)
}

// Trip opens the circuit.
func (m *Circuit) Trip() {
	m.expire()
	if m.kind != circuit.Open {
		m.open()
	}
}
