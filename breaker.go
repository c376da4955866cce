package backoff

import (
	"context"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
)

// A Breaker stops calling a service that is down, and finds out when it is back. Around
// a [Policy] it hears one verdict per call, the usual way; inside one, a verdict per
// attempt. [Stack] says which:
//
//	var service = backoff.Stack(&backoff.Breaker{Name: "search"}, &backoff.Policy{Name: "search"})
//
// Closed, it lets everything through. It opens when at least half of at least 20 calls
// failed within 10 seconds, or after 5 failures in a row over at least a second. Open,
// it refuses every call with an [*OpenError], for 5 seconds the first time and up to a
// minute when opened again and again. Then, half-open, it admits one call at a time:
// two successes close it, a failure opens it again.
//
// Success is a nil error, and a definitive answer (ClassPermanent, such as a 404).
// ClassThrottled and ClassOverloaded fail a probe and count for the rate of failures,
// but not for those in a row. Every other class is a failure, and so are a panic and a
// runtime.Goexit, which go on as they would without the breaker. An [*Error] of a
// policy is judged by its last error. Neutral, and without consequence, is what says
// nothing of the service: the caller's own cancellation, an operation's
// context.Canceled, a policy's end without an attempt, and the refusal of another
// breaker or a [Budget] (ErrOpen, ErrBudget).
//
// The answer to a call counts only while the breaker is still in the phase that
// admitted it; what comes later is dropped. So a call that outlives the phase can
// neither close the circuit nor open it. A probe holds a lease, which ends with its
// answer or with its time; so a probe that hangs does not keep others away for ever.
//
// The zero value is ready to use. A Breaker must not be copied, nor its fields changed,
// after first use. It is safe for concurrent use. While calls succeed it takes no lock,
// reads no clock (unless SlowCall, MinAttempt or Ramp ask it to) and allocates nothing;
// a refusal costs two loads. It has no goroutine; while it is open there is a timer,
// which does not keep a forgotten breaker alive. The functions in Jitter, OpenFor and
// Rand must not call the breaker. A panic in Classify or TripIf passes through.
//
// It does not limit time or concurrency, does not retry, and does not wait: a refused
// call comes back at once.
//
// Sources: Nygard, "Release It!"; Brooker, "Fixing retries with token buckets and
// circuit breakers", 2022; Linkerd's and Envoy's documentation, "Circuit breaking",
// "Outlier detection".
type Breaker struct {
	_ [0]func() // no unkeyed literals, no ==

	// Name is the service, as it should stand in errors and transitions.
	Name string

	// FailureRate is the share of failures among the calls in the window that opens the
	// circuit when it is reached, at most 1. 0 means 0.5, a negative one switches the
	// rule off. The rules are looked at when a call fails or is slow: a success never
	// opens the circuit.
	FailureRate float64
	// MinCalls is how many calls the window must hold before a rate is looked at. 0
	// means 20, a negative number means 1. A shorter WindowCalls bounds it.
	MinCalls int
	// Window is the time over which rates are measured, in steps of a tenth. 0 means 10
	// seconds; a negative one reaches back to when the circuit was last closed. A
	// success is not dated when it comes, as that would cost a clock reading per call,
	// but at the next failure, as if those since the last one had been spread evenly
	// over the time between. In the seconds after a long time without failures it
	// counts in any case.
	Window time.Duration
	// WindowCalls measures rates over the last so many calls instead, exactly, however
	// long ago they were; at most 10,000. 0 and negative mean Window.
	WindowCalls int
	// Streak is how many failures without a success between them open the circuit. 0
	// means 5, a negative number switches the rule off.
	ConsecutiveFailures int
	// ConsecutiveSpan is the time that must lie between the first and the last of them, at
	// least, so that a lost connection with a hundred calls on it is no streak. 0 means
	// 1 second, a negative one no time.
	ConsecutiveSpan time.Duration
	// SlowCall is how long a call takes, at least, that counts as slow, a success too.
	// A slow probe is a failed one. It costs two readings of the clock per call. 0 and
	// negative mean that no call is slow.
	SlowCall time.Duration
	// SlowRate is the share of slow calls in the window that opens the circuit, at most
	// 1. 0 means 0.5, a negative one switches the rule off.
	SlowRate float64
	// TripIf is a rule of the user's own, asked after every failed or slow call that
	// did not open the circuit by the other rules, with no lock held: it may call the
	// breaker. nil means none.
	TripIf func(BreakerStats) bool

	// OpenFor is how long the circuit stays open: OpenFor.Delay(1) the first time, and
	// so on. The count starts again when the circuit opens after having been closed for
	// Window (for WindowCalls calls, where these are set). nil means
	// Exponential{Initial: 5 * time.Second, Max: time.Minute}; Envoy's is
	// Linear{Initial: 30 * time.Second, Max: 5 * time.Minute}.
	OpenFor Schedule
	// Jitter spreads OpenFor. nil means UniformJitter(0.8, 1.2).
	Jitter Jitter
	// MaxRetryAfter bounds how long a server, or Shared, may keep the circuit open. A hint of a failure
	// that led to the opening makes it at least as long, and up to a tenth longer, but
	// for those of [Pushback], which are exact. 0 means 5 minutes, a negative one no
	// limit.
	MaxRetryAfter time.Duration

	// Probes is how many calls a half-open circuit admits at the same time. 0 means 1,
	// a negative number no limit.
	MaxProbes int
	// Successes is how many probes must succeed, without a failure between them, to
	// close the circuit. 0 means 2, because a single call may get through to a service
	// that is all but down; negative ones are invalid.
	ProbeSuccesses int
	// Lease is how long a probe keeps its place without an answer; after that the next
	// call may probe, and a late answer is ignored. It should be as long as a call can
	// take. 0, and whatever is shorter, means as long as the circuit was open, but no
	// less than OpenFor.Delay(1).
	ProbeTimeout time.Duration
	// Ramp is how long, after probes closed the circuit, calls are admitted at random:
	// a tenth of them at first, all at its end. 0 and negative mean all at once.
	RampUp time.Duration

	// MinAttempt is the least time that a call must have had for its caller's deadline
	// to count as a failure; with less it is neutral. It costs a reading of the clock
	// per call. 0 and negative mean that every deadline counts, but for those passed
	// before the call.
	MinAttemptTime time.Duration
	// Classify sorts errors. nil means DefaultClassifier.
	Classify Classifier
	// Observer is told of every change of state, in order, one at a time, and with no
	// lock held: it may call the breaker. The call that caused the change waits for it,
	// unless an earlier change is still being told; so it must not wait for what that
	// call holds. It runs on a goroutine of its own. It is also told of every call that is
	// refused, on that call's goroutine. nil means none.
	Observer Observer
	// Shared is what the processes of a fleet tell one another of the service, which they
	// know by Name. It is a hint, and no more: it opens a closed circuit that has not seen
	// MinCalls in the window, or whose last call failed; and it keeps a half-open one from
	// probing where another process does. With a store that is slow, gone or lying the
	// breaker goes by what it sees itself. It is asked under ModeEnforce only, and about
	// once a second at most; other calls cost what they cost without it. nil means none.
	Shared Shared
	// Rand draws the numbers for Jitter and Ramp, uniformly from [0,1). It must be safe
	// for concurrent use. nil means math/rand/v2.
	Rand func() float64

	phase atomic.Pointer[phase] // nil before first use

	mu         sync.Mutex
	news       *news         // for Observer; nil as long as there were none
	prev       time.Duration // how long the circuit was open last, for Jitter
	generation uint32        // of phases
	openings   uint16        // in a row
	mode       Mode
}

