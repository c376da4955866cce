package limit

import (
	"sync"
	"time"

	"github.com/gobackoff/backoff"
)

// slots counts the slots that are taken. Each is known by the ticket of the
// attempt that took it, so that no slot is released twice.
type slots struct {
	mu     sync.Mutex
	newest uint64               // the number of the newest ticket
	oldest uint64               // no ticket with a lower number has a slot
	taken  map[uint64]time.Time // since when, by ticket; zero where the slot does not expire
}

// acquire takes a slot for a new ticket, unless all slots are taken. With a limit of
// 0 the ticket has no slot yet.
func (s *slots) acquire(limit int, now time.Time) (backoff.Ticket, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newest++
	return backoff.Ticket{Word: s.newest}, s.take(s.newest, limit, now)
}

// confirm takes a slot for a ticket that may have one already, unless all slots
// are taken.
func (s *slots) confirm(t backoff.Ticket, limit int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.taken[t.Word]
	return ok || s.take(t.Word, limit, time.Time{})
}

func (s *slots) take(ticket uint64, limit int, now time.Time) bool {
	if limit >= 0 && len(s.taken) >= limit {
		return false
	}
	if s.taken == nil {
		s.taken = make(map[uint64]time.Time)
	}
	s.taken[ticket] = now
	return true
}

// release frees the slot of a ticket, if it has one.
func (s *slots) release(t backoff.Ticket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.taken, t.Word)
}

// expire frees the slots that were taken at the given time or before. It looks
// at each ticket once.
func (s *slots) expire(until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ; s.oldest <= s.newest; s.oldest++ {
		if since, ok := s.taken[s.oldest]; ok && since.After(until) {
			return
		}
		delete(s.taken, s.oldest)
	}
}

func (s *slots) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.taken)
}
