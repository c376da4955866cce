package backoff

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/internal/circuit"
	"github.com/gobackoff/backoff/internal/errtree"
	"github.com/gobackoff/backoff/internal/force"
	"github.com/gobackoff/backoff/internal/inorder"
	"github.com/gobackoff/backoff/internal/waker"
)

// A Breaker is a circuit breaker: it stops calls to a service that is down, and
// finds out when the service is back. Around a [Policy], its usual place, it
// sees one result per call; inside a policy it sees one per attempt.
//
//	err := breaker.Do(ctx, policy.Wrap(op))
//
// A closed circuit admits every call. It opens when half of at least 20 calls
// failed within 10 seconds, or after so many failures in a row, over at least a
// second, that the service must serve nobody. An open circuit refuses every call with an
// [*OpenError], for about 1/40 of the outage so far. Then it is half-open: it admits one
// call at a time, as a probe. Two successes close it, and a failure opens it again.
//
// A call succeeds if its error is nil or of ClassPermanent, such as a 404. Any
// other error, a panic and a runtime.Goexit are failures. Of an [*Error] the
// last error counts.
//
// A throttled response (ClassThrottled or ClassOverloaded, such as HTTP 429)
// does not count while other calls succeed. If no call has succeeded for a
// whole Window, MinCalls throttled and failed calls in a row open the circuit,
// unless FailureRate is negative. A throttled probe fails.
//
// Never counted are the cancellation of the caller's context, a deadline of the
// caller that left less time than the service usually takes to answer, a
// context.Canceled of the operation, the error of a policy that made no
// attempt, ErrOpen, ErrBudget, a ClassThrottled response that asks for a wait
// beyond MaxRetryAfter, and a call during which the circuit changed its state.
//
// Calls that a probe makes through the breaker with its context, such as for a token,
// pass and do not count.
//
// The zero value is ready to use. It is safe for concurrent use, and must not be
// copied, nor its fields changed, after first use. The functions in Jitter,
// OpenFor and Rand must not call the breaker. A panic in Classify or TripIf
// passes through.
//
// Sources: Nygard, "Release It!"; Brooker, "Fixing retries with token buckets
// and circuit breakers", 2022; the documentation of Linkerd and Envoy.
type Breaker struct {
	_ [0]func() // no unkeyed literals, no ==

	// Name of the service in errors and transitions.
	Name string

	// Share of calls in the window that must fail to open the circuit, at most
	// 1. Defaults to 0.5; negative switches the rule off.
	FailureRate float64

	// Calls that the window must hold before its rates count. Defaults to 20;
	// negative means 1. WindowCalls, if set, is its upper bound.
	MinCalls int

	// Time over which the rates are measured. Defaults to 10 seconds; negative
	// means all the time since the circuit closed, and that throttled responses
	// never open it.
	Window time.Duration

	// Calls over which the rates are measured, instead of Window, at most
	// 10,000. 0 and negative mean that Window counts.
	WindowCalls int

	// Failures in a row that open the circuit. Defaults to 5, and to more if
	// calls before them failed, too. Negative switches the rule off.
	ConsecutiveFailures int

	// Least time from the first of these failures to the last. Defaults to 1
	// second; negative means none. Unless WindowCalls is set, FailureRate does not open a
	// circuit that has been closed for less, if a call succeeded since.
	ConsecutiveSpan time.Duration

	// Duration from which a call counts as slow, even if it succeeds. 0 and
	// negative mean that no call is slow. A slow probe fails.
	SlowCall time.Duration

	// Share of calls in the window that must be slow to open the circuit, at
	// most 1. Defaults to 0.5; negative switches the rule off.
	SlowRate float64

	// Custom rule, which returns true to open the circuit; nil means none. It
	// is asked after a failed, throttled or slow call for which the other rules
	// did not open it. It may call the breaker.
	TripIf func(BreakerStats) bool

	// Time that the circuit stays open: OpenFor.Delay(1) the first time,
	// OpenFor.Delay(2) the second, and so on, until it was closed for a whole
	// Window. The default depends on the failure that opened it.
	//
	// If no call succeeds, or after a failure of ClassNotSent that is no timeout, it is
	// 1/40 of the outage so far, but at least 330 ms, or a quarter of the outage if that
	// is less; at least 25 ms, at most a minute. After a timeout it is at least 5 mean
	// gaps between calls, up to 2 s, or 20 and up to 5 s if some calls succeed. It starts
	// at the last probe.
	//
	// Otherwise it is Exponential{Initial: 5 * time.Second, Multiplier: 1.2, Max:
	// time.Minute}, counting only such openings; after a timeout it is no longer than
	// that. With Shared or TripIf only ClassNotSent differs: 250 ms, and a fifth longer
	// each time.
	OpenFor Schedule

	// Spread of OpenFor. Defaults to UniformJitter(0.8, 1.2).
	Jitter Jitter

	// Longest time that a server or Shared may keep it open. Defaults to 5
	// minutes; negative means no limit. If a failure that opens it says when to
	// retry, it stays open at least so long, and up to a tenth longer; after
	// [Pushback] no longer.
	MaxRetryAfter time.Duration

	// Probes at the same time, at most 1,000. Defaults to 1; negative means 1,000.
	// An undecided probe allows one more.
	MaxProbes int

	// Probes in a row that must succeed to close the circuit. Defaults to 2;
	// negative is invalid.
	ProbeSuccesses int

	// Time after which another call may probe beside an unfinished probe, whose result
	// still counts, except a failure after a later probe succeeded. Defaults to the time
	// that the circuit was open, and at least to 25 ms, or to OpenFor.Delay(1) if OpenFor
	// is set. Less means the default.
	ProbeTimeout time.Duration

	// Time after the probes until all calls are admitted: a tenth of them at
	// first, chosen at random, then more and more. 0 and negative mean none.
	RampUp time.Duration

	// Least duration at which a call that its caller's deadline ended counts as a
	// failure. Defaults to none, or to 1 second if a client of this process chose the
	// deadline (see WithInboundDeadline of package guard), and the error is not
	// ErrAttemptTimeout. It must also have outlasted a usual answer, or twice that if
	// another call was answered meanwhile. Negative means neither.
	MinAttemptTime time.Duration

	// Classifier of errors. Defaults to DefaultClassifier.
	Classify Classifier

	// Receiver of all transitions, and of an EventRefused for each refused
	// call; nil means none. A transition is reported on a goroutine of its own.
	// The call that caused it usually waits for that, so the Observer must not
	// take a lock that the call holds. It may call the breaker.
	Observer Observer

	// Link to the breakers of other processes, which know the service by Name;
	// nil means none. See contrib/fleet/README.md. It is asked under [ModeEnforce] only.
	// The methods must be safe for concurrent use, and not call a breaker.
	// Consult and Probe return the transition to make (To, RetryAfter, Err, and
	// Openings of the whole fleet), or the zero one for none.
	Shared interface {
		// Consult advises a circuit that is closed in this process. The first
		// call under the circuit waits for the advice, and so does the first
		// one after wake, which may be called at any time.
		Consult(ctx context.Context, name string, wake func()) BreakerTransition

		// Probe advises a call that may probe; timeout is how long it may take.
		// A transition to BreakerHalfOpen refuses it, because another process
		// probes. One to BreakerOpen also opens the circuit.
		Probe(ctx context.Context, name string, timeout time.Duration) BreakerTransition

		// Opened reports that this process opened the circuit, and how many
		// times in a row, not counting those after a failure of ClassNotSent.
		// Opened and Closed are called under a lock and must not block.
		Opened(name string, openFor time.Duration, openings int)

		// Closed reports that probes of this process closed the circuit.
		Closed(name string)
	}

	// Source of numbers for Jitter and RampUp, uniform in [0,1). Defaults to
	// math/rand/v2. It must be safe for concurrent use.
	Rand func() float64

	phase atomic.Pointer[phase] // nil before first use

	mu    inorder.Mutex // its Unlock reports transitions to the Observer
	timer *time.Timer   // end of the open phase; nil if none is set
	row   *circuit.Row  // newest openings in a row; nil if there were none
	usual circuit.Usual // how long the service takes to answer
}

