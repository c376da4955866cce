package window

import "math/bits"

// A Last is a window of calls rather than of time. Of each of the last size
// outcomes it knows whether it was bad, and whether it was also of another
// kind. It is exact. The lock of its owner guards it. Use NewLast: the zero
// value must not be used.
type Last struct {
	sets   [kinds]set // Bad and Other
	next   int        // the place of the next outcome
	filled int
	size   int
	seen   uint64 // the total of the last Advance
}

// set is a bit for each place.
type set []uint64

// NewLast returns a window of size outcomes. It is empty.
func NewLast(size int) *Last {
	words := (size + 63) / 64
	return &Last{sets: [kinds]set{Bad: make(set, words), Other: make(set, words)}, size: size}
}

// Advance adds the successes that total has gained since the last call, and
// returns their number.
func (l *Last) Advance(total uint64) (gained uint64) {
	gained = total - min(l.seen, total)
	l.seen += gained
	for range min(gained, uint64(l.size)) {
		l.push()
	}
	return gained
}

// push adds an outcome that is neither bad nor of the other kind.
func (l *Last) push() {
	l.sets[Bad].put(l.next, false)
	l.sets[Other].put(l.next, false)
	l.next = (l.next + 1) % l.size
	l.filled = min(l.filled+1, l.size)
}

// Bad adds an outcome that is bad.
func (l *Last) Bad() {
	l.push()
	l.sets[Bad].put(l.newest(), true)
}

// Other marks the newest outcome as also being of the other kind.
func (l *Last) Other() { l.sets[Other].put(l.newest(), true) }

// newest returns the place of the newest outcome.
func (l *Last) newest() int { return (l.next - 1 + l.size) % l.size }

// Count returns the number of outcomes of a kind. Every outcome that is not Bad
// is Good.
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

// Full reports whether the window holds as many outcomes as it can.
func (l *Last) Full() bool { return l.filled == l.size }

// put sets or clears the bit of a place.
func (s set) put(place int, yes bool) {
	if yes {
		s[place/64] |= 1 << (place % 64)
	} else {
		s[place/64] &^= 1 << (place % 64)
	}
}
