package limit

import (
	"cmp"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/limits"
)

// A queue holds the reservations of a limiter's tokens, in the order in which
// they were made. Each says when its token is due:
//
//	due in          1s         2s         3s         4s        next: 5s
//	           +----------+----------+----------+----------+
//	    head > |   held   | canceled |   held   |   held   | < last
//	           +----------+----------+----------+----------+
//
// An attempt that is not made cancels its reservation. Its token goes back:
//
//   - at once, if the limiter has room for it until the last held reservation
//     behind it is due. In the picture the next call would then wait until 4s,
//     like the call before it: it takes the token that was saved at 2s.
//   - otherwise, when no held reservation is left behind it, as if the token had
//     never been taken. If it is due before that, it is lost.
//
// A queue does not lock: its owner does.
type queue struct {
	watch        clock.Stopwatch
	newest       uint64        // the number of the newest reservation
	reservations []reservation // by number, and so by due
	head         int           // the index of the first reservation that still matters

	// No more tokens than level are in the limiter just before a held reservation
	// is due, if its limit was always the one here. Otherwise tokens may be lost.
	level, limit float64
}

// A reservation is the tokens of one attempt.
type reservation struct {
	number uint64
	tokens int
	due    time.Duration // when the attempt may be made
	state  reservationState
}

// reservationState is what became of a reservation.
type reservationState uint8

const (
	held     reservationState = iota // the attempt waits, or is running
	canceled                         // the attempt was not made, and its tokens have not gone back yet
	finished                         // nothing is left to do
)

// maxDue is how many held reservations are kept beyond their time. Otherwise an
// operation that hangs would keep all those behind it.
const maxDue = 4096

// planned marks the ticket of an attempt that waits longer for another reason than
// for its tokens. It gets its reservation in Pace.
const planned = 1 << 63

// reserve takes tokens, and returns the number of the reservation and the wait. If
// the tokens are due before own, the time that the attempt waits anyway, it takes
// nothing, and the number is 0.
func (q *queue) reserve(lim *rate.Limiter, tokens int, now, own time.Duration) (uint64, time.Duration, bool) {
	q.trim(now)
	r := lim.ReserveN(q.watch.Time(now), tokens)
	wait := r.DelayFrom(q.watch.Time(now))
	if wait == rate.InfDuration {
		if r.OK() { // the limit is 0, and ReserveN still took the tokens
			lim.ReserveN(q.watch.Time(now), -tokens)
		}
		return 0, 0, false
	}
	due := max(limits.Add(now, wait), q.lastDue(now))
	if due-now < own {
		lim.ReserveN(q.watch.Time(now), -tokens)
		return 0, 0, true
	}
	q.newest++
	q.level = max(q.level, float64(tokens))
	q.push(reservation{number: q.newest, tokens: tokens, due: due})
	return q.newest, due - now, true
}

// left returns the time until a reservation is due.
func (q *queue) left(number uint64, now time.Duration) time.Duration {
	if i, ok := q.find(number); ok {
		return max(0, q.reservations[i].due-now)
	}
	return 0
}

// find returns the index of a reservation.
func (q *queue) find(number uint64) (int, bool) {
	i, ok := slices.BinarySearchFunc(q.reservations[q.head:], number, func(r reservation, n uint64) int { return cmp.Compare(r.number, n) })
	return q.head + i, ok
}

// lastDue returns when the last reservation is due, or now if that has passed.
func (q *queue) lastDue(now time.Duration) time.Duration {
	if q.head == len(q.reservations) {
		return now
	}
	return max(now, q.reservations[len(q.reservations)-1].due)
}

// push appends a reservation. While half of the slice is free, it moves the others
// to the front instead of growing the slice.
func (q *queue) push(r reservation) {
	if len(q.reservations) == cap(q.reservations) && q.head > len(q.reservations)/2 {
		q.reservations = q.reservations[:copy(q.reservations, q.reservations[q.head:])]
		q.head = 0
	}
	q.reservations = append(q.reservations, r)
}

// trim drops the reservations at the head that no longer matter.
func (q *queue) trim(now time.Duration) {
	for q.head < len(q.reservations) {
		r := q.reservations[q.head]
		if r.state != finished && r.due >= now || r.state == held && len(q.reservations)-q.head <= maxDue {
			return
		}
		q.head++
	}
	q.head, q.level = 0, 0
	if q.reservations = q.reservations[:0]; cap(q.reservations) > maxDue {
		q.reservations = nil
	}
}

// finish ends a reservation, and gives its tokens back if they are unused. It
// returns the reservation, and whether it was held until now.
func (q *queue) finish(lim *rate.Limiter, now time.Duration, number uint64, unused bool) (reservation, bool) {
	i, found := q.find(number)
	if !found || q.reservations[i].state != held {
		return reservation{}, false
	}
	r := q.reservations[i]
	q.reservations[i].state = finished
	if unused && lim.Limit() != rate.Inf {
		q.reservations[i].state = canceled
		q.giveBack(lim, now, i)
	}
	return r, true
}

// giveBack returns the tokens of reservation i, which was canceled. If no held
// reservation is behind it, giveBack drops all reservations behind the last held
// one, and returns the tokens of those that were canceled.
func (q *queue) giveBack(lim *rate.Limiter, now time.Duration, i int) {
	back := 0
	for last := len(q.reservations) - 1; last >= q.head && q.reservations[last].state != held; last-- {
		if r := q.reservations[last]; r.state == canceled && (r.due >= now || last == i) {
			back += r.tokens
		}
		q.reservations = q.reservations[:last]
	}
	if i < len(q.reservations) && q.hasRoom(lim, now, i) {
		q.reservations[i].state = finished
		back = q.reservations[i].tokens
	}
	q.level += float64(back)
	lim.ReserveN(q.watch.Time(now), -back)
}

// hasRoom reports whether the limiter can hold the tokens of i beside its own
// until all held reservations behind i are due. If the bound q.level does not tell,
// it walks from the last reservation to the first; level is what the limiter will
// hold just before each is due.
func (q *queue) hasRoom(lim *rate.Limiter, now time.Duration, i int) bool {
	limit, at := float64(lim.Limit()), q.lastDue(now)
	most := float64(lim.Burst()-q.reservations[i].tokens) + 1e-6
	if limit == q.limit && q.level <= most {
		return true
	}
	level := lim.TokensAt(q.watch.Time(now)) + limit*(at-now).Seconds()
	highest := level
	for last := len(q.reservations) - 1; last >= q.head && q.reservations[last].due > now; last-- {
		r := &q.reservations[last]
		if r.state != held {
			continue
		}
		level += float64(r.tokens) - limit*(at-r.due).Seconds()
		at = r.due
		if last > i && level > most {
			return false
		}
		highest = max(highest, level)
	}
	q.level, q.limit = highest, limit
	return true
}
