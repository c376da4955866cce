package window

import "time"

// A Ring is a [Slide] that is given times, not durations since its beginning.
// The zero value is empty.
type Ring struct {
	started time.Time
	Slide
}

// Start sets the time at which the counting began, such as Tally.Born. A second
// call does nothing, nor does a zero time. Without Start the counting begins at
// the first Advance.
func (r *Ring) Start(at time.Time) {
	if r.started.IsZero() {
		r.started = at
	}
}

// Advance moves the window to now. It dates the successes that total has gained
// since the last call: evenly over the time between. If the clock goes back,
// the window stands still and goes on from there.
func (r *Ring) Advance(now time.Time, window time.Duration, total uint64) {
	r.Start(now)
	if begun := time.Duration(r.now) * width(window); now.Sub(r.started) < begun {
		r.started = now.Add(-begun)
	}
	r.Slide.Advance(now.Sub(r.started), window, total)
}

// Within reports whether the window needs not slide to reach now.
func (r *Ring) Within(now time.Time, window time.Duration) bool {
	bucket := width(window)
	return uint64(now.Sub(r.started)-time.Duration(r.now)*bucket) < uint64(bucket)
}
