package window

import (
	"math"
	"time"
)

// Buckets is how many parts a window has; it slides by one of them at a time.
const Buckets = 10

// A Slide counts events of several kinds in the buckets of a sliding window. Its
// owner's lock guards it. The zero value is empty. A bucket holds up to 4 billion
// events of a kind, and no more.
//
// It holds one bucket more than a window has, so that it can answer both ways: Least
// leaves out what may be older than the window, Most leaves out nothing that is not.
type Slide struct {
	now     int64 // the number of the current bucket
	seen    uint64
	fresh   [2]uint32 // successes seen since the last turn, and since the one before it
	buckets [Buckets + 1][kinds]uint32
}

// A Kind says what is counted.
type Kind int

const (
	// Good events are counted by a Tally and dated when Advance sees them.
	Good Kind = iota
	// Bad events are for the owner to define.
	Bad
	// Other events are, too.
	Other

	kinds = 3
)

// Advance moves the window to so long after its beginning, and dates the successes that
// total has gained since the last time, of which it returns the number: as if they had
// been spread evenly over the time between. Where the time goes back, the window stands
// still.
func (s *Slide) Advance(now, window time.Duration, total uint64) (gained uint64) {
	gained = total - min(s.seen, total)
	s.seen += gained
	if steps := int64(now/width(window)) - s.now; steps > 0 {
		s.turn(uint64(steps), gained)
	} else {
		s.Add(Good, gained)
		increase(&s.fresh[0], gained)
	}
	return gained
}

// turn goes on by so many buckets, and spreads gained over them.
func (s *Slide) turn(steps, gained uint64) {
	s.now += int64(steps)
	s.fresh[1] = s.fresh[0]
	if steps >= Buckets {
		s.fresh[1] = 0
	}
	s.fresh[0] = saturated(gained)
	filled := min(steps, uint64(len(s.buckets)))
	if steps > filled { // what is older than the window is let go
		gained = uint64(float64(gained) * float64(filled) / float64(steps))
	}
	for back := range int64(filled) {
		*s.bucket(back) = [kinds]uint32{Good: saturated(gained / filled)}
	}
	s.Add(Good, gained%filled)
}

// bucket returns the bucket so many before the current one.
func (s *Slide) bucket(back int64) *[kinds]uint32 {
	n := int64(len(s.buckets))
	return &s.buckets[((s.now-back)%n+n)%n]
}

func width(window time.Duration) time.Duration { return max(1, window/Buckets) }

// Add counts n events of a kind in the current bucket.
func (s *Slide) Add(k Kind, n uint64) { increase(&s.bucket(0)[k], n) }

// Bucket returns the number of the current bucket, for Remove.
func (s *Slide) Bucket() int64 { return s.now }

// Remove takes back one event of a kind from the bucket it was counted in, if the
// window still holds that.
func (s *Slide) Remove(k Kind, bucket int64) {
	back := s.now - bucket
	if back < 0 || back >= int64(len(s.buckets)) {
		return
	}
	if b := s.bucket(back); b[k] > 0 {
		b[k]--
	}
}

// Least returns the events of a kind in the current bucket and the Buckets-1 before it:
// none older than a window.
func (s *Slide) Least(k Kind) uint64 {
	return s.Most(k) - uint64(s.bucket(Buckets)[k])
}

// Most returns the events of a kind in all buckets: all those of a window, and those of
// up to one bucket before it.
func (s *Slide) Most(k Kind) uint64 {
	var sum uint64
	for i := range s.buckets {
		sum += uint64(s.buckets[i][k])
	}
	return sum
}

// Fresh returns the successes that were seen in the last two turns, wherever they were
// dated. Where a long time without a look came to an end in a burst, nearly all of the
// burst is among them, while Least holds a small part of it.
func (s *Slide) Fresh() uint64 { return uint64(s.fresh[0]) + uint64(s.fresh[1]) }

// Clear forgets all events, but keeps the successes seen so far as seen.
func (s *Slide) Clear() {
	s.buckets = [Buckets + 1][kinds]uint32{}
	s.fresh = [2]uint32{}
}

func saturated(n uint64) uint32 { return uint32(min(n, math.MaxUint32)) }

func increase(n *uint32, by uint64) { *n = saturated(uint64(*n) + min(by, math.MaxUint32)) }
