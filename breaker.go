package backoff

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/internal/circuit"
	"github.com/gobackoff/backoff/internal/inbound"
	"github.com/gobackoff/backoff/internal/inorder"
)

// A Breaker is a circuit breaker, the CircuitBreaker of other libraries: it
// stops calls to a service that is down, and finds out when the service is
// back. Around a [Policy] it sees one result per call, after all retries;
// inside one, as policy.Do(ctx, breaker.Wrap(op)), it sees a result per attempt. A
// guard.Service has one around its calls. This is the usual order:
//
//	err := breaker.Do(ctx, policy.Wrap(op))
//
// A breaker starts closed: it admits every call. It opens when at least half of
// at least 20 calls failed within 10 seconds, or after 5 failures in a row over
// at least a second. While it is open, it refuses every call with an
// [*OpenError]: for 5 seconds the first time, and a fifth longer each time that
// it opens again, up to a minute. After that it is half-open: it admits one
// call at a time, as a probe. Two successful probes close it, and a failed one
// opens it again. Recovery is noticed within 5 seconds plus a fifth of the
// outage, and within a minute at most.
//
// A refused connection costs the service nothing. So if the failure that opens
// the circuit is of ClassNotSent, the first one or that of a probe, the circuit
// stays open for a quarter of a second in place of the 5 seconds. It is a fifth
// longer each time, too. So the end of a restart is noticed a quarter of a
// second and a fifth of the restart later. A timeout is never such a failure,
// whatever its class.
//
// # What counts
//
// A call succeeds if its error is nil, or a definitive response
// (ClassPermanent, such as a 404). Any other error is a failure, and so is a
// panic or a runtime.Goexit of the operation, which the breaker does not stop.
// For an [*Error] of a policy the breaker looks at its last error.
//
// A throttled response (ClassThrottled or ClassOverloaded, such as HTTP 429)
// is a rate, not an outage: the service is up, and serves others. While any
// call of the window succeeds, it counts neither as a failure nor as a call,
// nor as a slow one. If nothing succeeded for a whole Window (or for
// WindowCalls calls), it is an outage after all: then MinCalls throttled calls
// and failures without a success between them open the circuit, unless
// FailureRate is negative. A probe that is throttled fails.
//
// Some errors say nothing about the service and do not count at all: the
// cancellation of the caller's context, an operation's own context.Canceled,
// the error of a policy that made no attempt, a refusal by another breaker or
// by a [Budget] (ErrOpen, ErrBudget), and a ClassThrottled response that asks
// for a longer wait than MaxRetryAfter: the quota of one caller is used up.
//
// A result counts only while the breaker is in the phase that admitted the
// call: a late result neither closes the circuit nor opens it. A probe that
// hangs loses its slot after ProbeTimeout, and the next call may probe.
//
// # Use
//
// The zero value is ready to use. A Breaker must not be copied, nor its fields
// changed, after first use. It is safe for concurrent use. While calls succeed
// it takes no lock, allocates nothing and reads no clock, unless SlowCall,
// MinAttemptTime or RampUp is set, or a client has chosen the deadline. A
// refusal costs two loads. It has no goroutine; while it is open it has a
// timer, which does not keep a forgotten breaker alive. The functions in
// Jitter, OpenFor and Rand must not call the breaker. A panic in Classify or
// TripIf passes through.
//
// A Breaker limits neither time nor concurrency, does not retry and does not
// wait: it refuses a call at once.
//
// Sources: Nygard, "Release It!"; Brooker, "Fixing retries with token buckets
// and circuit breakers", 2022; the documentation of Linkerd and Envoy, "Circuit
// breaking", "Outlier detection".
type Breaker struct {
	_ [0]func() // no unkeyed literals, no ==

	// Name is the name of the service in errors and transitions.
	Name string

	// FailureRate is the share of failures among the calls in the window that
	// opens the circuit, at most 1. 0 means 0.5; a negative rate switches the
	// rule off. The breaker applies its rules when a call fails or is slow: a
	// success never opens the circuit.
	FailureRate float64
	// MinCalls is how many calls the window must hold before a rate counts. 0
	// means 20; a negative number means 1. It is never more than WindowCalls,
	// if that is set.
	MinCalls int
	// Window is the time over which the rates are measured. It moves in steps
	// of a tenth. 0 means 10 seconds; a negative one reaches back to when the
	// circuit last closed, and throttled responses then never count.
	//
	// The breaker reads no clock when a call succeeds. It dates successes at
	// the next failure, as if they had been spread evenly over the time since
	// the failure before. In the first seconds after a long time without
	// failures it counts them all.
	Window time.Duration
	// WindowCalls measures the rates over the last WindowCalls calls instead,
	// exactly and however long ago they were; at most 10,000. 0 and negative
	// mean Window.
	WindowCalls int
	// ConsecutiveFailures is how many failures without a success between them
	// open the circuit, if they come over ConsecutiveSpan at least. 0 means 5; a
	// negative number switches the rule off.
	ConsecutiveFailures int
	// ConsecutiveSpan is the least time between the first of these failures and
	// the last. It keeps a single lost connection, with a hundred calls on it,
	// from opening the circuit. It is also how long the circuit must have been
	// closed before FailureRate counts, if some calls succeed and WindowCalls is
	// not set: a RetryBudget must first learn that retries succeed. Before the
	// first success of all, calls that have not ended count as successes for so
	// long. 0 means 1 second; negative means no time.
	ConsecutiveSpan time.Duration
	// SlowCall is the duration from which a call counts as slow, even if it
	// succeeds. A slow probe is a failed one. It costs two readings of the
	// clock per call. 0 and negative mean that no call is slow.
	SlowCall time.Duration
	// SlowRate is the share of slow calls in the window that opens the circuit,
	// at most 1. 0 means 0.5; a negative rate switches the rule off.
	SlowRate float64
	// TripIf is a custom rule, like the ReadyToTrip of other libraries. It is
	// called after every failed, throttled or slow call that did not open the
	// circuit by the other rules, with no lock held: it may call the breaker.
	// nil means none.
	TripIf func(BreakerStats) bool

	// OpenFor is how long the circuit stays open: OpenFor.Delay(1) the first
	// time, OpenFor.Delay(2) if it opens again, and so on. The count starts
	// again when the circuit opens after it was closed for Window, or for
	// WindowCalls calls if they are set. nil means Exponential{Initial: 5 *
	// time.Second, Multiplier: 1.2, Max: time.Minute}. If the circuit opened
	// because of a failure of ClassNotSent, Initial is 250 ms, and such openings
	// do not count for how long the others are. Envoy uses Linear{Initial: 30 *
	// time.Second, Max: 5 * time.Minute}. What a longer or shorter one costs is
	// in docs/simulation.md.
	OpenFor Schedule
	// Jitter spreads OpenFor. nil means UniformJitter(0.8, 1.2).
	Jitter Jitter
	// MaxRetryAfter bounds how long a server, or Shared, may keep the circuit
	// open. If a failure that led to the opening said when to retry, the
	// circuit stays open at least that long, and up to a tenth longer; by
	// [Pushback] exactly that long. A throttled response that asks for longer
	// does not count. 0 means 5 minutes, a negative one no limit.
	MaxRetryAfter time.Duration

	// MaxProbes is how many probes a half-open circuit admits at the same time.
	// 0 means 1. More than 1,000 and negative numbers mean 1,000.
	MaxProbes int
	// ProbeSuccesses is how many probes must succeed in a row to close the
	// circuit. 0 means 2, because a single call may get through to a service
	// that is almost down. A negative number is invalid.
	ProbeSuccesses int
	// ProbeTimeout is how long the breaker waits for the result of a probe until
	// the next call may probe, too. A later result counts as long as the circuit
	// is half-open. 0, and any shorter time, means as long as the circuit was
	// open, but no less than OpenFor.Delay(1), or than 5 seconds if OpenFor is nil.
	ProbeTimeout time.Duration
	// RampUp is how long it takes, after probes closed the circuit, until all
	// calls are admitted: a tenth of them at first, chosen at random, then more
	// and more. 0 and negative mean all at once.
	RampUp time.Duration

	// MinAttemptTime is how long a call must have run for its caller's deadline
	// to count as a failure; after less time the deadline does not count at
	// all. It costs a reading of the clock per call. 0 means 1 second for the
	// deadlines that clients of this process have chosen, as Inbound of
	// backoffhttp and the interceptors of backoffgrpc mark them, unless an
	// attempt timed out before; every other deadline counts, except one that
	// passed before the call. A negative time means that all of them count.
	// Other servers call WithInboundDeadline of package guard.
	MinAttemptTime time.Duration
	// Classify sorts errors. nil means DefaultClassifier.
	Classify Classifier
	// Observer receives every change of state, in order, one at a time, and
	// with no lock held: it may call the breaker. It runs on a goroutine of
	// its own. The call that caused the change waits for it, unless an earlier
	// change is still being delivered; so the Observer must not wait for
	// something that this call holds. It also receives an EventRefused for
	// every call that is refused, on the goroutine of that call. nil means
	// none.
	Observer Observer
	// Shared is what the processes of a fleet tell each other about the service,
	// which they know by Name; the Client of contrib/fleet keeps it in a store. The
	// breaker may ignore it. It opens a closed circuit that has not seen MinCalls in
	// the window, or whose last call failed; and it keeps a half-open one from probing
	// while another process does. If the store is slow, gone or wrong, the breaker
	// decides by what it sees itself. It is asked under ModeEnforce only, and about
	// once a second at most; other calls cost what they cost without it. nil means
	// none.
	//
	// Its advice is the BreakerTransition that a circuit should make: To, RetryAfter
	// for how long an open circuit stays open (bounded by MaxRetryAfter), Openings of
	// the whole fleet, and Err as the reason. The zero BreakerTransition advises
	// nothing. The methods must be safe for concurrent use, and not call a breaker.
	Shared interface {
		// Consult advises a circuit that is closed in this process: to open, or to
		// become half-open. It is called by the first call of a closed circuit, and
		// by the first call after wake. It should return from memory; if it blocks,
		// it holds up that call only. wake may be called at any time, any number of
		// times, or never. It takes no lock, does not block, and does not keep a
		// forgotten breaker alive.
		Consult(ctx context.Context, name string, wake func()) BreakerTransition
		// Probe advises each call that may probe a circuit which is half-open in this
		// process; timeout is how long the probe may take. The zero
		// BreakerTransition lets the call probe. BreakerHalfOpen refuses it, because
		// another process probes. BreakerOpen refuses it and opens the circuit.
		Probe(ctx context.Context, name string, timeout time.Duration) BreakerTransition
		// Opened reports that this process opened the circuit by what it saw: for how
		// long, and how many times in a row, at least 1. Openings by ClassNotSent are
		// not counted. It is called under a lock and must not block, as is Closed.
		Opened(name string, openFor time.Duration, openings int)
		// Closed reports that probes of this process closed the circuit.
		Closed(name string)
	}
	// Rand draws the numbers for Jitter and RampUp, uniformly from [0,1). It
	// must be safe for concurrent use. nil means math/rand/v2.
	Rand func() float64

	phase atomic.Pointer[phase] // nil before first use

	mu    inorder.Mutex // after Unlock it reports transitions to the Observer
	timer *time.Timer   // of the open phase; nil if there is none
	row   *openings     // the last ones in a row; nil if there were none
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
	// ModeObserve goes through the same states and refuses nothing, to try a
	// breaker out. The results of calls that it would have refused do not
	// count.
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

// A BreakerTransition is a change of state of a [Breaker]. From is the To of the
// transition before.
type BreakerTransition struct {
	_ [0]func() // no unkeyed literals, no ==

	Name     string // of the breaker
	From, To BreakerState
	// Trigger is what made the breaker change its state: "rate", "consecutive"
	// or "slow", if FailureRate, ConsecutiveFailures or SlowRate was reached;
	// "rule", if TripIf said so; "time", if the open time had expired and a call
	// came; "probe", if probes succeeded or one failed; "manual", by
	// [Breaker.Trip], [Breaker.Reset] or [Breaker.Force]; "shared", if Shared
	// said so.
	Trigger string
	At      time.Time
	// Generation is the number of the phase that began. Not every phase has a
	// transition: Reset of a closed circuit begins one, and the state stays the
	// same.
	Generation uint64
	Openings   int           // in a row, without a healthy Window between
	Err        error         // the failure that opened the circuit
	RetryAfter time.Duration // how long the circuit will be open; 0 if that is not known
}

// BreakerStats is the state of a [Breaker]. Successes, Failures and Slow count
// the calls in the window since the circuit closed. Until it closes again, an
// open circuit keeps them and ConsecutiveFailures as they were when it opened.
type BreakerStats struct {
	State               BreakerState
	Mode                BreakerMode
	Successes           uint64        // calls that succeeded, slow ones included
	Failures            uint64        // calls that failed; throttled ones are not among them
	Slow                uint64        // calls that took SlowCall or longer
	ConsecutiveFailures int           // failures since the last success
	Openings            int           // in a row, without a healthy Window between them
	Probes              int           // under way
	Generation          uint64        // the number of the phase, counted from 0
	RetryAfter          time.Duration // how long the circuit will still be open
}

// Do calls op and returns its error as it is. If the circuit is open, Do
// returns an [*OpenError] at once and does not call op. If ctx has ended, Do
// returns its error and does not call op. An invalid breaker refuses every call
// with the error of Validate.
//
// A panic or a runtime.Goexit of op passes through and counts as a failure.
// While op succeeds Do allocates nothing; op stays on the caller's stack.
func (b *Breaker) Do(ctx context.Context, op func(context.Context) error) error {
	p := b.current()
	path := p.Path.Load()
	if path == circuit.PathRefuse {
		return b.refuse(ctx, p.refusal)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c := call{breaker: b, ctx: ctx, phase: p}
	if path != circuit.PathCount {
		var err error
		if c, err = b.admit(ctx, p); err != nil {
			return err
		}
	}
	if c.began == 0 && c.phase != nil && inbound.Limits(ctx) {
		c.began = c.phase.Age()
	}
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

// Wrap returns a function that calls op under the breaker.
func (b *Breaker) Wrap(op func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error { return b.Do(ctx, op) }
}

// Allow asks whether the caller may make a call. If so, the caller makes it
// and passes its error to done, nil for success. Only the first call of done
// counts. If done is never called, the call does not count, and the slot of a
// probe is free again after ProbeTimeout. done knows no context: an error that
// is context.Canceled does not count, and context.DeadlineExceeded is a
// failure.
//
// Allow does not block. If the circuit is open, err is an [*OpenError] and done
// is nil.
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

// State returns the state at this moment. An open circuit whose time has
// expired is half-open, although the Observer receives it when the next call
// comes.
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

// Stats returns the state of the breaker in detail. It takes the lock.
func (b *Breaker) Stats() BreakerStats {
	b.lock()
	defer b.mu.Unlock()
	return b.stats()
}

// Trip opens the circuit, as failures would. It does nothing if the circuit is
// open already, or forced.
func (b *Breaker) Trip() { b.apply(circuit.Input{Kind: circuit.Trip}) }

// Reset closes the circuit and forgets all failures and openings, unless the
// circuit is forced. The results of calls under way do not count.
func (b *Breaker) Reset() { b.apply(circuit.Input{Kind: circuit.Reset}) }

// Force puts the breaker in a mode. If it was in another one, it forgets
// everything and starts closed, or open for good in ModeForcedOpen; the results
// of calls under way do not count. An unknown mode changes nothing, nor does
// any mode if the breaker is invalid.
func (b *Breaker) Force(m BreakerMode) {
	b.apply(circuit.Input{Kind: circuit.Force, Mode: circuit.Mode(m)})
}

// Validate reports every field that has a value it must not have, and that
// value, or returns nil. The breaker calls it before first use.
func (b *Breaker) Validate() error {
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
	return errors.Join(
		checkRate("Breaker.FailureRate", b.FailureRate),
		checkRate("Breaker.SlowRate", b.SlowRate),
		calls,
		checkSchedule("Breaker.OpenFor", b.OpenFor),
		checkJitter("Breaker.Jitter", b.Jitter),
		probes,
		name,
		validate(b.Shared),
	)
}

// checkRate returns the error of a rate that is above 1 or no number.
func checkRate(field string, rate float64) error {
	if rate <= 1 {
		return nil
	}
	return invalid(field, "is "+strconv.FormatFloat(rate, 'g', -1, 64)+", want 0 (for 0.5), a share up to 1, or a negative number for none")
}
