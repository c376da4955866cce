// Package circuit holds the rules of a circuit breaker: when it opens, whom it
// lets probe, when it closes.
//
// [Step] is a plain function: it takes the state of a circuit and one input,
// and returns the next state and what the caller has to do. It reads no clock,
// draws no random numbers and takes no lock, and a [State] is a comparable
// value. So a test can try every sequence of inputs up to some length.
//
// The caller, which is backoff.Breaker, knows the rest, and passes it as
// numbers:
//
//   - the time, as the age of the phase;
//   - the calls in the window. [Calls] counts them outside of the State,
//     because its buckets are too large to compare;
//   - how long the circuit stays open. It is drawn only when the circuit opens:
//     Step asks for it by [Effects.Draw], and the caller answers with [Extend];
//   - the meaning of errors, as a [Score].
//
// [Live] helps with that: it holds a phase under way, reads the clock, counts
// calls, and admits those that need no lock.
package circuit

import (
	"math"
	"time"

	"github.com/gobackoff/backoff/internal/limits"
)

// A Kind is what a phase does with calls.
type Kind uint8

const (
	// Closed admits all calls.
	Closed Kind = iota
	// Open refuses all calls.
	Open
	// HalfOpen admits a few calls as probes.
	HalfOpen
)

// A Mode says whether a circuit refuses calls as its state demands.
type Mode uint8

const (
	// Enforce refuses calls according to the state.
	Enforce Mode = iota
	// Observe goes through the same states and refuses nothing.
	Observe
	// ForcedOpen refuses everything.
	ForcedOpen
	// ForcedClosed admits everything and counts nothing.
	ForcedClosed
	// Invalid refuses everything, for good: the configuration makes no sense.
	Invalid
)

// A Trigger says why a phase began.
type Trigger uint8

const (
	TriggerRate        Trigger = iota // the rate of failures was reached
	TriggerConsecutive                // there were too many failures in a row
	TriggerSlow                       // the rate of slow calls was reached
	TriggerRule                       // the user's own rule said so
	TriggerTime                       // the open time was over
	TriggerProbe                      // probes succeeded, or one failed
	TriggerManual                     // a caller asked for it
	TriggerShared                     // the fleet said so
)

// A Score is what the end of a call says about the service. The scores are in
// order: where an error has several parts, the highest score counts.
type Score uint8

const (
	// None says nothing about the service.
	None Score = iota
	// Good is a success.
	Good
	// Throttled is an answer of a service that is alive and says "too much". It
	// fails a probe. Otherwise it does not count, unless nothing succeeds.
	Throttled
	// Unsent is a failure that never reached the service. To try again costs the
	// service nothing.
	Unsent
	// Hung is a failure by a timeout: no answer came.
	Hung
	// Bad is any other failure.
	Bad
)

const (
	// Forever is the span of a phase that does not end by time.
	Forever time.Duration = math.MaxInt64
	// MaxOpenings is where the count of openings in a row stops.
	MaxOpenings = math.MaxUint16
	// MostProbes is the most that MaxProbes may be, because each probe that
	// begins or ends copies the leases of all others under the lock.
	MostProbes = 1000
)

// A Config holds the settings of a circuit. [Config.WithDefaults] fills in what
// is 0.
type Config struct {
	FailureRate         float64       // share of failures that opens the circuit; negative: none
	SlowRate            float64       // share of slow calls that opens it; negative: none
	MinCalls            int           // calls in the window before a rate counts; negative: 1
	Window              time.Duration // length of the window, unless WindowCalls is set; negative: Forever
	WindowCalls         int           // length of the window in calls; 0 or negative: use Window
	ConsecutiveFailures int           // failures in a row that open the circuit; 0: as many as a service that serves some calls hardly has; negative: any number is fine
	ConsecutiveSpan     time.Duration // least time between the first and the last of them
	MaxProbes           int           // probes at the same time; negative: MostProbes
	ProbeSuccesses      int           // successful probes that close the circuit
	RampUp              time.Duration // after which all calls are admitted again; 0 or negative: at once
}

// WithDefaults returns the settings with the defaults in place of 0, and with
// the limits that one field is to another.
func (c Config) WithDefaults() Config {
	c.FailureRate = limits.Or(c.FailureRate, 0.5)
	c.SlowRate = limits.Or(c.SlowRate, 0.5)
	c.MinCalls = max(1, limits.Or(c.MinCalls, 20))
	c.Window = limits.Or(c.Window, 10*time.Second)
	c.ConsecutiveSpan = limits.Or(c.ConsecutiveSpan, time.Second)
	if c.MaxProbes = limits.Or(c.MaxProbes, 1); c.MaxProbes < 0 {
		c.MaxProbes = MostProbes
	}
	c.MaxProbes = min(c.MaxProbes, MostProbes)
	c.ProbeSuccesses = limits.Or(c.ProbeSuccesses, 2)
	if c.Window < 0 {
		c.Window = Forever
	}
	if c.WindowCalls > 0 {
		c.MinCalls = min(c.MinCalls, c.WindowCalls)
	}
	return c
}

