package backoff

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/errtree"
	"github.com/gobackoff/backoff/internal/limits"
	"github.com/gobackoff/backoff/internal/patience"
)

// Patience makes calls wait for a service that cannot serve them now, instead of
// failing them. It is for callers that have time, such as jobs. A caller with a
// user behind it is better served by an error at once, and leaves it out. It is
// the outermost layer, and there is one for each service:
//
//	var service = backoff.Stack(&backoff.Patience{}, &backoff.Breaker{}, &backoff.Policy{})
//
// A call waits if the layers inside gave up for want of a healthy service: the
// circuit is open (ErrOpen), a budget or a bulkhead refused (ErrBudget), or the
// policy had no attempts or no time left (ErrExhausted). Without a policy inside,
// a failure waits that a policy would retry. The call waits in a line, sends
// nothing, and is then made again, with all attempts of its policy and the same
// idempotency key. Only its context ends the wait. A definitive error is returned
// at once, and so is the error of an operation that must not be sent again
// (ReasonNotIdempotent), or by which the server forbids that (ReasonOverloaded,
// ReasonRetryAfter).
//
// # While the service is down
//
// The service is down if the circuit is open, or if three calls fail with no
// success between them, and the last one was not sent (ClassNotSent) or they took
// a second. Then no call goes, new ones included, but one at a time as a probe:
// 250 ms after the failure, and a fifth longer after each further one, up to 5 s,
// but not before the circuit may be tried again. The probe is the newest call with
// 5 s left, or the one with the most time. If it hangs, the next one goes after 5 s.
// What the service asks for, by Retry-After, keeps all calls back, for 5 minutes
// at most. A response that throttles (ClassThrottled) does not: it may be about
// one caller. That call waits alone: for a second at least, and for twice as long
// each time in a row, up to 8 s. Then it stands behind all others in the line.
//
// After the first success the others follow, the oldest first, by the number of
// attempts in flight: one at first, one more for each success, up to twice the
// usual number. So the service sets the pace, and its queue stays short. When the
// line is empty, calls pass freely again. While they do, each success lets one
// call go that waits.
//
// Calls of a higher priority (see [WithPriority]) go first. A call that has not
// the time for another attempt ends at once. So does one that has failed, and then
// 16 times more while the service answered others: the fault is its own.
//
// # Errors
//
// If the context ends while the call waits, the error is an [*Error] that says
// for how long it waited and how many probes went meanwhile. It matches the
// context's error and the last error of the layers inside. A call that was not
// made at all matches ErrOpen instead. Any other error is that of the layers
// inside.
//
// # Use
//
// In a Stack with a Patience the operation is the attempt that counts: retries
// count, waits between them do not. An operation of Do that runs a policy itself,
// as a range loop does, gives its place back while the policy sleeps. A hedged
// call in the operation counts as one attempt. A [Supervisor] and package poll wait
// for a circuit themselves, and need no Patience. To the Observer of a policy
// inside, each time that the call is made is a call of its own.
//
// The zero value is ready to use. A Patience must not be copied, nor its fields
// changed, after first use. It is safe for concurrent use. A call blocks while it
// waits. While calls succeed, it takes no lock and reads no clock. A waiting call
// costs some 250 bytes besides its goroutine. There is a timer while calls wait,
// and no goroutine. A panic or a runtime.Goexit of the operation passes through
// and counts as a failure.
type Patience struct {
	_ [0]func() // no unkeyed literals, no ==

	// Name is the name of the service in errors.
	Name string
	// MaxWaiting is how many calls may wait at the same time. A call beyond
	// that ends at once, with the error that it would have without Patience, or
	// an [*OpenError] if it was not made. 0 means 10,000. A negative number
	// means no limit.
	MaxWaiting int

	line patience.Line
}

const (
	defaultMaxWaiting = 10_000
	ownFailures       = 16 // attempts of a call that failed while the service answered others
)

// Do calls op, and calls it again when its turn comes, until it succeeds, fails
// for a reason that waiting does not mend, or ctx ends. It blocks meanwhile. The
// context of op is derived from ctx. See [Stack] for layers between.
func (p *Patience) Do(ctx context.Context, op func(context.Context) error) error {
	return p.do(ctx, func(ctx context.Context, c *patience.Call) error {
		c.Enter()
		s := &seat{Context: ctx, line: &p.line}
		s.entered.Store(c.Entered)
		defer func() { c.Entered = s.entered.Load() }()
		return op(s)
	})
}

