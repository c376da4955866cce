package idempotency

import (
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
// reaches either is carried out again. If that matters, use a database.
//
// A MemoryStore is bounded. If it is full, it removes the oldest records, but
// none younger than Keep, so that it does not forget what clients are still
// retrying. If that makes no room, it claims no further key and returns
// [ErrStoreFull], and [Middleware] answers 503. A response that finds no room
// is kept as Omitted.
//
// The zero value is ready to use. A MemoryStore must not be copied, and its
// fields must not be changed, after first use. It is safe for concurrent use
// and does not block. It starts no goroutine: Begin removes what has expired.
type MemoryStore struct {
	// TTL is how long a key is remembered after it was last claimed,
	// finished or released. Tell the clients: a retry must not come later.
	// 0 means 24 hours, a negative number no limit, as long as there is
	// room.
	TTL time.Duration
	// MaxRecords is the largest number of keys. 0 means 65536, a negative
	// number no limit.
	MaxRecords int
	// MaxBytes is the largest size of all responses, in bytes of header and
	// body. 0 means 64 MiB, a negative number no limit.
	MaxBytes int64
	// Keep is how long a record is kept even if the store is full. 0 means
	// 10 minutes, a negative number as long as TTL.
	Keep time.Duration

	mu    sync.Mutex
	keys  map[string]*memory
	order list.List // of *memory, the longest untouched first
	bytes int64     // of all records
}

// memory is what a MemoryStore knows of a key.
type memory struct {
	claim       Claim
	fingerprint string
	done        bool
	leaseEnd    time.Time
	touched     time.Time
	record      Record
	place       *list.Element
}

// idle reports whether no run is at work on the key.
func (m *memory) idle(now time.Time) bool { return m.done || !now.Before(m.leaseEnd) }

// Begin implements [Store].
func (s *MemoryStore) Begin(_ context.Context, key, fingerprint string, lease time.Duration) (Entry, error) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(now)
	m := s.keys[key]
	switch {
	case m == nil:
		if !s.makeRoom(now) {
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
	s.bytes -= m.record.size()
	if !s.makeRoomFor(r.size(), now) {
		r = r.omit()
	}
	s.bytes += r.size()
	m.record, m.done = r, true
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
		s.keys = make(map[string]*memory)
	}
	m := &memory{claim: Claim{Key: key}, fingerprint: fingerprint}
	m.place = s.order.PushBack(m)
	s.keys[key] = m
	return m
}

// touch makes a key the youngest.
func (s *MemoryStore) touch(m *memory, now time.Time) {
	m.touched = now
	s.order.MoveToBack(m.place)
}

// remove forgets a key.
func (s *MemoryStore) remove(m *memory) {
	s.bytes -= m.record.size()
	s.order.Remove(m.place)
	delete(s.keys, m.claim.Key)
}

// expire removes the keys that are older than TTL, except those in flight.
func (s *MemoryStore) expire(now time.Time) {
	s.removeIdle(now, limits.Or(s.TTL, defaultTTL), func() bool { return false })
}

// makeRoom makes room for one more key. It reports whether there is room.
func (s *MemoryStore) makeRoom(now time.Time) bool {
	maxRecords := limits.Or(s.MaxRecords, defaultMaxRecords)
	return maxRecords < 0 || s.evict(now, func() bool { return len(s.keys) < maxRecords })
}

// makeRoomFor makes room for n more bytes. It reports whether there is room.
func (s *MemoryStore) makeRoomFor(n int64, now time.Time) bool {
	maxBytes := limits.Or(s.MaxBytes, defaultMaxBytes)
	if maxBytes >= 0 && n > maxBytes {
		return false
	}
	return maxBytes < 0 || s.evict(now, func() bool { return s.bytes+n <= maxBytes })
}

// evict removes keys until enough reports true, and none younger than Keep. It
// reports whether enough are removed.
func (s *MemoryStore) evict(now time.Time, enough func() bool) bool {
	if !enough() {
		s.removeIdle(now, limits.Or(s.Keep, defaultKeep), enough)
	}
	return enough()
}

// removeIdle removes keys that were not touched for age and are not in flight,
// the oldest first, until enough reports true. A negative age removes none.
func (s *MemoryStore) removeIdle(now time.Time, age time.Duration, enough func() bool) {
	if age < 0 {
		return
	}
	for e := s.order.Front(); e != nil && !enough(); {
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
