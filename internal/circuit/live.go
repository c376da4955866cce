package circuit

import (
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
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
	Phase                // does not change
	Began time.Time      // does not change
	Good  window.Counter // successes of a closed phase

	failed *failed // of a closed phase; nil as long as nobody looked
	probes *Probes // of a half-open phase
}

// The paths of a call.
const (
	PathAsk    = iota // ask under the lock
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
	Time    bool // read the clock
	Consult bool // ask the fleet, before anything else
}

// Begin makes a zero Live the phase p, beginning now.
func (l *Live) Begin(p Phase, paths Paths) {
	l.Phase, l.Began = p, clock.Now()
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
		l.AdmitAll(paths)
	}
}

// AdmitAll ends the ramp of a closed phase. The next call consults the fleet.
func (l *Live) AdmitAll(paths Paths) {
	if paths.Consult && l.Mode == Enforce {
		l.Path.Store(PathAsk)
	} else {
		l.Consulted(paths)
	}
}

// Consulted lets calls of a closed phase go on without the fleet.
func (l *Live) Consulted(paths Paths) {
	if paths.Time {
		l.Path.Store(PathTime)
	} else {
		l.Path.Store(PathCount)
	}
}

// Wake makes the next call of a closed phase consult the fleet.
func (l *Live) Wake() {
	if !l.Path.CompareAndSwap(PathCount, PathAsk) {
		l.Path.CompareAndSwap(PathTime, PathAsk)
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

// Input returns an input that comes now, under the lock.
func (l *Live) Input(k InputKind, c *Config) Input {
	in := Input{Kind: k, Age: l.Age(), Permit: Permit{Generation: l.Generation}}
	if k != Ask {
		in.Calls = l.count(c, in.Age, None, false)
	}
	return in
}

// Answer returns the input that a call has ended, under the lock.
func (l *Live) Answer(c *Config, probe uint32, s Score, slow bool) Input {
	in := Input{Kind: Answer, Age: l.Age(), Permit: Permit{l.Generation, probe}, Score: s, Slow: slow}
	if s == Good {
		l.Good.Add()
	}
	in.Calls = l.count(c, in.Age, s, slow)
	return in
}

// count counts a call that failed or was slow, and returns what the window of a
// closed phase holds.
func (l *Live) count(c *Config, age time.Duration, s Score, slow bool) Counts {
	if l.Kind != Closed || l.Mode > Observe {
		return Counts{}
	}
	if l.failed == nil {
		l.failed = &failed{Calls: NewCalls(c.WindowCalls)}
	}
	return l.failed.Count(age, c.Window, l.Good.Total(), s, slow)
}

// Step gives the circuit an input, under the lock. It keeps what the phase
// learned from it. If Effects.Changed, it returns the next phase, for Begin.
// draw is asked for how long the circuit stays open after so many openings in a
// row.
func (l *Live) Step(c *Config, in *Input, draw func(openings int) time.Duration) (Phase, Effects) {
	next, effects := Step(c, l.State(), in)
	switch {
	case effects.Draw:
		next, _ = Step(c, next, &Input{Kind: Extend, For: draw(int(next.Openings))})
	case effects.Changed:
	case l.failed != nil:
		l.failed.Failures = next.Failures
	case l.probes != nil:
		*l.probes = next.Probes
	}
	return next.Phase, effects
}
