package window

import "math/bits"

// A Last knows of each of the last so many outcomes whether it was bad, and whether it
// was of another kind besides: a window of calls rather than of time, and exact. Its
// owner's lock guards it. The zero value must not be used.
type Last struct {
	sets   [kinds]set // Bad and Other
	next   int        // the place of the next outcome
	filled int
	size   int
	seen   uint64
}

// A set is a bit for each place.
type set []uint64

// NewLast returns a window of size outcomes, without any as yet.
func NewLast(size int) *Last {
	words := (size + 63) / 64
	return &Last{sets: [kinds]set{Bad: make(set, words), Other: make(set, words)}, size: size}
}

// Advance takes in the successes that total has gained since the last time, and returns
// how many these were.
func (l *Last) Advance(total uint64) (gained uint64) {
	gained = total - min(l.seen, total)
	l.seen += gained
	for range min(gained, uint64(l.size)) {
		l.push()
	}
	return gained
}

// push takes in an outcome that is neither bad nor of the other kind.
func (l *Last) push() {
	l.sets[Bad].put(l.next, false)
	l.sets[Other].put(l.next, false)
	l.next = (l.next + 1) % l.size
	l.filled = min(l.filled+1, l.size)
}

// Bad takes in an outcome that is bad.
func (l *Last) Bad() {
	l.push()
	l.sets[Bad].put(l.newest(), true)
}

// Other says of the newest outcome that it is of the other kind, too.
func (l *Last) Other() { l.sets[Other].put(l.newest(), true) }

func (l *Last) newest() int { return (l.next - 1 + l.size) % l.size }

// Count returns how many of the outcomes are of a kind. Good is all that is not Bad.
func (l *Last) Count(k Kind) uint64 {
	if k == Good {
		return uint64(l.filled) - l.Count(Bad)
	}
	n := 0
	for _, word := range l.sets[k] {
		n += bits.OnesCount64(word)
	}
	return uint64(n)
}

// Full reports whether there have been as many outcomes as the window holds.
func (l *Last) Full() bool { return l.filled == l.size }

func (s set) put(place int, yes bool) {
	if yes {
		s[place/64] |= 1 << (place % 64)
	} else {
		s[place/64] &^= 1 << (place % 64)
	}
}
