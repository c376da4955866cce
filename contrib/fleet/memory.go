package fleet

import (
	"context"
	"maps"
	"sync"
	"time"
)

// Memory is a [Store] for the tests of a program, and for breakers of one
// process that have the same name. The zero value is ready to use. It is safe
// for concurrent use. Its methods fail only with the error of a context that
// has ended. It forgets what has expired.
type Memory struct {
	mu       sync.Mutex
	circuits map[string]*circuitRecord
	accounts map[string]account
	sweepAt  int // number of keys at which the next sweep is due
}

// Load implements [Store].
func (m *Memory) Load(ctx context.Context, key string) (Circuit, error) {
	return m.circuit(ctx, key, "", func(*circuitRecord, time.Time) {})
}

// Trip implements [Store].
func (m *Memory) Trip(ctx context.Context, key string, t Trip) (Circuit, error) {
	return m.circuit(ctx, key, t.By, func(r *circuitRecord, now time.Time) { r.trip(t, now) })
}

// Lease implements [Store].
func (m *Memory) Lease(ctx context.Context, key, by string, d time.Duration) (Circuit, error) {
	return m.circuit(ctx, key, by, func(r *circuitRecord, now time.Time) { r.lease(by, d, now) })
}

// Reset implements [Store].
func (m *Memory) Reset(ctx context.Context, key, by string, generation uint64) (Circuit, error) {
	return m.circuit(ctx, key, by, func(r *circuitRecord, now time.Time) {
		if r.tripped && r.generation == generation && r.leasedTo(by, now) {
			*r = circuitRecord{generation: generation + 1, end: now}
		}
	})
}

// circuit changes a record, and returns what the process named by may know of
// it.
func (m *Memory) circuit(ctx context.Context, key, by string, change func(*circuitRecord, time.Time)) (Circuit, error) {
	if err := ctx.Err(); err != nil {
		return Circuit{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	r := m.circuits[key]
	if r == nil || r.expired(now) {
		r = new(circuitRecord)
	}
	change(r, now)
	if !r.expired(now) {
		m.sweep(now)
		m.circuits[key] = r
	}
	return r.view(now, by), nil
}

// circuitRecord is what the store knows of a circuit.
type circuitRecord struct {
	generation  uint64
	tripped     bool
	openUntil   time.Time
	openings    int
	holder      string // the process that holds the lease
	leasedUntil time.Time
	votes       map[string]time.Time // until when each voter's vote counts
	end         time.Time            // the last of all these times
}

// expired reports whether the record may be forgotten.
func (r *circuitRecord) expired(now time.Time) bool { return !now.Before(r.end.Add(Linger)) }

// extend keeps the record until the given time at least, and returns that time.
func (r *circuitRecord) extend(until time.Time) time.Time {
	if until.After(r.end) {
		r.end = until
	}
	return until
}

// leasedTo reports whether a process holds the lease.
func (r *circuitRecord) leasedTo(by string, now time.Time) bool {
	return r.holder == by && r.leasedUntil.After(now)
}

// trip counts a vote, and opens the circuit if there are enough of them.
func (r *circuitRecord) trip(t Trip, now time.Time) {
	if r.tripped && r.openUntil.After(now) || r.generation > t.Seen {
		return
	}
	if r.leasedTo(t.By, now) || r.vote(t, now) >= t.Quorum {
		*r = circuitRecord{generation: t.Seen + 1, tripped: true, openUntil: now.Add(t.Open), openings: t.Openings}
		r.extend(r.openUntil)
	}
}

// vote counts a vote, and returns how many votes there are.
func (r *circuitRecord) vote(t Trip, now time.Time) int {
	if r.votes == nil {
		r.votes = make(map[string]time.Time)
	}
	maps.DeleteFunc(r.votes, func(_ string, until time.Time) bool { return !until.After(now) })
	r.votes[t.Voter] = r.extend(now.Add(t.Open))
	return len(r.votes)
}

// lease grants the lease if it is free, and takes it back if d is not positive.
func (r *circuitRecord) lease(by string, d time.Duration, now time.Time) {
	switch {
	case !r.tripped || r.openUntil.After(now) || r.leasedUntil.After(now) && r.holder != by:
	case d > 0:
		r.holder, r.leasedUntil = by, r.extend(now.Add(d))
	default:
		r.holder, r.leasedUntil = "", time.Time{}
	}
}

// view returns what the process named by may know.
func (r *circuitRecord) view(now time.Time, by string) Circuit {
	c := Circuit{Generation: r.generation, Tripped: r.tripped}
	if r.tripped {
		c.Openings = r.openings
		c.Open = max(0, r.openUntil.Sub(now))
		c.Leased = max(0, r.leasedUntil.Sub(now))
		c.Mine = by != "" && r.leasedTo(by, now)
	}
	return c
}

// Take implements [Store].
func (m *Memory) Take(ctx context.Context, key string, c Claim) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	a := m.accounts[key]
	if a == nil {
		m.sweep(now)
		a = make(account)
		m.accounts[key] = a
	}
	n := min(c.Tokens, c.Allowance-a.outstanding(now))
	if b := a[c.Block]; b != nil {
		return b.tokens, nil
	}
	if n <= 0 {
		return 0, nil
	}
	a[c.Block] = &block{tokens: n, until: now.Add(c.Window)}
	return n, nil
}

// Give implements [Store].
func (m *Memory) Give(ctx context.Context, key, name string, n int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if b := m.accounts[key][name]; b != nil {
		b.tokens -= min(max(0, n), b.tokens)
	}
	return nil
}

// account holds the blocks of tokens that processes have taken, by their names.
type account map[string]*block

// block is a number of tokens that one process has taken.
type block struct {
	tokens int
	until  time.Time
}

// outstanding returns how many tokens processes hold. It forgets the blocks
// that have expired.
func (a account) outstanding(now time.Time) (n int) {
	maps.DeleteFunc(a, func(_ string, b *block) bool { return b.tokens <= 0 || !b.until.After(now) })
	for _, b := range a {
		n += b.tokens
	}
	return n
}

// sweep makes room for one more key. Whenever the number of keys has doubled,
// it drops the keys that have expired.
func (m *Memory) sweep(now time.Time) {
	if m.circuits == nil {
		m.circuits, m.accounts = make(map[string]*circuitRecord), make(map[string]account)
	}
	if len(m.circuits)+len(m.accounts) < max(64, m.sweepAt) {
		return
	}
	maps.DeleteFunc(m.circuits, func(_ string, r *circuitRecord) bool { return r.expired(now) })
	maps.DeleteFunc(m.accounts, func(_ string, a account) bool { return a.outstanding(now) == 0 })
	m.sweepAt = 2 * (len(m.circuits) + len(m.accounts))
}
