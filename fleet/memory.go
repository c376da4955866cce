package fleet

import (
	"context"
	"sync"
	"time"
)

// Memory is a [Store] for the tests of a program, and for the breakers of one process
// that have the same name. The zero value is ready to use. It is safe for concurrent use,
// never fails but with the error of a context that has ended, and forgets what its time is
// over for.
type Memory struct {
	mu       sync.Mutex
	circuits map[string]*circuitRecord
	accounts map[string]*account
	sweepAt  int // number of keys
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

// circuit changes a record, and returns what one of the processes may know of it.
func (m *Memory) circuit(ctx context.Context, key, by string, change func(*circuitRecord, time.Time)) (Circuit, error) {
	if err := ctx.Err(); err != nil {
		return Circuit{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	r := m.circuits[key]
	if r == nil || r.over(now) {
		r = new(circuitRecord)
	}
	change(r, now)
	if !r.over(now) {
		m.keep(now)
		m.circuits[key] = r
	}
	return r.at(now, by), nil
}

// circuitRecord is what is known of a circuit.
type circuitRecord struct {
	generation uint64
	tripped    bool
	opened     time.Time // until when
	openings   int
	holder     string
	leased     time.Time            // until when
	votes      map[string]time.Time // until when, by voter
	end        time.Time            // of the last of all times
}

func (r *circuitRecord) over(now time.Time) bool { return !now.Before(r.end.Add(Linger)) }

func (r *circuitRecord) last(until time.Time) time.Time {
	if until.After(r.end) {
		r.end = until
	}
	return until
}

func (r *circuitRecord) leasedTo(by string, now time.Time) bool {
	return r.holder == by && r.leased.After(now)
}

func (r *circuitRecord) trip(t Trip, now time.Time) {
	if r.tripped && r.opened.After(now) || r.generation > t.Seen {
		return
	}
	if r.leasedTo(t.By, now) || r.vote(t, now) >= t.Quorum {
		*r = circuitRecord{generation: t.Seen + 1, tripped: true, opened: now.Add(t.Open), openings: t.Openings}
		r.last(r.opened)
	}
}

// vote counts a vote, and returns how many there are.
func (r *circuitRecord) vote(t Trip, now time.Time) int {
	if r.votes == nil {
		r.votes = make(map[string]time.Time)
	}
	for by, until := range r.votes {
		if !until.After(now) {
			delete(r.votes, by)
		}
	}
	r.votes[t.Voter] = r.last(now.Add(t.Open))
	return len(r.votes)
}

func (r *circuitRecord) lease(by string, d time.Duration, now time.Time) {
	switch {
	case !r.tripped || r.opened.After(now) || r.leased.After(now) && r.holder != by:
	case d > 0:
		r.holder, r.leased = by, r.last(now.Add(d))
	default:
		r.holder, r.leased = "", time.Time{}
	}
}

// at says what one of the processes may know.
func (r *circuitRecord) at(now time.Time, by string) Circuit {
	c := Circuit{Generation: r.generation, Tripped: r.tripped}
	if r.tripped {
		c.Openings = r.openings
		c.Open = max(0, r.opened.Sub(now))
		c.Leased = max(0, r.leased.Sub(now))
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
		m.keep(now)
		a = new(account)
		m.accounts[key] = a
	}
	n := min(c.Tokens, c.Allowance-a.out(now))
	if b := a.find(c.Block); b != nil {
		return b.tokens, nil
	}
	if n <= 0 {
		return 0, nil
	}
	a.blocks = append(a.blocks, block{name: c.Block, tokens: n, until: now.Add(c.Window)})
	return n, nil
}

// Give implements [Store].
func (m *Memory) Give(ctx context.Context, key, name string, n int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if a := m.accounts[key]; a != nil {
		if b := a.find(name); b != nil {
			b.tokens -= min(max(0, n), b.tokens)
		}
	}
	return nil
}

// account is the blocks of tokens that are out.
type account struct{ blocks []block }

type block struct {
	name   string
	tokens int
	until  time.Time
}

func (a *account) find(name string) *block {
	for i := range a.blocks {
		if a.blocks[i].name == name {
			return &a.blocks[i]
		}
	}
	return nil
}

// out returns how many tokens are out, and forgets the blocks of which the time is over.
func (a *account) out(now time.Time) (n int) {
	kept := a.blocks[:0]
	for _, b := range a.blocks {
		if b.tokens > 0 && b.until.After(now) {
			kept = append(kept, b)
			n += b.tokens
		}
	}
	clear(a.blocks[len(kept):])
	a.blocks = kept
	return n
}

// keep makes room for one more key. Whenever their number has doubled, it drops those
// of which nothing is to be known any more.
func (m *Memory) keep(now time.Time) {
	if m.circuits == nil {
		m.circuits, m.accounts = make(map[string]*circuitRecord), make(map[string]*account)
	}
	if len(m.circuits)+len(m.accounts) < max(64, m.sweepAt) {
		return
	}
	for key, r := range m.circuits {
		if r.over(now) {
			delete(m.circuits, key)
		}
	}
	for key, a := range m.accounts {
		if a.out(now) == 0 {
			delete(m.accounts, key)
		}
	}
	m.sweepAt = 2 * (len(m.circuits) + len(m.accounts))
}