const (
	defaultFailureRate         = 0.5
	defaultMinCalls            = 20
	maxWindowCalls             = 10_000
	defaultConsecutiveFailures = 5
	defaultConsecutiveSpan     = time.Second
	defaultMaxProbes           = 1
	defaultProbeSuccesses      = 2
	maxOpenings                = math.MaxUint16
)

var (
	defaultOpenFor    Schedule = Exponential{Initial: 5 * time.Second, Max: time.Minute}
	defaultOpenJitter          = UniformJitter(0.8, 1.2)
)

// A State is what a [Breaker] does with calls.
type State uint8

const (
	// StateClosed admits all calls.
	StateClosed State = iota
	// StateOpen refuses all calls.
	StateOpen
	// StateHalfOpen admits a few calls, to see what becomes of them.
	StateHalfOpen
)

// String returns the name of the state in lower case.
func (s State) String() string {
	return [...]string{"closed", "open", "half-open", "invalid"}[min(s, StateHalfOpen+1)]
}

// A Mode says whether a [Breaker] does what it finds right. See [Breaker.Force].
type Mode uint8

const (
	// ModeEnforce refuses calls according to the state.
	ModeEnforce Mode = iota
	// ModeObserve goes through the same states, but refuses nothing: a breaker on
	// trial. Calls that it would have refused have no consequence for it.
	ModeObserve
	// ModeForcedOpen refuses everything.
	ModeForcedOpen
	// ModeForcedClosed admits everything and counts nothing.
	ModeForcedClosed

	modeInvalid // the breaker cannot be obeyed
)

