package circuit

import (
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/draw"
	"github.com/gobackoff/backoff/internal/window"
)

// Live is a phase under way: what its calls need without the lock, and what it
// has learned. It reads the clock for Step, and counts calls for it.
//
// A call keeps a pointer to the phase that admitted it, and its result counts
// only while that is the current phase. So a Live is never used again, and
// nobody reads what a late success adds to its counter.
//
// For the same reason a breaker is linearizable, though successes take no lock.
// Everything else happens under the lock, in some order. A success that is not
// slow only adds one to Good, and all successes are alike: a look at Good,
// under the lock, finds the number of successes before some moment of the look
// (see [window.Counter.Total]), and takes effect at that moment. An admission
// without the lock takes effect when it loads the phase, or the path: at that
// moment the circuit was closed. A refusal without the lock takes effect when
// it loads the path: at that moment the circuit was open.
type Live struct {
	Path  atomic.Uint32  // what a call has to do
	Paths Paths          // does not change
	Phase                // does not change
	Began time.Time      // does not change
	Good  window.Counter // successes of a closed phase
	Last  *Outage        // since the last closed phase; the caller passes it on

	begun  atomic.Uint32 // calls on PathFirst
	timed  atomic.Bool   // whether calls of a closed phase read the clock
	failed *failed       // of a closed phase; nil until a call failed or was slow
	probes *Probes       // of a half-open phase
}

// The paths of a call.
const (
	PathAsk    = iota // ask under the lock
	PathFirst         // closed, and nothing has succeeded yet: count the calls that begin, too
	PathCount         // closed: count successes
	PathTime          // closed: read the clock, too
	PathRamp          // closed: admit a share of the calls
	PathRefuse        // open
	PathPass          // forced closed: nothing
)

// failed is what a closed phase keeps once it has seen a failure.
type failed struct {
	Calls
	Failures
}

// Paths says what calls of a closed circuit have to do.
type Paths struct {
	Time    bool // read the clock from the beginning
	Consult bool // ask the fleet, before anything else
}

// Begin makes a zero Live the phase p, beginning now.
func (l *Live) Begin(p Phase, paths Paths) {
	l.Phase, l.Paths, l.Began = p, paths, clock.Now()
	l.timed.Store(paths.Time)
	if p.Kind == HalfOpen {
		l.probes = new(Probes)
	}
	switch {
	case p.Mode == ForcedClosed:
		l.Path.Store(PathPass)
	case p.Mode > Observe:
		l.Path.Store(PathRefuse)
	case p.Kind != Closed: // PathAsk
	case p.Span > 0:
		l.Path.Store(PathRamp)
	default:
		l.admitAll()
	}
}

// Opened is what the window held when the circuit opened. It is empty while the
// circuit is closed or forced.
func (l *Live) Opened() (c Counts) {
	if l.Last != nil && l.Kind != Closed && l.Mode <= Observe {
		c = l.Last.Counts
	}
	return c
}

// admitAll lets all calls of a closed phase in. The next one consults the
// fleet.
func (l *Live) admitAll() {
	if l.Paths.Consult && l.Mode == Enforce {
		l.Path.Store(PathAsk)
	} else {
		l.consulted()
	}
}

// consulted lets calls of a closed phase go on without the fleet.
func (l *Live) consulted() {
	switch {
	case l.Openings == 0 && l.Good.Total() == 0:
		l.Path.Store(PathFirst)
	case l.timed.Load():
		l.Path.Store(PathTime)
	default:
		l.Path.Store(PathCount)
	}
}

// Admit says what becomes of a call that comes now: PathCount, PathRefuse,
// PathPass, or PathAsk if that takes the lock. age is that of the phase, where
// the duration of calls matters. generator draws the calls that a closed phase
// with a Span admits.
func (l *Live) Admit(generator func() float64) (path uint32, age time.Duration) {
	path = l.Path.Load()
	if path == PathFirst {
		path = l.admitFirst()
	}
	if path != PathTime && path != PathRamp {
		return path, 0
	}
	age = l.Age()
	switch {
	case path == PathTime:
	case age >= l.Span:
		l.admitAll()
	case draw.Unit(generator) >= l.Share(age):
		return PathRefuse, 0
	}
	return PathCount, age
}

// admitFirst counts a call that begins before anything has succeeded, and returns
// its path. Calls are not counted after the first success.
func (l *Live) admitFirst() (path uint32) {
	path = PathCount
	if l.timed.Load() {
		path = PathTime
	}
	if l.begun.Add(1); l.Good.Total() > 0 {
		l.Path.CompareAndSwap(PathFirst, path) // unless Wake was faster
	}
	return path
}

