package line

import (
	"container/list"
	"time"
)

// queue is the calls that wait, first those that matter most.
type queue struct {
	ranks  [1 + Ranks]list.List // of *waiter, in order; the lowest is for calls that were throttled
	length int
}

// Ranks is how many ranks a caller may choose from. 0 matters least.
const Ranks = 3

// waiter is a call that waits.
type waiter struct {
	place      *list.Element // in its rank; nil: it does not stand in line
	ready      chan struct{} // gets a value when the call may go
	generation uint64        // of the line, when it may go
	rank       uint8
	full       bool      // it was refused for want of room, which the end of any other call makes
	late       bool      // it is no use to let the call go
	deadline   time.Time // of the call; zero if it has none
	went       time.Time // when its turn came
}

// push adds a waiter at the end of its rank, or at the front.
func (q *queue) push(w *waiter, front bool) {
	if front {
		w.place = q.ranks[w.rank].PushFront(w)
	} else {
		w.place = q.ranks[w.rank].PushBack(w)
	}
	q.length++
}

// withTime returns the newest waiter that has so much time left, or the oldest, by
// rank. If none has, it returns the one with the most time.
func (q *queue) withTime(least time.Duration, now time.Time, oldest bool) *waiter {
	first, next := (*list.List).Back, (*list.Element).Prev
	if oldest {
		first, next = (*list.List).Front, (*list.Element).Next
	}
	var most *waiter
	for rank := Ranks; rank >= 0; rank-- {
		for e := first(&q.ranks[rank]); e != nil; e = next(e) {
			w := e.Value.(*waiter)
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

// first returns the first waiter. There must be one.
func (q *queue) first() *waiter {
	rank := Ranks
	for q.ranks[rank].Len() == 0 {
		rank--
	}
	return q.ranks[rank].Front().Value.(*waiter)
}

// hasLess reports whether a waiter has less time left than d.
func (w *waiter) hasLess(d time.Duration, now time.Time) bool {
	return !w.deadline.IsZero() && w.deadline.Sub(now) < d
}

// remove removes a waiter from wherever it stands.
func (q *queue) remove(w *waiter) {
	q.ranks[w.rank].Remove(w.place)
	w.place = nil
	q.length--
}