// String returns the name of the mode in lower case.
func (m Mode) String() string {
	return [...]string{"enforce", "observe", "forced open", "forced closed", "invalid"}[min(m, modeInvalid)]
}

// A Trigger says what made a [Breaker] change its state.
type Trigger uint8

const (
	// TriggerRate: FailureRate was reached.
	TriggerRate Trigger = iota
	// TriggerConsecutive: Streak failures in a row, over ConsecutiveSpan.
	TriggerConsecutive
	// TriggerSlow: SlowRate was reached.
	TriggerSlow
	// TriggerRule: TripIf said so.
	TriggerRule
	// TriggerTime: the time of OpenFor was over, and a call came.
	TriggerTime
	// TriggerProbe: probes succeeded, or one failed.
	TriggerProbe
	// TriggerManual: by [Breaker.Trip], [Breaker.Reset] or [Breaker.Force].
	TriggerManual
	// TriggerShared: Shared said so.
	TriggerShared
)

// String returns the name of the trigger in lower case.
func (t Trigger) String() string {
	return [...]string{"rate", "consecutive", "slow", "rule", "time", "probe", "manual", "shared", "invalid"}[min(t, TriggerShared+1)]
}

// A Transition is a change of state of a [Breaker]. From is the To of the one before.
type Transition struct {
	Name       string // of the breaker
	From, To   State
	Trigger    Trigger
	At         time.Time
	Generation uint64        // the number of the phase that began; some have no transition, as Reset of a closed circuit
	Err        error         // the failure that opened the circuit
	RetryAfter time.Duration // how long it will be open; 0 if that is not known
}

// BreakerStats is the state of a [Breaker]. Successes, Failures and Slow are those of
// the window, since the circuit was closed.
type BreakerStats struct {
	State               State
	Mode                Mode
	Successes           uint64        // calls that succeeded, slow ones included
	Failures            uint64        // calls that failed, throttled ones included
	Slow                uint64        // calls that took SlowCall or longer
	ConsecutiveFailures int           // failures since the last success
	Openings            int           // in a row, without a healthy Window between
	Probes              int           // under way
	Generation          uint64        // the number of the phase, counted from 0
	RetryAfter          time.Duration // for how long the circuit will be open yet
}

// Do calls op, unless the circuit is open; then it returns an [*OpenError] at once.
// What op returns is returned as it is. If ctx has ended, op is not called, and the
// context's error returned. An invalid breaker refuses every call, with the error of
// Validate.
//
// A panic or a runtime.Goexit of op passes through, and counts as a failure. While op
// succeeds Do allocates nothing; op stays on the caller's stack.
func (b *Breaker) Do(ctx context.Context, op func(context.Context) error) error {
	p := b.phase.Load()
	if p == nil {
		return b.begin(ctx, op)
	}
	if path := p.path.Load(); path != pathQuick {
		if path == pathRefuse && b.Observer == nil {
			return p.refusal
		}
		return b.do(ctx, p, path, op)
	}
	a := admitted{b, p, ctx}
	if err := a.ctx.Err(); err != nil {
		return err
	}
	defer a.leave()
	if err := op(a.ctx); err != nil || !a.phase.good.TryAdd() {
		return a.settle(err)
	}
	a.phase = nil
	return nil
}

