package backoffhttp

import (
	"container/list"
	"context"
	"crypto/rand"
	"sync"
	"time"
)

const (
	defaultTTL        = 24 * time.Hour
	defaultMaxRecords = 65536
	defaultMaxBytes   = 64 << 20
	defaultKeep       = 10 * time.Minute
)

// MemoryStore is a [Store] in the memory of one process. A restart forgets everything, and
// a second process knows nothing of the first: a retry that reaches either is carried out
// again. Where that matters, use a database.
//
// It is bounded. Where it is full, the oldest records go first, but none younger than Keep:
// rather than forget what clients are still retrying, it claims no further keys, with
// [ErrStoreFull], to which [Dedup] answers 503. A response that finds no room is kept as
// Omitted.
//
// The zero value is ready to use. A MemoryStore must not be copied, nor its fields changed,
// after first use. It is safe for concurrent use and does not block. It has no goroutine:
// what has expired is removed by the calls of Begin that follow.
type MemoryStore struct {
	// TTL is how long a key is remembered after it was last claimed, finished or released.
	// 0 means 24 hours, a negative number for ever, as far as there is room. Tell the
	// clients, whose retries must not come later.
	TTL time.Duration
	// MaxRecords bounds the keys. 0 means 65536, a negative number no limit.
	MaxRecords int
	// MaxBytes bounds the responses, in bytes of header and body. 0 means 64 MiB, a
	// negative number no limit.
	MaxBytes int64
	// Keep is how long a record is kept at the least, however little room there is. 0 means
	// 10 minutes; a negative number means as long as TTL.
	Keep time.Duration

	mu    sync.Mutex
	keys  map[string]*memory
	order list.List // of *memory, by the time they were touched
	bytes int64     // of all records
}

// memory is what is known of a key.
type memory struct {
	claim       Claim
	fingerprint string
	done        bool
	lease       time.Time // end of
	touched     time.Time
	record      Record
	place       *list.Element
}

// idle reports whether nobody works on the key.
func (m *memory) idle(now time.Time) bool { return m.done || !now.Before(m.lease) }

// Begin implements [Store].
func (s *MemoryStore) Begin(_ context.Context, key, fingerprint string, lease time.Duration) (Entry, error) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(now)
	m := s.keys[key]
	switch {
	case m == nil:
		if !s.room(now) {
			return Entry{}, ErrStoreFull
		}
		m = s.insert(key, fingerprint)
	case m.fingerprint != fingerprint:
		return Entry{State: EntryMismatch}, nil
	case m.done:
		return Entry{State: EntryDone, Record: m.record}, nil
	case !m.idle(now):
		return Entry{State: EntryInFlight, Left: m.lease.Sub(now)}, nil
	}
	m.claim.Run++
	m.claim.Token = rand.Text()
	m.lease = now.Add(lease)
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
	if !s.fits(r.size(), now) {
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
		m.lease = now
		s.touch(m, now)
	}
	return nil
}

// Len returns how many keys are remembered, expired ones included that were not removed
// yet.
func (s *MemoryStore) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.keys)
}

func (s *MemoryStore) insert(key, fingerprint string) *memory {
	if s.keys == nil {
		s.keys = make(map[string]*memory)
	}
	m := &memory{claim: Claim{Key: key}, fingerprint: fingerprint}
	m.place = s.order.PushBack(m)
	s.keys[key] = m
	return m
}

func (s *MemoryStore) touch(m *memory, now time.Time) {
	m.touched = now
	s.order.MoveToBack(m.place)
}

func (s *MemoryStore) remove(m *memory) {
	s.bytes -= m.record.size()
	s.order.Remove(m.place)
	delete(s.keys, m.claim.Key)
}

// expire removes what is older than TTL, but for claims whose lease has not ended.
func (s *MemoryStore) expire(now time.Time) {
	ttl := or(s.TTL, defaultTTL)
	if ttl < 0 {
		return
	}
	s.oldest(now, ttl, func(m *memory) bool {
		if m.idle(now) {
			s.remove(m)
		}
		return true
	})
}

// room makes room for one more key, if it can.
func (s *MemoryStore) room(now time.Time) bool {
	most := or(s.MaxRecords, defaultMaxRecords)
	if most < 0 || len(s.keys) < most {
		return true
	}
	s.evict(now, func() bool { return len(s.keys) < most })
	return len(s.keys) < most
}

// fits makes room for n more bytes, if it can.
func (s *MemoryStore) fits(n int64, now time.Time) bool {
	most := or(s.MaxBytes, defaultMaxBytes)
	if most < 0 || s.bytes+n <= most {
		return true
	}
	if n > most {
		return false
	}
	s.evict(now, func() bool { return s.bytes+n <= most })
	return s.bytes+n <= most
}

// evict removes keys that are not in flight, the oldest first, none younger than Keep,
// until there are few enough.
func (s *MemoryStore) evict(now time.Time, enough func() bool) {
	keep := or(s.Keep, defaultKeep)
	if keep < 0 {
		return
	}
	s.oldest(now, keep, func(m *memory) bool {
		if m.idle(now) {
			s.remove(m)
		}
		return !enough()
	})
}

// oldest calls each for what was not touched for the given time, until it returns false.
func (s *MemoryStore) oldest(now time.Time, age time.Duration, each func(*memory) bool) {
	for e := s.order.Front(); e != nil; {
		m := e.Value.(*memory)
		e = e.Next()
		if now.Sub(m.touched) < age || !each(m) {
			return
		}
	}
}

// or returns n, or its default where n is 0.
func or[N int | int64 | time.Duration](n, otherwise N) N {
	if n == 0 {
		return otherwise
	}
	return n
}
