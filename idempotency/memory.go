package idempotency

import (
	"container/heap"
	"container/list"
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/gobackoff/backoff/internal/limits"
)

const (
	defaultTTL        = 24 * time.Hour
	defaultMaxRecords = 65536
	defaultMaxBytes   = 64 << 20
	defaultKeep       = 10 * time.Minute
)

// MemoryStore is a [Store] in the memory of one process. It forgets everything
// when the process restarts, and two processes share nothing: a retry that
// reaches either is executed again. If that matters, use a database.
//
// A MemoryStore is bounded. If it is full, it forgets refusals first, which
// are responses with a status of 400 to 499: to execute such a request again
// does no harm. Then it forgets the oldest records, those of the caller with
// the most keys before those of others, but none younger than Keep, so that it
// does not forget what clients are still retrying, and none of others for a
// caller that has an equal share of the store already.
//
// If that makes no room, a caller takes it from the caller with the most, down
// to equal shares: the oldest key that is not in flight is forgotten, or the
// oldest response becomes Omitted, and at last loses its Location. So a caller
// that floods the store harms itself, and not others. The caller with the most
// gets [ErrStoreFull] for a further key, and [Middleware] responds with 503; a
// further response of its own is kept as Omitted. The first 32 digits of a key
// stand for its caller.
//
// So a store takes MaxRecords keys in the time of Keep, and MaxBytes of responses:
// by default 65536 in 10 minutes, which are 109 new keys a second, and 64 MiB,
// which are 112 kB a second, or 1 KiB for each of these keys. Shorter bursts pass
// until the store is full: 1,000 keys a second for 65 s. Beyond that new keys get
// 503, with the Retry-After of Options. For a busier service set MaxRecords and
// MaxBytes to what it does in 10 minutes, or Keep to the time for which its
// clients retry.
//
// The zero value is ready to use. A MemoryStore must not be copied, and its
// fields must not be changed, after first use. It is safe for concurrent use
// and does not block. It starts no goroutine: Begin removes what has expired.
type MemoryStore struct {
	// TTL is how long a key is remembered after it was last claimed, finished
	// or released. Tell the clients: a retry must not arrive later. 0 means 24
	// hours, a negative number no limit, as long as there is room.
	TTL time.Duration
	// MaxRecords is the largest number of keys. 0 means 65536, a negative
	// number no limit.
	MaxRecords int
	// MaxBytes is the largest size of all responses, in bytes of header and
	// body. 0 means 64 MiB, a negative number no limit.
	MaxBytes int64
	// Keep is how long a record is kept even if the store is full, unless
	// another caller has less. Refusals are kept for no longer than Keep. 0
	// means 10 minutes, a negative number as long as TTL.
	Keep time.Duration

	mu       sync.Mutex
	keys     map[string]*memory
	shares   map[string]*share // by caller
	ranks    [2]ranking        // byKeys and byBytes
	order    list.List         // of *memory, the longest untouched first
	refusals list.List         // those that are refusals, which are not in order
	bytes    int64             // of all records
}

// memory is what a MemoryStore knows of a key.
type memory struct {
	claim       Claim
	fingerprint string
	done        bool
	leaseEnd    time.Time
	touched     time.Time
	record      Record

	owner *share
	line  *list.List    // order or refusals
	place *list.Element // in line
	own   *list.Element // in owner.keys
	body  *list.Element // in owner.bodies, or nil
}

// idle reports whether no run is at work on the key.
func (m *memory) idle(now time.Time) bool { return m.done || !now.Before(m.leaseEnd) }

// refused reports whether the record is a refusal.
func (m *memory) refused() bool { return m.done && m.record.Status >= 400 && m.record.Status < 500 }

// Begin implements [Store].
func (s *MemoryStore) Begin(_ context.Context, key, fingerprint string, lease time.Duration) (Entry, error) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(now)
	m := s.keys[key]
	switch {
	case m == nil:
		if !s.makeRoom(s.shares[callerOf(key)], now) {
			return Entry{}, ErrStoreFull
		}
		m = s.insert(key, fingerprint)
	case m.fingerprint != fingerprint:
		return Entry{State: EntryMismatch}, nil
	case m.done:
		return Entry{State: EntryDone, Record: m.record}, nil
	case !m.idle(now):
		return Entry{State: EntryInFlight, Left: m.leaseEnd.Sub(now)}, nil
	}
	m.claim.Run++
	m.claim.Token = rand.Text()
	m.leaseEnd = now.Add(lease)
	s.touch(m, now)
	return Entry{State: EntryClaimed, Claim: m.claim}, nil
}