// around is Do around p.Do, in one: the usual pair costs one closure and one look at
// the context less than the two of them.
func (b *Breaker) around(ctx context.Context, p *Policy, op func(context.Context) error) error {
	phase := b.phase.Load()
	if phase == nil || phase.path.Load() != pathQuick {
		return b.apart(ctx, p, op)
	}
	a := admitted{b, phase, ctx}
	if p.needsRun() || a.ctx.Err() != nil {
		return a.breaker.apart(a.ctx, p, op)
	}
	defer a.leave()
	err := op(a.ctx)
	if err != nil {
		err = p.redo(a.ctx, op, err)
	} else {
		p.tellSuccess(a.ctx)
	}
	if err != nil || !a.phase.good.TryAdd() {
		return a.settle(err)
	}
	a.phase = nil
	return nil
}

// apart is around for all that is less usual.
func (b *Breaker) apart(ctx context.Context, p *Policy, op func(context.Context) error) error {
	return b.Do(ctx, func(ctx context.Context) error { return p.Do(ctx, op) })
}

// admitted is a call under way that was let in the quick way. What has to be known at its
// end is in one place from the beginning, so that the deferred call needs one pointer, and
// nothing is copied for it.
type admitted struct {
	breaker *Breaker
	phase   *phase // nil when the end is known
	ctx     context.Context
}

// leave is deferred.
func (a *admitted) leave() {
	if a.phase != nil {
		a.crashed()
	}
}

//go:noinline
func (a *admitted) crashed() { a.breaker.crashed(a.ctx, permit{phase: a.phase}) }

// settle takes in the end, and returns it.
//
//go:noinline
func (a *admitted) settle(err error) error {
	p := a.phase
	a.phase = nil // a panic of the user's classifier is not the operation's
	if err == nil {
		p.good.Add()
	} else {
		a.breaker.report(a.ctx, permit{phase: p}, err)
	}
	return err
}

// begin is the first Do.
func (b *Breaker) begin(ctx context.Context, op func(context.Context) error) error {
	b.current()
	return b.Do(ctx, op)
}

// do is Do with everything there may be to do.
func (b *Breaker) do(ctx context.Context, p *phase, path uint32, op func(context.Context) error) error {
	if path == pathRefuse {
		return b.refuse(ctx, p.refusal)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	t, err := b.admit(ctx, p)
	if err != nil {
		return b.refuse(ctx, err)
	}
	over := false
	defer func() {
		if !over {
			b.crashed(ctx, t)
		}
	}()
	err = op(ctx)
	over = true
	b.report(ctx, t, err)
	return err
}

// refuse returns why a call is refused, and tells it.
func (b *Breaker) refuse(ctx context.Context, why error) error {
	if b.Observer != nil {
		b.Observer.tell(ctx, &Event{Kind: EventRefused, Name: b.Name, Reason: refusalOf(why), Err: why})
	}
	return why
}

func refusalOf(err error) Reason {
	if _, ok := err.(*OpenError); ok {
		return ReasonOpen
	}
	return ReasonInvalid
}

// Wrap returns op under the breaker, for those who want a function.
func (b *Breaker) Wrap(op func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error { return b.Do(ctx, op) }
}

// Allow asks for a call that the caller makes himself: he calls done once with its
// error, nil for success; what he passes later is ignored. Where done is never called,
// there is no verdict, and a probe's place is free again after Lease. done knows no
// context: it takes an error that is context.Canceled for neutral and
// context.DeadlineExceeded for a failure.
//
// It does not block. If the circuit is open, err is an [*OpenError] and done is nil.
func (b *Breaker) Allow() (done func(error), err error) {
	t, err := b.admit(context.Background(), b.current())
	if err != nil {
		return nil, b.refuse(context.Background(), err)
	}
	var told atomic.Bool
	return func(err error) {
		if told.CompareAndSwap(false, true) {
			b.report(context.Background(), t, err)
		}
	}, nil
}

// State returns the state at this moment. An open circuit whose time is over is
// half-open, even if Observer is not told before a call comes.
func (b *Breaker) State() State {
	p := b.phase.Load()
	switch {
	case p == nil:
		return StateClosed
	case p.over():
		return StateHalfOpen
	}
	return p.state
}

// Stats returns the state of the breaker in detail. It takes the lock.
func (b *Breaker) Stats() BreakerStats {
	p := b.lock()
	defer b.unlock(context.Background())
	return b.stats(p)
}

// Trip opens the circuit, as failures would. It does nothing if that is open already,
// or forced.
func (b *Breaker) Trip() {
	b.lock()
	defer b.unlock(context.Background())
	if b.mode <= ModeObserve && b.turn().state != StateOpen {
		b.open(TriggerManual, result{})
	}
}

// Reset closes the circuit, unless it is forced, and forgets all failures and openings.
// What is under way has no consequence.
func (b *Breaker) Reset() {
	b.lock()
	defer b.unlock(context.Background())
	if b.mode <= ModeObserve {
		b.restart()
	}
}

// Force puts the breaker in a mode. If it was in another one, it forgets everything,
// and starts closed, or open for good in ModeForcedOpen. What is under way has no
// consequence. An unknown mode, and an invalid breaker, change nothing.
func (b *Breaker) Force(m Mode) {
	b.lock()
	defer b.unlock(context.Background())
	if m == b.mode || m >= modeInvalid || b.mode == modeInvalid {
		return
	}
	b.mode = m
	b.restart()
}

// Validate says what is wrong with the breaker, naming the field and its value, or
// returns nil. Do and the others call it by themselves.
func (b *Breaker) Validate() error {
	switch {
	case !(b.FailureRate <= 1):
		return invalidRate("Breaker.FailureRate", b.FailureRate)
	case !(b.SlowRate <= 1):
		return invalidRate("Breaker.SlowRate", b.SlowRate)
	case b.WindowCalls > maxWindowCalls:
		return invalid("Breaker.WindowCalls", "is "+strconv.Itoa(b.WindowCalls)+", want at most "+strconv.Itoa(maxWindowCalls))
	case b.ProbeSuccesses < 0:
		return invalid("Breaker.Successes", "is "+strconv.Itoa(b.ProbeSuccesses)+", want 0 (for 2) or more")
	case b.Shared != nil && b.Name == "":
		return invalid("Breaker.Name", "is empty, want the name that the processes of Shared know the service by")
	case isInvalidJitter(b.Jitter):
		return invalid("Breaker.Jitter", "waits less than nothing: UniformJitter wants 0 <= lo <= hi, AddedJitter 0 or more, SlottedJitter more than 0")
	}
	if v, ok := b.Shared.(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			return err
		}
	}
	return checkSchedule("Breaker.OpenFor", b.OpenFor)
}