const maxWindowCalls = 10_000

// A BreakerState is what a [Breaker] does with calls.
type BreakerState uint8

const (
	// BreakerClosed admits all calls.
	BreakerClosed BreakerState = iota
	// BreakerOpen refuses all calls.
	BreakerOpen
	// BreakerHalfOpen admits a few calls as probes.
	BreakerHalfOpen
)

// String returns the name of the state in lower case.
func (s BreakerState) String() string {
	return [...]string{"closed", "open", "half-open", "invalid"}[min(s, BreakerHalfOpen+1)]
}

// A BreakerMode says whether a [Breaker] acts on its state. See [Breaker.Force].
type BreakerMode uint8

const (
	// ModeEnforce refuses calls according to the state.
	ModeEnforce BreakerMode = iota
	// ModeObserve goes through the same states and refuses nothing. The results
	// of calls that it would have refused do not count.
	ModeObserve
	// ModeForcedOpen refuses everything.
	ModeForcedOpen
	// ModeForcedClosed admits everything and counts nothing.
	ModeForcedClosed

	modeInvalid // Validate returns an error
)

// String returns the name of the mode in lower case.
func (m BreakerMode) String() string {
	return [...]string{"enforce", "observe", "forced open", "forced closed", "invalid"}[min(m, modeInvalid)]
}

