package pace

import (
	"time"

	"github.com/gobackoff/backoff"
)

// A line is the attempts that wait for their turn. Those of a higher priority go
// first, and of the others the oldest. For each that leaves as its time is over, the line
// is too long: the newest has a turn, but no two turns follow each other that are for the
// newest.
type line struct {
	turns    float64 // not taken yet; below 0 after attempts that were made without one
	late     int     // turns that are for the newest
	newest   bool    // the last turn was for the newest
	newcomer uint64  // the number of the newest; 0 for none
	ranks    [3]rank // by priority, least first
}

// rankOf returns the rank of a priority.
func rankOf(p backoff.Priority) int {
	return int(min(max(p, backoff.PriorityBackground), backoff.PriorityHigh) - backoff.PriorityBackground)
}

// A rank numbers attempts in the order in which they arrive, and knows which of them
// have had their turn.
type rank struct {
	given     uint64  // the last number
	cleared   uint64  // the last number before the line was emptied
	places    []place // of the waiting attempts, newest last, and of some who are gone
	goneCount int     // how many of these are gone
}

// A place is that of an attempt in the line.
type place struct {
	arrived time.Duration
	end     time.Duration // of its call; 0 for none
	gone    bool          // it waits no longer: it had its turn,
	left    bool          // or gave up
}

// A number in the line is the number in the rank, and above that the rank. It takes so
// many bits of a ticket.
const (
	numberBits = 44
	numberMask = 1<<numberBits - 1
	countBits  = numberBits - 2
	countMask  = 1<<countBits - 1
)

// join adds an attempt to the line, and returns its number. Its turn may have come
// already. Only a first attempt counts as the newest.
func (l *line) join(r int, first bool, p place, perSecond float64) (number uint64) {
	own := &l.ranks[r]
	own.given++
	own.places = append(own.places, p)
	number = uint64(r)<<countBits | own.given&countMask
	if first {
		l.newcomer = number
	}
	l.serve(perSecond)
	return number
}

// serve releases the attempts whose turn has come. It saves unused turns of up to 10
// ms, because timers are late.
func (l *line) serve(perSecond float64) {
	for l.turns >= 1 && l.waiting() > 0 {
		r := len(l.ranks) - 1
		for l.ranks[r].waiting() == 0 {
			r--
		}
		next := &l.ranks[r].places[0]
		if l.newest = l.late > 0 && !l.newest; l.newest {
			l.late--
			if _, p := l.position(l.newcomer); p != nil && !p.gone && rankIn(l.newcomer) == r {
				next = p
			}
			l.newcomer = 0
		}
		l.turns--
		l.ranks[r].remove(next)
	}
	if l.waiting() == 0 {
		l.late, l.turns = 0, min(l.turns, saved(perSecond))
	}
}

// saved returns how many unused turns are saved at most.
func saved(perSecond float64) float64 { return max(1, perSecond/100) }

// remove notes that an attempt is gone. It forgets those who are gone before the oldest.
func (r *rank) remove(p *place) {
	p.gone = true
	r.goneCount++
	for len(r.places) > 0 && r.places[0].gone {
		r.places = r.places[1:]
		r.goneCount--
	}
}

func (r *rank) waiting() int { return len(r.places) - r.goneCount }

func (l *line) waiting() int { return l.ahead(0) }

// ahead returns how many attempts of a rank and the higher ones wait.
func (l *line) ahead(r int) (n int) {
	for i := range l.ranks[r:] {
		n += l.ranks[r+i].waiting()
	}
	return n
}

func rankIn(number uint64) int { return int(min(number>>countBits&3, 2)) }

// of returns the rank of a number, and how many numbers of that were given since.
func (l *line) of(number uint64) (r *rank, since uint64) {
	r = &l.ranks[rankIn(number)]
	return r, (r.given - number) & countMask
}

// position returns how many turns come before that of a number in the line at least,
// and its place. It returns nil if the turn of the number has come.
func (l *line) position(number uint64) (before int, p *place) {
	r, since := l.of(number)
	if since >= uint64(len(r.places)) {
		return 0, nil
	}
	i := len(r.places) - 1 - int(since)
	if p = &r.places[i]; p.gone && !p.left {
		return 0, nil
	}
	return l.before(l.ahead(rankIn(number))-r.waiting()+i, number == l.newcomer), p
}

// before returns how many turns come at least before that of an attempt with so many
// others before it.
func (l *line) before(others int, newest bool) int {
	if l.late > 0 && newest {
		return min(others, 1)
	}
	return others
}

// turnsAfter returns how many attempts of the same rank that came behind a number have
// had their turn.
func (l *line) turnsAfter(number uint64) float64 {
	r, since := l.of(number)
	return float64(since) - float64(len(r.places))
}

// expired reports whether a number is from before the line was emptied.
func (l *line) expired(number uint64) bool {
	r, since := l.of(number)
	return since >= (r.given-r.cleared)&countMask
}

// leave takes back the number of an attempt that was not made. The next attempt
// gets its turn, unless that has expired.
func (l *line) leave(number uint64, perSecond float64) {
	r, _ := l.of(number)
	switch _, p := l.position(number); {
	case l.expired(number):
	case p == nil:
		l.turns++
	case !p.left:
		p.left = true
		r.remove(p)
	}
	l.serve(perSecond)
}

// clear empties the line. Numbers and turns expire.
func (l *line) clear() {
	l.turns, l.late, l.newest, l.newcomer = 0, 0, false, 0
	for i := range l.ranks {
		r := &l.ranks[i]
		*r = rank{given: r.given, cleared: r.given, places: r.places[:0]}
	}
}
