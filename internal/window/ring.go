package window

import "time"

// Buckets is how many parts a window has; it slides by one of them at a time.
const Buckets = 10

// A Ring counts events of several kinds in the buckets of a sliding window. Its
// owner's lock guards it. The zero value is empty.
//
// It holds one bucket more than a window has, so that it can answer both ways: Least
// leaves out what may be older than the window, Most leaves out nothing that is not.
type Ring struct {
	started time.Time
	now     int64 // the number of the current bucket
	seen    uint64
	buckets [Buckets + 1][kinds]uint64
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

// Start says when the counting began, such as Tally.Born; a second call, or one with a
// zero time, does nothing. Without it, the counting begins at the first Advance.
func (r *Ring) Start(at time.Time) {
	if r.started.IsZero() {
		r.started = at
	}
}

// Advance moves the window to now, and dates the successes that total has gained since
// the last time: as if they had been spread evenly over the time between. Where the
// clock goes back, the window stands still and goes on from there.
func (r *Ring) Advance(now time.Time, window time.Duration, total uint64) {
	if r.started.IsZero() {
		r.started = now
	}
	gained := total - min(r.seen, total)
	r.seen = max(r.seen, total)
	steps := r.number(now, window) - r.now
	switch {
	case steps < 0:
		r.started = now.Add(-time.Duration(r.now) * width(window))
		fallthrough
	case steps == 0:
		r.bucket(0)[Good] += gained
	default:
		r.turn(uint64(steps), gained)
	}
}

// turn goes on by so many buckets, and spreads gained over them.
func (r *Ring) turn(steps, gained uint64) {
	r.now += int64(steps)
	filled := min(steps, uint64(len(r.buckets)))
	if steps > filled { // what is older than the window is let go
		gained = uint64(float64(gained) * float64(filled) / float64(steps))
	}
	for back := range int64(filled) {
		*r.bucket(back) = [kinds]uint64{Good: gained / filled}
	}
	r.bucket(0)[Good] += gained % filled
}

// bucket returns the bucket so many before the current one.
func (r *Ring) bucket(back int64) *[kinds]uint64 {
	n := int64(len(r.buckets))
	return &r.buckets[((r.now-back)%n+n)%n]
}

// number returns the bucket that now falls in, counted from the start.
func (r *Ring) number(now time.Time, window time.Duration) int64 {
	return int64(now.Sub(r.started) / width(window))
}

func width(window time.Duration) time.Duration { return max(1, window/Buckets) }

// Add counts n events of a kind in the current bucket.
func (r *Ring) Add(k Kind, n uint64) {
	r.bucket(0)[k] += n
}

// Bucket returns the number of the current bucket, for Remove.
func (r *Ring) Bucket() int64 { return r.now }

// Remove takes back one event of a kind from the bucket it was counted in, if the
// window still holds that.
func (r *Ring) Remove(k Kind, bucket int64) {
	back := r.now - bucket
	if back < 0 || back >= int64(len(r.buckets)) {
		return
	}
	if b := r.bucket(back); b[k] > 0 {
		b[k]--
	}
}

// Least returns the events of a kind in the current bucket and the Buckets-1 before it:
// none older than a window.
func (r *Ring) Least(k Kind) uint64 {
	return r.Most(k) - r.bucket(Buckets)[k]
}

// Most returns the events of a kind in all buckets: all those of a window, and those
// of up to one bucket before it.
func (r *Ring) Most(k Kind) uint64 {
	var sum uint64
	for i := range r.buckets {
		sum += r.buckets[i][k]
	}
	return sum
}

// Clear forgets all events, but keeps the successes seen so far as seen.
func (r *Ring) Clear() {
	r.buckets = [Buckets + 1][kinds]uint64{}
}
