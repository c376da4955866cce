package pace

import "time"

// A line gives attempts numbers in the order in which they came, and says whose
// turn has come.
type line struct {
	turns float64         // that nobody has taken yet; below 0 after attempts that asked nobody
	given uint64          // the last number
	since []time.Duration // since when those wait that have the last numbers, or left
	gone  int             // of them left
}

// left marks the place of an attempt that waits no more.
const left = -1

// A number in a ticket has so many bits.
const (
	numberBits = 44
	numberMask = 1<<numberBits - 1
)

// join returns the number of an attempt that comes now. Its turn may have come.
func (l *line) join(now time.Duration, perSecond float64) uint64 {
	l.given++
	l.since = append(l.since, now)
	l.serve(perSecond)
	return l.given & numberMask
}

// serve takes those whose turn it is out of the line. Turns that are left are
// saved for attempts that come late, because timers do: those of 10 ms.
func (l *line) serve(perSecond float64) {
	n := 0
	for ; n < len(l.since); n++ {
		if l.since[n] == left {
			l.gone--
			continue
		}
		if l.turns < 1 {
			break
		}
		l.turns--
	}
	if n < len(l.since) {
		l.since = l.since[n:]
		return
	}
	l.since = l.since[:0]
	l.turns = min(l.turns, saved(perSecond))
}

// saved returns how many turns are saved that nobody took.
func saved(perSecond float64) float64 { return max(1, perSecond/100) }

func (l *line) waiting() int { return len(l.since) - l.gone }

// place returns how many are before a number in the line. It is negative for one
// whose turn has come.
func (l *line) place(number uint64) int {
	behind := (l.given - number) & numberMask
	if behind >= uint64(len(l.since)) {
		return -1
	}
	return len(l.since) - 1 - int(behind)
}

// passed returns how many turns were given after that of a number.
func (l *line) passed(number uint64) float64 {
	behind := (l.given - number) & numberMask
	return float64(behind) - float64(len(l.since))
}

// leave takes a number back that was not used. The next one has its turn.
func (l *line) leave(number uint64, perSecond float64) {
	switch before := l.place(number); {
	case before < 0:
		l.turns++
	case l.since[before] != left:
		l.since[before] = left
		l.gone++
	}
	l.serve(perSecond)
}

// clear makes a line in which nobody waits.
func (l *line) clear() { l.turns, l.since, l.gone = 0, l.since[:0], 0 }
