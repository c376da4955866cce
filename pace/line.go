package pace

import "time"

// A line numbers attempts in the order in which they arrive, and knows which of
// them have had their turn.
type line struct {
	turns     float64         // not taken yet; below 0 after attempts that were made without one
	given     uint64          // the last number
	cleared   uint64          // the last number before the line was emptied
	arrived   []time.Duration // when the waiting attempts came, newest last; left if one gave up
	leftCount int             // how many of arrived are left
}

// left marks the place of an attempt that gave up.
const left = -1

// numberBits is how many bits of a ticket the number has.
const (
	numberBits = 44
	numberMask = 1<<numberBits - 1
)

// join adds an attempt to the line, and returns its number. Its turn may have come
// already.
func (l *line) join(now time.Duration, perSecond float64) uint64 {
	l.given++
	l.arrived = append(l.arrived, now)
	l.serve(perSecond)
	return l.given & numberMask
}

// serve releases the attempts whose turn has come. It saves
// unused turns of up to 10 ms, because timers are late.
func (l *line) serve(perSecond float64) {
	n := 0
	for ; n < len(l.arrived); n++ {
		if l.arrived[n] == left {
			l.leftCount--
			continue
		}
		if l.turns < 1 {
			break
		}
		l.turns--
	}
	if n < len(l.arrived) {
		l.arrived = l.arrived[n:]
		return
	}
	l.arrived = l.arrived[:0]
	l.turns = min(l.turns, saved(perSecond))
}

// saved returns how many unused turns are saved at most.
func saved(perSecond float64) float64 { return max(1, perSecond/100) }

func (l *line) waiting() int { return len(l.arrived) - l.leftCount }

// position returns how many attempts are before a number in the line. It is
// negative if the turn of the number has come.
func (l *line) position(number uint64) int {
	behind := (l.given - number) & numberMask
	if behind >= uint64(len(l.arrived)) {
		return -1
	}
	return len(l.arrived) - 1 - int(behind)
}

// turnsAfter returns how many attempts behind a number have had their turn.
func (l *line) turnsAfter(number uint64) float64 {
	behind := (l.given - number) & numberMask
	return float64(behind) - float64(len(l.arrived))
}

// expired reports whether a number is from before the line was emptied.
func (l *line) expired(number uint64) bool {
	return (l.given-number)&numberMask >= (l.given-l.cleared)&numberMask
}

// leave takes back the number of an attempt that was not made. The next attempt
// gets its turn, unless that has expired.
func (l *line) leave(number uint64, perSecond float64) {
	switch before := l.position(number); {
	case l.expired(number):
	case before < 0:
		l.turns++
	case l.arrived[before] != left:
		l.arrived[before] = left
		l.leftCount++
	}
	l.serve(perSecond)
}

// clear empties the line. Numbers and turns expire.
func (l *line) clear() { *l = line{given: l.given, cleared: l.given, arrived: l.arrived[:0]} }