// A State is all that a circuit knows, but for the calls in its window. The
// zero value is a closed circuit that has seen nothing.
type State struct {
	Phase
	Failures Failures // of a closed phase
	Probes   Probes   // of a half-open phase
}

// A Phase is the time that a circuit spends in one state. Its fields do not
// change, except that Extend may lengthen Span at the beginning.
type Phase struct {
	Generation uint32 // counts the phases, from 0
	Openings   uint16 // in a row
	Kind       Kind
	Mode       Mode
	// Span is how long an open phase lasts, how long a half-open phase waits
	// for a probe, and how long a closed phase takes to admit all calls.
	Span time.Duration
}

// Over reports whether the phase is an open one and its time is over.
func (p Phase) Over(age time.Duration) bool { return p.Kind == Open && age >= p.Span }

// Left returns for how long an open phase will still refuse calls, at an age of
// the phase. It is 0 if that is not known.
func (p Phase) Left(age time.Duration) time.Duration {
	if p.Kind != Open || p.Span == Forever {
		return 0
	}
	return max(0, p.Span-age)
}

// Share returns the share of calls that a closed phase with a Span admits: a
// tenth at its beginning, all at its end.
func (p Phase) Share(age time.Duration) float64 { return 0.1 + 0.9*float64(age)/float64(p.Span) }

// Failures is what a closed phase has learned from calls that failed. All times
// are ages of the phase.
type Failures struct {
	InARow    uint32        // since the last success
	Throttled uint32        // answers since then
	First     time.Duration // when the first failure in a row happened
	Share     float64       // of failures among the calls in the window before that
	Rest      time.Duration // until when the service asked to be left alone
}

// row returns how many calls were failures or throttled since the last success.
func (f *Failures) row() uint64 { return uint64(f.InARow) + uint64(f.Throttled) }

// succeed records a success.
func (f *Failures) succeed() { f.InARow, f.Throttled = 0, 0 }

// Probes is what a half-open phase has learned.
type Probes struct {
	Leases    Leases        // of the probes without an answer
	Granted   uint32        // probes so far
	Successes uint32        // in a row, as a failure ends the phase
	Served    uint32        // number of the newest probe that succeeded
	Newest    time.Duration // when the last probe was admitted
	Silent    bool          // a probe ended without a verdict
}

// An InputKind says what happened.
type InputKind uint8

const (
	// Tick: time has passed. It ends an open phase whose time is over, and lets
	// successes end a row of failures. The caller sends it before Ask and Trip. If it
	// is Woken, a probe may go whatever the circuit knows.
	Tick InputKind = iota
	// Extend: the open phase lasts at least For. It answers Effects.Draw.
	Extend
	// Ask: a call asks to be admitted.
	Ask
	// Answer: a call that was admitted has ended, which it does once. A success
	// that was not slow may be counted in the window without an Answer, unless it
	// was a probe.
	Answer
	// Rule: the user's own rule wants the circuit open.
	Rule
	// Trip opens the circuit by hand.
	Trip
	// Reset closes the circuit by hand and forgets everything.
	Reset
	// Force sets the Mode by hand.
	Force
	// Advise: the fleet says that the circuit should be in the state Advice.
	Advise
)

// An Input is something that happened to a circuit. Fields that do not apply to
// its kind are zero.
type Input struct {
	Kind   InputKind
	Score  Score // Answer
	Slow   bool  // Answer
	Cause  Score // Rule: of the failure that led to it
	Hold   bool  // Ask: the call must not probe, because another process does
	Mode   Mode  // Force
	Advice Kind  // Advise
	Woken  bool  // Tick

	Permit Permit        // Answer: of the call; Rule, Advise: the generation they speak of
	Age    time.Duration // of the current phase; it does not go back
	Calls  Counts        // in the window of a closed phase, with that of this Answer unless Throttled

	Rest         time.Duration // Answer: how long the service asked to be left alone
	For          time.Duration // Extend, Advise: how long to stay open
	Openings     int           // Advise: in a row, of the fleet
	ProbeTimeout time.Duration // Tick, Advise: how long a half-open phase waits for a probe, at least
}

// A Permit names a call that was admitted.
type Permit struct {
	Generation uint32 // of the phase that admitted it
	Probe      uint32 // its number among the probes of the phase; 0: it is none
}

// Effects is what the caller has to do after a step.
type Effects struct {
	// Admitted is the answer to Ask. If Counts is set, the call has the Permit
	// of this generation and Probe, and its end is an Answer; else its end has
	// no consequence.
	Admitted bool
	Counts   bool
	Probe    uint32

	// Changed says that a phase began, because of Trigger. Its age is 0. Row is
	// what the phase before had learned from failures.
	Changed bool
	Trigger Trigger
	Row     Failures
	// Draw says that the circuit opened by its own decision. The caller draws
	// an open time for State.Openings openings in a row, and sends it with
	// Extend. Cause is the score that led to it; None if it is not known.
	Draw  bool
	Cause Score
	// Undecided says that a failed or slow call was counted and opened nothing,
	// so that the user's own rule may be asked.
	Undecided bool
}