// Settle records the end of a call if that needs no lock, and reports whether it
// did.
func (l *Live) Settle(in *Input) bool {
	switch {
	case in.Permit.Probe != 0:
		return false
	case in.Score == Good && !in.Slow:
		l.Good.Add()
		return true
	}
	return in.Score == None
}

// Consults reports, under the lock, whether to ask the fleet about the phase.
// It asks about a closed phase once, and again after each Wake.
func (l *Live) Consults() bool {
	if !l.Paths.Consult || l.Mode != Enforce {
		return false
	}
	if l.Kind == Closed && l.Path.Load() == PathAsk {
		l.consulted() // before the answer, so that its Wake is not lost
		return true
	}
	return l.Kind == HalfOpen
}

// Wake makes the next call of a closed phase consult the fleet.
func (l *Live) Wake() {
	for _, path := range []uint32{PathFirst, PathCount, PathTime} {
		if l.Path.CompareAndSwap(path, PathAsk) {
			return
		}
	}
}

// openMargin is how long before its end an open phase stops to refuse calls
// without a look at the clock. So a timer that is a little late refuses no call
// that is due.
const openMargin = 10 * time.Millisecond

// Arm lets an open phase refuse calls without a look at the clock until shortly
// before its end, and returns the timer for that. The timer does not end the
// phase; the next call does: so nothing depends on the timer. Where there is
// none, as under the simulator's clock, every call looks at the clock.
func (l *Live) Arm() *time.Timer {
	if l.Kind != Open || l.Mode != Enforce || l.Span <= openMargin || clock.Source != nil {
		return nil
	}
	l.Path.Store(PathRefuse)
	return time.AfterFunc(l.Span-openMargin, func() { l.Path.Store(PathAsk) })
}

// Age returns how long the phase has lasted.
func (l *Live) Age() time.Duration { return clock.Since(l.Began) }

// Expired reports whether the phase is an open one whose time is over.
func (l *Live) Expired() bool { return l.Kind == Open && l.Over(l.Age()) }

// State returns the state of the circuit, under the lock.
func (l *Live) State() State {
	s := State{Phase: l.Phase}
	if l.failed != nil {
		s.Failures = l.failed.Failures
	}
	if l.probes != nil {
		s.Probes = *l.probes
	}
	return s
}

// count counts a call that failed or was slow, and returns what the window of a
// closed phase holds.
func (l *Live) count(c *Config, in *Input) Counts {
	if l.Kind != Closed || l.Mode > Observe {
		return Counts{}
	}
	if l.failed == nil {
		l.failed = &failed{Calls: NewCalls(c.WindowCalls)}
	}
	counts := l.failed.Count(in.Age, c.Window, l.Good.Total(), in.Score, in.Slow)
	counts.Begun = uint64(l.begun.Load())
	return counts
}

// Step gives the circuit an input that comes now, under the lock, and fills in
// what the phase knows of it: Age, Calls and the generation. An Answer must be
// of a call that this phase admitted. Step keeps what the phase learned. If
// Effects.Changed, it returns the next phase, for Begin. draw is asked for how
// long the circuit stays open after so many openings in a row, and what is known
// of the outage.
func (l *Live) Step(c *Config, in *Input, draw func(openings int, o *Outage) time.Duration) (Phase, Effects) {
	if in.Score == Good {
		l.Good.Add()
	}
	in.Age, in.Permit.Generation = l.Age(), l.Generation
	in.Calls = l.count(c, in)
	in.Woken = in.Woken && l.Last != nil && in.Age >= l.Last.rest
	next, effects := Step(c, l.State(), in)
	in.Calls.InARow = uint64(max(next.Failures.InARow, effects.Row.InARow))
	if effects.Changed && l.Kind == Closed {
		l.Last = l.ended(c, in, effects.Row)
	}
	if effects.Changed && l.Last != nil {
		l.Last.rest = effects.keepsOpen(&next.Phase)
	}
	switch {
	case in.Woken && effects.Changed:
		l.Last.began = clock.Now() // how long it lasted before says nothing of what comes
	case effects.Draw:
		l.opened(in, &effects)
		next, _ = Step(c, next, &Input{Kind: Extend, For: draw(int(next.Openings), l.Last)})
	case effects.Changed:
	case l.failed != nil:
		l.failed.Failures = next.Failures
	case l.probes != nil:
		*l.probes = next.Probes
	}
	return next.Phase, effects
}
