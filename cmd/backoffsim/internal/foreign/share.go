package foreign

import (
	"sync"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/ledger"
	sliding "github.com/gobackoff/backoff/internal/window"
)

// A share counts requests and retries in one sliding window, and retries
// in another. It is safe for concurrent use.
type share struct {
	mu     sync.Mutex
	ledger ledger.Ledger
	ring   sliding.Ring // Other: first attempts; Bad: retries
	short  sliding.Ring // Bad: retries
}

// reserve counts an attempt. It refuses a retry unless allow says so.
func (s *share) reserve(a backoff.Attempt, long, short time.Duration, allow func(requests, retries, recent uint64) bool) (backoff.Ticket, time.Duration, bool) {
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
func (s *share) note(retry uint64) uint64 {
	const lower = 1<<31 - 1
	return uint64(s.ring.Bucket())&lower<<32 | uint64(s.short.Bucket())&lower<<1 | retry
}

// done ends an attempt. One that was not sent is not counted.
func (s *share) done(t backoff.Ticket, r backoff.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	note, ok := s.ledger.Remove(t)
	if !ok || !r.NotSent {
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

// stats returns the requests and retries in the long window at this moment.
func (s *share) stats(long time.Duration) (requests, retries uint64) {
	now := clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ring.Advance(now, long, 0)
	return s.ring.Least(sliding.Other), s.ring.Most(sliding.Bad)
}
