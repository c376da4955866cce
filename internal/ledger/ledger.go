// Package ledger keeps the accounts of budgets that behave as those of other systems.
package ledger

import (
	"sync"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/clock"
	sliding "github.com/gobackoff/backoff/internal/window"
)

// A Ledger keeps a note on each attempt that is under way: what it cost, or
// where it was counted. So each attempt is accounted for once, however often
// Done is called. The lock of its owner guards it.
//
// If Done were never called, a budget could fill up with attempts that never
// end. So the Ledger forgets all but the last 65,536 attempts at least.
type Ledger struct {
	last       uint64            // number of the last ticket
	young, old map[uint64]uint64 // notes by ticket; old are those before the last maxYoung
}

// maxYoung is how many attempts young holds before it becomes old.
const maxYoung = 1 << 16

// Add enters an attempt, and returns its ticket.
func (l *Ledger) Add(note uint64) backoff.Ticket {
	if l.young == nil || len(l.young) >= maxYoung {
		l.old, l.young = l.young, make(map[uint64]uint64)
	}
	l.last++
	l.young[l.last] = note
	return backoff.Ticket{Word: l.last}
}

// Find returns the note of an attempt; false if the attempt is not in the
// ledger.
func (l *Ledger) Find(t backoff.Ticket) (note uint64, ok bool) {
	if note, ok = l.young[t.Word]; ok {
		return note, true
	}
	note, ok = l.old[t.Word]
	return note, ok
}

// Remove removes an attempt, and returns its note; false if the attempt is not
// in the ledger.
func (l *Ledger) Remove(t backoff.Ticket) (note uint64, ok bool) {
	note, ok = l.Find(t)
	delete(l.young, t.Word)
	delete(l.old, t.Word)
	return note, ok
}

// A Share counts requests and retries in one sliding window, and retries
// in another. It is safe for concurrent use.
type Share struct {
	mu     sync.Mutex
	ledger Ledger
	ring   sliding.Ring // Other: first attempts; Bad: retries
	short  sliding.Ring // Bad: retries
}

// Reserve counts an attempt. It refuses a retry unless allow says so.
func (s *Share) Reserve(a backoff.Attempt, long, short time.Duration, allow func(requests, retries, recent uint64) bool) (backoff.Ticket, time.Duration, bool) {
	now := a.Time()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ring.Advance(now, long, 0)
	s.short.Advance(now, short, 0)
	if a.First() {
		s.ring.Add(sliding.Other, 1)
		return s.ledger.Add(s.note(0)), 0, true
	}
	if !allow(s.ring.Least(sliding.Other), s.ring.Most(sliding.Bad), s.short.Most(sliding.Bad)) {
		return backoff.Ticket{}, 0, false
	}
	s.ring.Add(sliding.Bad, 1)
	s.short.Add(sliding.Bad, 1)
	return s.ledger.Add(s.note(1)), 0, true
}

// note returns the note of an attempt: the lower 31 bits of the numbers of its
// buckets, and whether it was a retry.
func (s *Share) note(retry uint64) uint64 {
	const lower = 1<<31 - 1
	return uint64(s.ring.Bucket())&lower<<32 | uint64(s.short.Bucket())&lower<<1 | retry
}

// Done ends an attempt. One that was not sent is not counted.
func (s *Share) Done(t backoff.Ticket, r backoff.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	note, ok := s.ledger.Remove(t)
	if !ok || r.Outcome != backoff.OutcomeNotSent {
		return
	}
	kind := sliding.Other
	if note&1 == 1 {
		kind = sliding.Bad
		s.short.Remove(kind, 1, bucketNumber(note>>1, s.short.Bucket()))
	}
	s.ring.Remove(kind, 1, bucketNumber(note>>32, s.ring.Bucket()))
}

// bucketNumber returns the highest number up to now whose lower 31 bits are
// those of note.
func bucketNumber(note uint64, now int64) int64 {
	const lower = 1<<31 - 1
	return now - int64((uint64(now)-note)&lower)
}

// Stats returns the requests and retries in the long window at this moment.
func (s *Share) Stats(long time.Duration) (requests, retries uint64) {
	now := clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ring.Advance(now, long, 0)
	return s.ring.Least(sliding.Other), s.ring.Most(sliding.Bad)
}
