package clock

import (
	"math"
	"time"
)

// A Stopwatch turns readings of a clock into elapsed time that never goes back.
// Callers may read the clock in one order and reach the lock in another, and
// the clock may be set. The zero value starts at its first reading. The owner's
// lock guards it.
type Stopwatch struct {
	start, last time.Time
	elapsed     time.Duration
}

// Started reports whether there has been a reading.
func (s *Stopwatch) Started() bool { return !s.start.IsZero() }

// Elapsed takes a reading of the clock and returns the time elapsed since the
// first one. A reading up to a second older than the last one arrived late, and
// counts as the last one. An older reading means that the clock was set back:
// the elapsed time stands still, and goes on from that reading.
func (s *Stopwatch) Elapsed(now time.Time) time.Duration {
	if !s.Started() {
		s.start, s.last = now, now
	}
	switch d := now.Sub(s.last); {
	case d > 0:
		s.elapsed += min(d, math.MaxInt64-s.elapsed)
		s.last = now
	case d < -time.Second:
		s.last = now
	}
	return s.elapsed
}

// Time returns the time of day at an elapsed time, as if the clock had never
// been set.
func (s *Stopwatch) Time(elapsed time.Duration) time.Time { return s.start.Add(elapsed) }