// doAround is Do with the doers of inner around op. Each time that they call op
// is an attempt. It sets reached if the first of them is called.
func (p *Patience) doAround(ctx context.Context, inner []Doer, op func(context.Context) error, reached *bool) error {
	return p.do(ctx, func(ctx context.Context, c *patience.Call) error {
		*reached = true
		return throughAny(ctx, inner[0], inner[1:], func(ctx context.Context) error {
			c.Enter()
			err := op(ctx)
			c.Leave(err == nil)
			return err
		})
	})
}

// do is Do for a function that makes the call once, through all the layers inside.
func (p *Patience) do(ctx context.Context, call func(context.Context, *patience.Call) error) error {
	c, wait := p.line.NewCall()
	if wait {
		if err := p.wait(ctx, &c, nil, patience.Result{}); err != nil {
			return err
		}
	}
	var failure error // the last one of an attempt
	for {
		r, waits := once(ctx, &c, call)
		err := r.Err
		if err == nil {
			c.Succeed()
			return nil
		}
		c.Settle(r)
		earlier := failure
		if failure == nil || r.Attempts > 0 && ctx.Err() == nil {
			failure, earlier = err, nil
		}
		if !waits || c.Own >= ownFailures {
			return p.final(ctx, &c, earlier, err)
		}
		ctx = withKeyOf(ctx, err)
		if err := p.wait(ctx, &c, earlier, r); err != nil {
			return err
		}
	}
}

// once makes the call once. It returns how the call ended, and whether it waits
// for another turn.
func once(ctx context.Context, c *patience.Call, call func(context.Context, *patience.Call) error) (r patience.Result, waits bool) {
	ended := false
	defer func() {
		if !ended {
			c.Settle(patience.Result{Verdict: patience.Failed, Err: errCrashed})
		}
	}()
	err := call(ctx, c)
	if err != nil {
		r, waits = readEnd(ctx, err)
	}
	ended = true
	return r, waits
}

// seat is the context of a call that holds a place in flight. A loop in the
// operation gives the place back while it sleeps.
type seat struct {
	context.Context
	line   *patience.Line
	asleep atomic.Int32 // loops

	entered atomic.Uint64 // the generation in which the place was taken
}

// seatKey is the key by which a context finds its seat.
type seatKey struct{}

func (s *seat) Value(key any) any {
	if key == (seatKey{}) {
		return s
	}
	return s.Context.Value(key)
}

// rest gives the place back before a loop sleeps, and takes it again after that.
func (s *seat) rest(before bool) {
	switch {
	case before && s.asleep.Add(1) == 1:
		s.line.Leave(false, s.entered.Load())
	case !before && s.asleep.Add(-1) == 0:
		s.entered.Store(s.line.Enter())
	}
}

// leavePlace gives the place of the call back before it sleeps, if a Patience
// counts it, and takes it again after that. A first attempt that waits for its
// turn keeps the place. It asks for the method, and not for a *seat, which would
// be part of every program.
//
//go:noinline
func (r *Run) leavePlace(before bool) {
	if s, ok := r.ctx.Value(seatKey{}).(interface{ rest(before bool) }); ok && r.number > 0 {
		s.rest(before)
	}
}

// wait waits for the turn of the call, which ended with r, or was not made yet.
// Before that it failed with earlier, if that is not nil. wait returns the error
// of a call that waits no longer.
func (p *Patience) wait(ctx context.Context, c *patience.Call, earlier error, r patience.Result) error {
	after := r.After
	if r.Verdict == patience.Refused { // what a circuit says holds for all
		after = 0
	}
	end := c.Wait(ctx, int(PriorityOf(ctx)-PriorityBackground), limits.Or(p.MaxWaiting, defaultMaxWaiting), after)
	err := r.Err
	if err == nil && end != patience.Went {
		err = p.refusal(c.Why)
	}
	switch end {
	case patience.Crowded:
		return p.final(ctx, c, earlier, err)
	case patience.TooLong:
		return p.gaveUp(ctx, c, ReasonDeadline, earlier, err)
	case patience.Ended:
		return p.gaveUp(ctx, c, endOf(ctx.Err()), earlier, err)
	}
	return nil
}

// refusal is the error of a call that was not made, because others failed with
// why.
func (p *Patience) refusal(why error) error {
	if open, ok := errtree.As[*OpenError](why); ok {
		return open
	}
	return &OpenError{Name: p.Name, State: BreakerOpen, Last: why}
}

// final is the error of a call that ended with err. Before that it failed with
// earlier, if that is not nil.
func (p *Patience) final(ctx context.Context, c *patience.Call, earlier, err error) error {
	gave, ok := errtree.As[*Error](err)
	why := ReasonBudget
	switch {
	case earlier == nil:
		return err
	case ctx.Err() != nil:
		why = endOf(ctx.Err())
	case ok:
		why = gave.Reason
	case errtree.Is(err, ErrOpen):
		why = ReasonOpen
	}
	return p.gaveUp(ctx, c, why, earlier, err)
}