// Finish implements [Store].
func (s *MemoryStore) Finish(_ context.Context, c Claim, r Record) error {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.keys[c.Key]
	if m == nil || m.claim != c {
		return ErrLeaseLost
	}
	s.setRecord(m, Record{})
	s.touch(m, now) // or m, whose lease may have ended, could make room for itself
	for r.size() > 0 && !s.makeRoomFor(r.size(), m.owner, now) {
		r = r.less()
	}
	m.done = true
	s.setRecord(m, r)
	s.touch(m, now)
	return nil
}

// Release implements [Store].
func (s *MemoryStore) Release(_ context.Context, c Claim) error {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.keys[c.Key]; m != nil && m.claim == c && !m.done {
		m.leaseEnd = now
		s.touch(m, now)
	}
	return nil
}

// Len returns the number of keys in the store, including those that have
// expired and were not removed yet.
func (s *MemoryStore) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.keys)
}

// insert adds a key. The caller claims it.
func (s *MemoryStore) insert(key, fingerprint string) *memory {
	if s.keys == nil {
		s.keys, s.shares = make(map[string]*memory), make(map[string]*share)
		s.ranks[byBytes].measure = byBytes
	}
	owner := s.shares[callerOf(key)]
	if owner == nil {
		owner = &share{caller: callerOf(key)}
		s.shares[owner.caller] = owner
		for i := range s.ranks {
			heap.Push(&s.ranks[i], owner)
		}
	}
	m := &memory{claim: Claim{Key: key}, fingerprint: fingerprint, owner: owner, line: &s.order}
	m.place = s.order.PushBack(m)
	m.own = owner.keys.PushBack(m)
	s.keys[key] = m
	s.ranks[byKeys].update(owner)
	return m
}

// touch makes a key the youngest.
func (s *MemoryStore) touch(m *memory, now time.Time) {
	m.touched = now
	m.line.Remove(m.place)
	m.line = &s.order
	if m.refused() {
		m.line = &s.refusals
	}
	m.place = m.line.PushBack(m)
	m.owner.keys.MoveToBack(m.own)
}

// setRecord replaces the record of a key.
func (s *MemoryStore) setRecord(m *memory, r Record) {
	change := r.size() - m.record.size()
	s.bytes += change
	m.owner.bytes += change
	s.ranks[byBytes].update(m.owner)
	m.record = r
	if m.body != nil {
		m.owner.bodies.Remove(m.body)
		m.body = nil
	}
	if r.size() > 0 {
		m.body = m.owner.bodies.PushBack(m)
	}
}

// remove forgets a key.
func (s *MemoryStore) remove(m *memory) {
	s.setRecord(m, Record{})
	m.line.Remove(m.place)
	m.owner.keys.Remove(m.own)
	s.ranks[byKeys].update(m.owner)
	delete(s.keys, m.claim.Key)
	if m.owner.keys.Len() == 0 {
		delete(s.shares, m.owner.caller)
		for i := range s.ranks {
			heap.Remove(&s.ranks[i], m.owner.places[i])
		}
	}
}

// expire removes the keys that are older than TTL, and the refusals that are
// older than Keep, except those in flight.
func (s *MemoryStore) expire(now time.Time) {
	never := func() bool { return false }
	ttl, keep := limits.Or(s.TTL, defaultTTL), limits.Or(s.Keep, defaultKeep)
	s.removeIdle(&s.order, now, ttl, never)
	if keep < 0 || ttl >= 0 && ttl < keep {
		keep = ttl
	}
	s.removeIdle(&s.refusals, now, keep, never)
}

// makeRoom makes room for one more key of a share, which is nil if it has none
// yet. It reports whether there is room.
func (s *MemoryStore) makeRoom(own *share, now time.Time) bool {
	most := limits.Or(s.MaxRecords, defaultMaxRecords)
	enough := func() bool { return most < 0 || len(s.keys) < most }
	s.removeIdle(&s.refusals, now, 0, enough)
	s.evict(byKeys, own, int64(most), now, enough)
	for !enough() {
		largest := s.ranks[byKeys].largest()
		before := len(s.keys)
		if own.size(byKeys)+1 < largest.size(byKeys) {
			s.removeIdle(&largest.keys, now, 0, func() bool { return len(s.keys) < before })
		}
		if len(s.keys) == before {
			return false
		}
	}
	return true
}

