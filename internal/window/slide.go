package window

import (
	"math"
	"time"
)

// Buckets is the number of parts of a window. The window slides by one part at
// a time.
const Buckets = 10

// A Slide counts events of several kinds in the buckets of a sliding window.
// The lock of its owner guards it. The zero value is empty. A bucket holds up
// to 4 billion events of a kind, and does not overflow.
//
// It holds one bucket more than a window has, so that it can answer both ways:
// Least leaves out every event that may be older than the window, and Most
// leaves out no event that may be younger.
type Slide struct {
	now     int64     // the number of the current bucket
	seen    uint64    // the total of the last Advance
	fresh   [2]uint32 // successes seen since the last slide, and before that
	buckets [Buckets + 1][kinds]uint32
}

// A Kind is a kind of event.
type Kind int

const (
	// Good events are counted by a Tally and dated when Advance sees them.
	Good Kind = iota
	// Bad events are for the owner to define.
	Bad
	// Other events are for the owner to define, too.
	Other

	kinds = 3
)

// Advance moves the window to now, the time since its beginning. It dates the
// successes that total has gained since the last call, evenly over the time
// between, and returns their number. If the time goes back, the window stands
// still.
func (s *Slide) Advance(now, window time.Duration, total uint64) (gained uint64) {
	gained = total - min(s.seen, total)
	s.seen += gained
	if steps := int64(now/width(window)) - s.now; steps > 0 {
		s.slide(uint64(steps), gained)
	} else {
		s.Add(Good, gained)
		increase(&s.fresh[0], gained)
	}
	return gained
}

// slide moves on by steps buckets and spreads the gained successes over them.
func (s *Slide) slide(steps, gained uint64) {
	s.now += int64(steps)
	s.fresh[1] = s.fresh[0]
	if steps >= Buckets {
		s.fresh[1] = 0
	}
	s.fresh[0] = saturated(gained)
	filled := min(steps, uint64(len(s.buckets)))
	if steps > filled { // leave out what is older than the window
		gained = uint64(float64(gained) * float64(filled) / float64(steps))
	}
	for back := range int64(filled) {
		*s.bucket(back) = [kinds]uint32{Good: saturated(gained / filled)}
	}
	s.Add(Good, gained%filled)
}

// bucket returns the bucket that is back buckets before the current one.
func (s *Slide) bucket(back int64) *[kinds]uint32 {
	n := uint64(len(s.buckets))
	return &s.buckets[(uint64(s.now-back)+n)%n]
}

// width returns the width of a bucket.
func width(window time.Duration) time.Duration { return max(1, window/Buckets) }

// Add counts n events of a kind in the current bucket.
func (s *Slide) Add(k Kind, n uint64) { increase(&s.bucket(0)[k], n) }

// Bucket returns the number of the current bucket, for Remove.
func (s *Slide) Bucket() int64 { return s.now }

// Remove takes back n events of a kind from the bucket they were counted in, if
// the window still holds that bucket.
func (s *Slide) Remove(k Kind, n uint64, bucket int64) {
	back := s.now - bucket
	if back < 0 || back >= int64(len(s.buckets)) {
		return
	}
	b := s.bucket(back)
	b[k] -= uint32(min(n, uint64(b[k])))
}

// Least returns the number of events of a kind in the current bucket and in the
// Buckets-1 before it. None of them is older than a window.
func (s *Slide) Least(k Kind) uint64 { return s.Most(k) - uint64(s.bucket(Buckets)[k]) }

// Most returns the number of events of a kind in all buckets: all events of a
// window, and those of up to one bucket before it.
func (s *Slide) Most(k Kind) uint64 {
	var sum uint64
	for i := range s.buckets {
		sum += uint64(s.buckets[i][k])
	}
	return sum
}

// Rate returns how many successes a second there are in a window, of which no more than age
// has passed.
func (s *Slide) Rate(age, window time.Duration) float64 {
	return float64(s.Least(Good)) / max(time.Second, min(age, window)).Seconds()
}

// Fresh returns the successes that were seen in the last two slides, wherever
// they were dated. If Advance was not called for a long time and then sees a
// burst, all of the burst is fresh, while Least holds only a small part of it.
func (s *Slide) Fresh() uint64 { return uint64(s.fresh[0]) + uint64(s.fresh[1]) }

// Clear forgets all events. Successes that were seen are not counted again.
func (s *Slide) Clear() {
	s.buckets = [Buckets + 1][kinds]uint32{}
	s.fresh = [2]uint32{}
}

// saturated returns n, or the largest number that a bucket holds.
func saturated(n uint64) uint32 { return uint32(min(n, math.MaxUint32)) }

// increase adds to a bucket, as far as it can hold more.
func increase(n *uint32, by uint64) { *n = saturated(uint64(*n) + min(by, math.MaxUint32)) }