// gaveUp is final for a call that ended for a reason of its own.
func (p *Patience) gaveUp(ctx context.Context, c *patience.Call, why Reason, earlier, err error) error {
	e := &Error{Name: p.Name, Attempts: c.Attempts, Reason: why, Last: err, retryAfter: judge(nil, err).hint.after}
	if earlier != nil {
		e.Last, e.Interrupted = earlier, err
	}
	e.open, _ = errtree.As[*OpenError](err)
	e.endedBy(ctx)
	e.early, e.waited = ctx.Err() == nil, "did not wait"
	if !c.Since.IsZero() {
		e.waited = waited(clock.Since(c.Since), c.Probes)
	}
	if gave, ok := errtree.As[*Error](e.Last); ok {
		e.class, e.repeat = gave.class, gave.repeat
	}
	e.tell(ctx)
	return e
}

// waited says how long a call waited, and for what.
func waited(d time.Duration, probes int) string {
	text := "waited " + d.Round(time.Millisecond).String()
	switch probes {
	case 0:
		return text + " for its turn"
	case 1:
		return text + " for the service to come back, 1 probe"
	}
	return text + " for the service to come back, " + strconv.Itoa(probes) + " probes"
}

// readEnd returns what the error of a call says of the service, and whether the
// call waits for another turn.
func readEnd(ctx context.Context, err error) (r patience.Result, waits bool) {
	v := judge(nil, err)
	r.Err, r.Attempts = err, 1
	gave, _ := errtree.As[*Error](err)
	switch {
	case ctx.Err() != nil:
	case gave != nil && (v.gaveUp || gave.single && v.class.Retryable()):
		waits = gave.end(ctx, &r)
	case v.open != nil:
		v.open.end(&r)
		waits = true
	case errtree.Is(err, ErrBudget):
		r.Verdict, r.Attempts, waits = patience.Full, 0, true
	case v.class == ClassPermanent && !v.gaveUp && !errtree.Is(err, context.Canceled):
		r.Verdict = patience.Answered
	case v.gaveUp || v.class != ClassPermanent:
		r.Verdict, r.NotSent, r.After = patience.Failed, v.class == ClassNotSent, v.hint.after
		if v.class == ClassThrottled {
			r.Verdict = patience.Throttled
		}
		waits = v.class.Retryable()
	}
	return r, waits
}

// repeat is what a Patience must know to make a call again that a policy gave up
// on.
type repeat struct {
	idempotency Idempotency // still to be asked about the last attempt
	key         string      // that was made for the call
}

// end says what the end of a call means for a Patience, and reports whether the
// call may be made again.
func (e *Error) end(ctx context.Context, r *patience.Result) (again bool) {
	r.Verdict, r.NotSent, r.After, r.Attempts = patience.Failed, e.class == ClassNotSent, e.RetryAfter(), e.Attempts
	if e.class == ClassThrottled { // which may be about this caller alone
		r.Verdict = patience.Throttled
	}
	switch e.Reason {
	case ReasonAttempts, ReasonElapsed:
		return e.repeatable(ctx)
	case ReasonBudget:
		if e.Attempts == 0 {
			r.Verdict, r.After = patience.Full, 0
		}
		return e.repeatable(ctx)
	case ReasonOpen:
		e.open.end(r)
		r.Attempts = e.Attempts
		return true
	case ReasonCanceled, ReasonInvalid, ReasonAbandoned:
		r.Verdict = patience.Silent
	}
	return false
}

// repeatable reports whether the operation may be sent again.
func (e *Error) repeatable(ctx context.Context) bool {
	return e.repeat == nil || e.repeat.idempotency == nil || e.repeat.idempotency.Repeatable(ctx, e.class)
}

// withKeyOf returns the context for a call that is made again after err: with the
// idempotency key that was made for it.
func withKeyOf(ctx context.Context, err error) context.Context {
	gave, ok := errtree.As[*Error](err)
	if !ok || gave.repeat == nil || gave.repeat.key == "" || IdempotencyKey(ctx) != "" {
		return ctx
	}
	return WithIdempotencyKey(ctx, gave.repeat.key)
}

// end says what a refusal means for a Patience. A circuit that lets some calls
// pass is not down.
func (e *OpenError) end(r *patience.Result) {
	r.Verdict, r.After, r.Attempts = patience.Full, 0, 0
	if e != nil && e.State == BreakerOpen {
		r.Verdict, r.After = patience.Refused, e.RetryAfter()
	}
}