// makeRoomFor makes room for n more bytes of a share. It reports whether there
// is room.
func (s *MemoryStore) makeRoomFor(n int64, own *share, now time.Time) bool {
	most := limits.Or(s.MaxBytes, defaultMaxBytes)
	enough := func() bool { return most < 0 || s.bytes+n <= most }
	if most >= 0 && n > most {
		return false
	}
	s.evict(byBytes, own, most, now, enough)
	for !enough() {
		largest := s.ranks[byBytes].largest()
		if own.bytes+n >= largest.bytes || largest.bodies.Len() == 0 {
			return false
		}
		victim := largest.bodies.Front().Value.(*memory)
		s.setRecord(victim, victim.record.less())
	}
	return true
}

// evict removes keys until enough reports true, and none younger than Keep: the
// oldest ones of the largest share, and then the oldest ones of all, unless own
// has an equal share of most already.
func (s *MemoryStore) evict(measure int, own *share, most int64, now time.Time, enough func() bool) {
	if enough() {
		return
	}
	keep := limits.Or(s.Keep, defaultKeep)
	s.removeIdle(&s.ranks[measure].largest().keys, now, keep, enough)
	if !enough() && own.size(measure) < most/int64(len(s.shares)) {
		s.removeIdle(&s.order, now, keep, enough)
	}
}

// removeIdle removes keys in line that were not touched for age and are not in
// flight, the oldest first, until enough reports true. A negative age removes
// none.
func (s *MemoryStore) removeIdle(line *list.List, now time.Time, age time.Duration, enough func() bool) {
	if age < 0 {
		return
	}
	for e := line.Front(); e != nil && !enough(); {
		m := e.Value.(*memory)
		e = e.Next()
		if now.Sub(m.touched) < age {
			return
		}
		if m.idle(now) {
			s.remove(m)
		}
	}
}

// callerDigits is how many digits of a key stand for its caller.
const callerDigits = 32

// storeKey returns the key of a caller in the store.
func storeKey(caller, key string) string {
	return digest(caller)[:callerDigits] + digest(caller, key)[:digestLength-callerDigits]
}

// callerOf returns the part of a key that stands for its caller. Keys of
// another form have one caller.
func callerOf(key string) string {
	if len(key) != digestLength {
		return ""
	}
	return key[:callerDigits]
}

// A share is what a caller has in a MemoryStore.
type share struct {
	caller string
	keys   list.List // of *memory, the longest untouched first
	bodies list.List // of *memory, those whose record takes bytes
	bytes  int64     // of all records
	places [2]int    // in the rankings by keys and by bytes
}

// The measures by which shares are ranked.
const (
	byKeys = iota
	byBytes
)

// size returns how large a share is by a measure. nil has nothing.
func (s *share) size(measure int) int64 {
	switch {
	case s == nil:
		return 0
	case measure == byBytes:
		return s.bytes
	}
	return int64(s.keys.Len())
}

// A ranking is a heap of shares, with the largest at the top.
type ranking struct {
	shares  []*share
	measure int
}

// largest returns the largest share of a store that has any.
func (r *ranking) largest() *share { return r.shares[0] }

// update restores the order after the size of a share has changed.
func (r *ranking) update(s *share) { heap.Fix(r, s.places[r.measure]) }

// Len implements [heap.Interface].
func (r *ranking) Len() int { return len(r.shares) }

// Less implements [heap.Interface].
func (r *ranking) Less(i, j int) bool {
	return r.shares[i].size(r.measure) > r.shares[j].size(r.measure)
}

// Swap implements [heap.Interface].
func (r *ranking) Swap(i, j int) {
	r.shares[i], r.shares[j] = r.shares[j], r.shares[i]
	r.shares[i].places[r.measure], r.shares[j].places[r.measure] = i, j
}

// Push implements [heap.Interface].
func (r *ranking) Push(x any) {
	s := x.(*share)
	s.places[r.measure] = len(r.shares)
	r.shares = append(r.shares, s)
}

// Pop implements [heap.Interface].
func (r *ranking) Pop() any {
	last := len(r.shares) - 1
	s := r.shares[last]
	r.shares[last] = nil
	r.shares = r.shares[:last]
	return s
}