// A BreakerTransition is a change of state of a [Breaker].
type BreakerTransition struct {
	_ [0]func() // no unkeyed literals, no ==

	Name     string // name of the breaker
	From, To BreakerState

	// Cause of the change: "rate" (FailureRate), "consecutive"
	// (ConsecutiveFailures), "slow" (SlowRate), "rule" (TripIf), "time" (a call
	// came after the open time), "probe" (probes succeeded, or one failed),
	// "manual" (Trip, Reset or Force), or "shared" (Shared).
	Trigger string

	At         time.Time
	Generation uint64        // changes of state so far, this one included; a Reset or Force that keeps the state counts, too
	Openings   int           // times that the circuit opened since it was last closed for a whole Window; often 130 in the first minute
	Err        error         // failure that opened the circuit
	RetryAfter time.Duration // time that the circuit will be open; 0 if it is not known
}

// BreakerStats is the state of a [Breaker]. Successes, Failures, Slow and
// ConsecutiveFailures count calls since the circuit closed. They stay as they
// are while it is not closed.
type BreakerStats struct {
	State               BreakerState
	Mode                BreakerMode
	Successes           uint64        // calls in the window that succeeded, slow ones included
	Failures            uint64        // calls in the window that failed, without throttled ones
	Slow                uint64        // calls in the window that took SlowCall or longer
	ConsecutiveFailures int           // failures since the last success
	Openings            int           // times that the circuit opened, as in BreakerTransition
	Probes              int           // probes under way
	Generation          uint64        // changes of state so far, as in BreakerTransition
	RetryAfter          time.Duration // time that the circuit will still be open
}

// Do calls op and returns its error as it is. If it does not call op, it
// returns an [*OpenError] because the circuit refused the call, the error and
// cause of ctx because that had ended, or the error of Validate. A panic or a
// runtime.Goexit of op passes through.
func (b *Breaker) Do(ctx context.Context, op func(context.Context) error) error {
	p := b.current()
	path := p.Path.Load()
	if path == circuit.PathRefuse && !waker.Since(ctx, p.Began) {
		return b.refuse(ctx, p.refusal)
	}
	if ctx.Err() != nil {
		return errtree.Ended(ctx)
	}
	c := call{breaker: b, ctx: ctx, phase: p}
	if path != circuit.PathCount {
		var err error
		if c, err = b.admit(ctx, p); err != nil {
			return err
		}
	}
	ctx = force.Breaker(c.begin(), b)
	defer c.leave()
	err := op(ctx)
	c.returned = true
	switch {
	case err != nil || path != circuit.PathCount:
		c.report(err)
	case !p.Good.TryAdd():
		p.Good.AddApart()
	}
	return err
}

