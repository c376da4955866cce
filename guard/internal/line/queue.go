package line

import "time"

// queue is the calls that wait, first those that matter most.
type queue struct {
	ranks  [1 + Ranks]list // the lowest is for calls that were throttled
	length int
}

// Ranks is how many ranks a caller may choose from. 0 matters least.
const Ranks = 3

// list is the calls of a rank, in order.
type list struct{ first, last *waiter }

// waiter is a call that waits.
type waiter struct {
	before, after *waiter
	ready         chan struct{} // gets a value when the call may go
	generation    uint64        // of the line, when it may go
	rank          uint8
	queued        bool
	full          bool      // it was refused for want of room, which the end of any other call makes
	late          bool      // it is no use to let the call go
	deadline      time.Time // of the call; zero if it has none
	went          time.Time // when its turn came
}

// push adds a waiter at the end of its rank, or at the front.
func (q *queue) push(w *waiter, front bool) {
	l := &q.ranks[w.rank]
	w.before, w.after = l.last, nil
	if front {
		w.before, w.after = nil, l.first
	}
	*l.ahead(w), *l.behind(w) = w, w
	w.queued = true
	q.length++
}

// withTime returns the newest waiter that has so much time left, or the oldest, by
// rank. If none has, it returns the one with the most time.
func (q *queue) withTime(least time.Duration, now time.Time, oldest bool) *waiter {
	var most *waiter
	for rank := Ranks; rank >= 0; rank-- {
		for w := q.ranks[rank].end(oldest); w != nil; w = w.next(oldest) {
			if !w.hasLess(least, now) {
				return w
			}
			if most == nil || w.deadline.After(most.deadline) {
				most = w
			}
		}
	}
	return most
}

// end returns the oldest waiter or the newest.
func (l *list) end(oldest bool) *waiter {
	if oldest {
		return l.first
	}
	return l.last
}

// next returns the next waiter from that end.
func (w *waiter) next(fromOldest bool) *waiter {
	if fromOldest {
		return w.after
	}
	return w.before
}

// first returns the first waiter. There must be one.
func (q *queue) first() *waiter {
	rank := Ranks
	for q.ranks[rank].first == nil {
		rank--
	}
	return q.ranks[rank].first
}

// hasLess reports whether a waiter has less time left than d.
func (w *waiter) hasLess(d time.Duration, now time.Time) bool {
	return !w.deadline.IsZero() && w.deadline.Sub(now) < d
}

// remove removes a waiter from wherever it stands.
func (q *queue) remove(w *waiter) {
	l := &q.ranks[w.rank]
	*l.ahead(w), *l.behind(w) = w.after, w.before
	w.before, w.after, w.queued = nil, nil, false
	q.length--
}

// ahead is what points to w from the side of the front.
func (l *list) ahead(w *waiter) **waiter {
	if w.before == nil {
		return &l.first
	}
	return &w.before.after
}

// behind is what points to w from the side of the end.
func (l *list) behind(w *waiter) **waiter {
	if w.after == nil {
		return &l.last
	}
	return &w.after.before
}
