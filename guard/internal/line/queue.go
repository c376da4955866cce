package line

import (
	"container/list"
	"math"
	"time"
)

// Ranks is how many ranks a caller may choose from. 0 matters least.
const Ranks = 3

// queue is the calls that wait, by rank, and those of a rank in order of their coming.
// Below each rank are those that were made and failed: one whose fault is its own must not
// be the only one that goes.
type queue struct {
	ranks  [2 * Ranks]list.List // of *waiter; that of rank r is 2r+1, and 2r for those that failed
	length int
	newest bool // the next turn is that of the newest call, not of the oldest
	room   bool // a call has ended, which makes room for another one

	doubtful *waiter // nil if there is none
}

// waiter is a call that waits.
type waiter struct {
	place  *list.Element // in its rank; nil: it does not stand in line
	ready  chan struct{} // gets a value when the call may go
	rank   uint8         // in the queue
	failed int           // times that it failed as a probe, or waited for room in vain
	full   bool          // it was refused for want of room
	told   End           // why it waits no longer
	end    time.Time     // of the call
	at     time.Time     // when its turn came; zero if it has none

	doubtful bool // it was the first to fail: the next answer tells whether the fault is its own
}

// went reports whether the call has its turn.
func (w *waiter) went() bool { return !w.at.IsZero() }

// hasFailed reports whether the call was made before it waited, and failed.
func (w *waiter) hasFailed() bool { return w.rank%2 == 0 }

// hasLess reports whether a waiter has less time left than d.
func (w *waiter) hasLess(d time.Duration, now time.Time) bool { return w.end.Sub(now) < d }

// push adds a waiter.
func (q *queue) push(w *waiter) {
	w.place = q.ranks[w.rank].PushBack(w)
	q.length++
	if w.doubtful {
		q.doubtful = w
	}
}

// remove removes a waiter from wherever it stands.
func (q *queue) remove(w *waiter) {
	q.ranks[w.rank].Remove(w.place)
	w.place = nil
	q.length--
	if q.doubtful == w {
		q.doubtful = nil
	}
}

// highest returns the calls of the highest rank. There must be one.
func (q *queue) highest() *list.List {
	rank := len(q.ranks) - 1
	for q.ranks[rank].Len() == 0 {
		rank--
	}
	return &q.ranks[rank]
}

// left returns how much time the oldest calls have left, by rank, at the least.
func (q *queue) left(now time.Time) time.Duration {
	least := time.Duration(math.MaxInt64)
	for i := range q.ranks {
		if oldest := q.ranks[i].Front(); oldest != nil {
			least = min(least, waiterOf(oldest).end.Sub(now))
		}
	}
	return least
}

// unmade reports whether a call that was never made is first.
func (q *queue) unmade() bool {
	return q.length > 0 && waiterOf(q.highest().Front()).rank%2 == 1 && !q.full()
}

// full reports whether a call waits for room alone.
func (q *queue) full() bool { return q.length > 0 && waiterOf(q.highest().Front()).full }

func waiterOf(e *list.Element) *waiter { return e.Value.(*waiter) }

// next returns the call whose turn it is. While the service comes back, that is the
// oldest and the newest in turn: if all waited equally long, none would have time left.
func (q *queue) next(now time.Time, probes bool) *waiter {
	of := q.highest()
	first := waiterOf(of.Front())
	switch {
	case first.full:
		q.room = false
		return first
	case probes:
		return q.probe(now)
	}
	if q.newest = !q.newest; q.newest {
		return first
	}
	return waiterOf(of.Back())
}

// probe returns the newest call that has time for an answer, by rank, or else the one
// with the most time. Those that failed as a probe come after all others, first the one
// that failed longest ago.
func (q *queue) probe(now time.Time) (most *waiter) {
	for i := range q.ranks {
		rank, from, step := len(q.ranks)-1-2*i, (*list.List).Back, (*list.Element).Prev
		if rank < 0 {
			rank, from, step = len(q.ranks)-2-2*(i-Ranks), (*list.List).Front, (*list.Element).Next
		}
		for e := from(&q.ranks[rank]); e != nil; e = step(e) {
			w := waiterOf(e)
			if !w.hasLess(lease, now) {
				return w
			}
			if most == nil || w.end.After(most.end) {
				most = w
			}
		}
	}
	return most
}