// Wrap returns op under the breaker.
func (b *Breaker) Wrap(op func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error { return b.Do(ctx, op) }
}

// Allow asks whether the caller may make a call, without blocking. If so, the
// caller makes it and passes its error to done, nil for success. Only the first
// call of done counts. If done is never called, the call does not count. If the
// circuit refuses the call, err is an [*OpenError] and done is nil.
//
// done knows no context: a context.Canceled does not count, and a
// context.DeadlineExceeded is a failure.
func (b *Breaker) Allow() (done func(error), err error) {
	c, err := b.admit(context.Background(), b.current())
	if err != nil {
		return nil, err
	}
	var called atomic.Bool
	return func(err error) {
		if called.CompareAndSwap(false, true) {
			c.report(err)
		}
	}, nil
}

// State returns the state at this moment. An open circuit whose time is over is
// half-open; the Observer hears of that when the next call comes.
func (b *Breaker) State() BreakerState {
	p := b.phase.Load()
	switch {
	case p == nil:
		return BreakerClosed
	case p.Expired():
		return BreakerHalfOpen
	}
	return BreakerState(p.Kind)
}

// Stats returns the state of the breaker in detail. It takes a lock.
func (b *Breaker) Stats() BreakerStats {
	b.lock()
	defer b.mu.Unlock()
	return b.stats()
}

// Trip opens the circuit, unless it is open or forced.
func (b *Breaker) Trip() { b.apply(circuit.Input{Kind: circuit.Trip}) }

// Reset closes the circuit and forgets all failures and openings, unless the
// circuit is forced. Calls under way do not count.
func (b *Breaker) Reset() { b.apply(circuit.Input{Kind: circuit.Reset}) }

// Force puts the breaker in a mode. If it was in another one, it forgets
// everything, and calls under way do not count. Force does nothing if the mode
// is unknown or the breaker is invalid.
func (b *Breaker) Force(m BreakerMode) {
	b.apply(circuit.Input{Kind: circuit.Force, Mode: circuit.Mode(m)})
}

// Validate reports every invalid field with its value, or returns nil. The
// breaker calls it before first use.
func (b *Breaker) Validate() error {
	if b == nil {
		return invalid("Breaker", "is nil")
	}
	var calls, probes, name error
	if b.WindowCalls > maxWindowCalls {
		calls = invalid("Breaker.WindowCalls", "is "+strconv.Itoa(b.WindowCalls)+", want at most "+strconv.Itoa(maxWindowCalls))
	}
	if b.ProbeSuccesses < 0 {
		probes = invalid("Breaker.ProbeSuccesses", "is "+strconv.Itoa(b.ProbeSuccesses)+", want 0 (for 2) or more")
	}
	if b.Shared != nil && b.Name == "" {
		name = invalid("Breaker.Name", "is empty, want the name that the processes of Shared know the service by")
	}
	return join(
		checkRate("Breaker.FailureRate", b.FailureRate),
		checkRate("Breaker.SlowRate", b.SlowRate),
		calls,
		checkSchedule("Breaker.OpenFor", b.OpenFor),
		checkJitter("Breaker.Jitter", b.Jitter),
		probes,
		name,
		validate("Breaker.Shared", b.Shared),
	)
}

// checkRate returns the error of a rate that is above 1 or no number.
func checkRate(field string, rate float64) error {
	if rate <= 1 {
		return nil
	}
	return invalid(field, "is "+strconv.FormatFloat(rate, 'g', -1, 64)+", want 0 (for 0.5), a share up to 1, or a negative number for none")
}
