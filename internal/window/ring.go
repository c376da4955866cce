package window

import "time"

// A Ring is a [Slide] that is given times, not durations since its beginning.
// The zero value is empty.
type Ring struct {
	begun time.Time // start of the current bucket
	Slide
}

// Start sets the time at which the counting began, such as Tally.Born. A second
// call does nothing, nor does a zero time. Without Start the counting begins at
// the first Advance.
func (r *Ring) Start(at time.Time) {
	if r.begun.IsZero() {
		r.begun = at
	}
}

// Advance moves the window to now. It dates the successes that total has gained
// since the last call: evenly over the time between. If the clock goes back,
// the window stands still and goes on from there.
func (r *Ring) Advance(now time.Time, window time.Duration, total uint64) {
	r.Start(now)
	if now.Before(r.begun) {
		r.begun = now
	}
	past := time.Duration(r.now) * width(window)
	r.Slide.Advance(past+now.Sub(r.begun), window, total)
	r.begun = r.begun.Add(time.Duration(r.now)*width(window) - past)
}

// Within reports whether the window needs not slide to reach now.
func (r *Ring) Within(now time.Time, window time.Duration) bool {
	return uint64(now.Sub(r.begun)) < uint64(width(window))
}
