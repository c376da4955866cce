package line

import "time"

const (
	leastPause = 5 * time.Millisecond
	leastLook  = 500 * time.Millisecond // between two looks at how long the line is,
	longLook   = 2 * time.Second        // or, after a failure, so long,
	manyTakes  = 8                      // or the time of so many calls
	mostSlower = 2                      // more calls in flight may take so much longer
)

// flow bounds how many of the waiting calls are in flight while the service comes
// back. It begins with one, and each answer lets one more go, up to twice the usual
// number, or each round of them if that is not known. If the calls that wait would not all
// go in time with that, the bound is doubled, as long as calls do not take longer with it. If
// one has failed, that takes a line that becomes no shorter.
type flow struct {
	inFlight int
	limit    int
	usual    int       // twice the usual number in flight, at least 1; 0 if it is not known
	credit   int       // answers since the limit rose
	looked   time.Time // at the length of the line
	length   int       // of the line then, without the calls that left it
	times    int       // the usual number may be in flight
	failed   bool      // a call has failed since the line was last empty

	takes  time.Duration // from the turn of a call to its answer, a mean
	least  time.Duration // that it was at a look
	forgot time.Time     // when takes was last made less
}

// learn takes note of how many calls are usually in flight, if that is known.
func (f *flow) learn(usual float64) {
	if usual > 0 {
		f.usual = max(1, int(2*usual+0.5))
	}
}

// restart begins with one call.
func (f *flow) restart(now time.Time, length int) {
	f.limit, f.credit, f.looked, f.length, f.times, f.least = 1, 0, now, length, 1, 0
}

// admits reports whether one more call may go.
func (f *flow) admits() bool { return f.inFlight < f.limit }

// end ends a call in flight.
func (f *flow) end() { f.inFlight-- }

// bound returns how many calls may be in flight, or 0 if that is not known.
func (f *flow) bound() int { return f.usual * f.times }

// grow takes note of an answer, while so many calls wait, of which the oldest has so much
// time left.
func (f *flow) grow(now time.Time, length int, left time.Duration) {
	if f.credit++; f.limit < f.bound() || f.usual == 0 && f.credit >= f.limit {
		f.limit, f.credit = f.limit+1, 0
	}
	since := now.Sub(f.looked)
	if f.failed = f.failed && length > 0; since < f.period() {
		return
	}
	if f.least == 0 || f.takes < f.least {
		f.least = f.takes
	}
	shorter := f.length - length
	late := length > 0 && (shorter <= 0 || !f.failed && time.Duration(length/shorter+1)*since > left)
	if f.usual > 0 && f.limit >= f.bound() && late && f.takes < mostSlower*f.least {
		f.times *= 2
	}
	f.looked, f.length = now, length
}

// period is how long the line is watched before the bound is doubled.
func (f *flow) period() time.Duration {
	if f.failed {
		return max(longLook, manyTakes*f.takes)
	}
	return max(leastLook, manyTakes*f.takes)
}

// shrink takes note of a failure.
func (f *flow) shrink() { f.limit = min(f.limit, max(1, f.bound()), f.inFlight) }

// fill takes note that a call found no room: none follows before another one is answered,
// or as a probe.
func (f *flow) fill() { f.limit = min(f.limit, f.inFlight) }

// pause is how long no call follows after so many failures in a row.
func (f *flow) pause(row int) time.Duration { return max(f.takes, leastPause) << min(row, 10) }

// measure records how long a call took that was answered.
func (f *flow) measure(took time.Duration) {
	if f.takes == 0 {
		f.takes = took
	}
	f.takes += (took - f.takes) / 8
}

// forget lowers takes after a call came too late, at most four times a second.
// Otherwise a few slow calls would keep all others from trying.
func (f *flow) forget(now time.Time) {
	if now.Sub(f.forgot) >= leastGap {
		f.takes -= f.takes / 8
		f.forgot = now
	}
}
