package window

import "time"

// A Ring is a [Slide] that goes by the clock. The zero value is empty.
type Ring struct {
	started time.Time
	Slide
}

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
	r.Start(now)
	if begun := time.Duration(r.now) * width(window); now.Sub(r.started) < begun {
		r.started = now.Add(-begun)
	}
	r.Slide.Advance(now.Sub(r.started), window, total)
}
