package line

import "time"

const leastPause = 5 * time.Millisecond

// flow bounds how many of the waiting calls are in flight while the service comes
// back. It begins with one, and each answer lets one more go, up to twice the usual
// number. Beyond that the bound rises slowly, and only while the line becomes no
// shorter: calls leave it as fast as they come.
type flow struct {
	inFlight int
	limit    int
	usual    int // twice the usual number in flight, at least 1; 0 if it is not known
	credit   int // answers since the limit rose
	length   int // of the line then, without the calls that left it

	takes  time.Duration // from the turn of a call to its answer, a mean
	forgot time.Time     // when takes was last made less
}

// learn takes note of how many calls are usually in flight, if that is known.
func (f *flow) learn(usual float64) {
	if usual > 0 {
		f.usual = max(1, int(2*usual+0.5))
	}
}

// restart begins with one call.
func (f *flow) restart(length int) { f.limit, f.credit, f.length = 1, 0, length }

// admits reports whether one more call may go.
func (f *flow) admits() bool { return f.inFlight < f.limit }

// end ends a call in flight.
func (f *flow) end() { f.inFlight-- }

// grow takes note of an answer, while so many calls wait.
func (f *flow) grow(length int) {
	f.credit++
	enough := f.limit
	switch {
	case f.limit < f.usual:
		enough = 1
	case f.usual > 0:
		enough = max(crowd, 16*f.limit)
	}
	if f.credit < enough {
		return
	}
	if f.limit < max(1, f.usual) || length >= f.length {
		f.limit++
	}
	f.credit, f.length = 0, length
}

// shrink takes note of a failure.
func (f *flow) shrink() { f.limit = min(f.limit, max(1, f.usual), f.inFlight) }

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