func invalidRate(field string, rate float64) error {
	return invalid(field, "is "+strconv.FormatFloat(rate, 'g', -1, 64)+", want 0 (for 0.5), a share up to 1, or a negative number for none")
}

// OpenError is what a [Breaker] refuses a call with. It matches, by errors.Is and
// errors.As, ErrOpen and the failure that opened the circuit, with its whole tree.
//
// It is permanent to every policy of this package, and says so to the loops of other
// libraries by method. To wait for the circuit all the same, mark it: WithClass(err,
// ClassRetryable) keeps the hint of RetryAfter.
type OpenError struct {
	Name  string // of the breaker
	State State  // that it was in; closed: calls are admitted again, but not all yet
	Last  error  // the failure that opened the circuit; nil if it was opened by hand

	until time.Time
}

// Error returns one line: which circuit is open, for how long, and why.
func (e *OpenError) Error() string {
	text := "backoff: "
	if e.Name != "" {
		text += e.Name + ": "
	}
	text += [...]string{"circuit recovering", "circuit open", "circuit half-open"}[min(e.State, StateHalfOpen)]
	if d := e.RetryAfter(); d > 0 {
		text += ", try again in " + round(d)
	}
	if e.Last != nil {
		text += ": " + e.Last.Error()
	}
	return text
}

// Unwrap returns ErrOpen and the failure that opened the circuit.
func (e *OpenError) Unwrap() []error {
	if e.Last == nil {
		return []error{ErrOpen}
	}
	return []error{ErrOpen, e.Last}
}

// RetryAfter returns how long, from now, calls will be refused: until the open time is
// over, or until all calls are admitted again. It is 0 if that is past, or not known,
// as in ModeForcedOpen and while probes are under way.
func (e *OpenError) RetryAfter() time.Duration {
	if e.until.IsZero() {
		return 0
	}
	return max(0, e.until.Sub(clock.Now()))
}

// RetryableError is false; by this the AWS SDK knows.
func (e *OpenError) RetryableError() bool { return false }

// NonRetriable marks the error for the loops of the Azure SDK.
func (e *OpenError) NonRetriable() {}
