package circuit

import (
	"time"

	"github.com/gobackoff/backoff/internal/window"
)

// Calls counts the calls of a closed phase in a window of time, or in one of a
// number of calls. Successes are counted elsewhere, without a lock; Calls reads
// their total when it is asked. The owner's lock guards it.
type Calls struct {
	slide window.Slide
	last  *window.Last // in place of slide, for a window of calls
}

// Counts is what the window of a closed phase holds.
type Counts struct {
	Good  uint64 // successes, slow ones included
	Dated uint64 // successes that are known to be of the window
	Bad   uint64 // failures
	Slow  uint64 // slow calls, good or bad
	New   uint64 // successes since the last look
	Full  bool   // a window of calls holds as many calls as it can
	Begun uint64 // calls that began before the first success of a first phase; not in the window

	InARow uint64 // failures since the last success; Live.Step fills it in, also when a phase ends
}

// NewCalls returns a window of so many calls, or of time if that is not
// positive.
func NewCalls(calls int) (c Calls) {
	if calls > 0 {
		c.last = window.NewLast(calls)
	}
	return c
}

// Count adds the successes so far and one call that failed or was slow, and
// returns what the window holds. With None and Throttled it only looks. A slow
// success is among the successes already.
func (c *Calls) Count(age, span time.Duration, successes uint64, s Score, slow bool) (n Counts) {
	bad := s >= Unsent
	slow = slow && (bad || s == Good)
	if c.last != nil {
		n.New = c.last.Advance(successes)
		if bad {
			c.last.Bad()
		}
		if slow {
			c.last.Other()
		}
		n.Dated, n.Bad, n.Slow = c.last.Count(window.Good), c.last.Count(window.Bad), c.last.Count(window.Other)
		n.Good, n.Full = n.Dated, c.last.Full()
		return n
	}
	n.New = c.slide.Advance(age, span, successes)
	if bad {
		c.slide.Add(window.Bad, 1)
	}
	if slow {
		c.slide.Add(window.Other, 1)
	}
	n.Dated, n.Bad, n.Slow = c.slide.Least(window.Good), c.slide.Least(window.Bad), c.slide.Least(window.Other)
	// After a long time without a look it is not known how many of the
	// successes are recent. Good takes as many as possible, for a second or
	// two, because a burst of calls after a pause must not open the circuit by
	// a few failures.
	n.Good = max(n.Dated, c.slide.Fresh())
	return n
}
