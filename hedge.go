package backoff

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/histogram"
)

const (
	defaultHedgeAttempts = 2
	mostHedgeAttempts    = 5 // gRFC A6, "Limits on Retries and Hedges"
	defaultExtraLoad     = 0.05
	hedgeBurst           = 10 // hedges that need not be earned first
	hedgeSamples         = 100
	hedgeRefresh         = 50 // samples between two looks at the quantile
	leastHedgeDelay      = time.Millisecond
	oneHedge             = 1_000_000 // what one costs: shares are kept to a millionth
)

// ErrHedgeLost is the cause of an attempt's context, as context.Cause tells it, when
// another attempt of the same hedged call has ended the call.
var ErrHedgeLost = errors.New("backoff: hedge lost: another attempt has ended the call")

// A Hedge sends an operation a second time while the first is slow, and takes the
// result that comes first. It is for the tail of latency, where a few calls take ten
// times as long as the others for no reason of their own. [HedgeValue] runs
// operations under it.
//
// The zero value measures. It sends one hedge, to an attempt that takes longer than
// 95 % of them did lately, so that the service gets about 5 % more to do; none before
// it has measured 100; and none that the successes of other calls do not pay for, so
// that a service which gets slow as a whole is not sent everything twice.
//
// Use one Hedge for each operation, or for each operation and host: latencies that
// are not alike do not belong in one estimate. A Hedge is safe for concurrent use. It
// must not be copied, nor its fields changed, after first use.
//
// Retry or hedge, not both around one operation. A Hedge is no [Doer], and so does
// not fit into a [Stack] or [DoValue]; but where a func hides one inside the other,
// neither can see it. A [Policy] around HedgeValue does no harm, as it takes for final
// what the Hedge gave up on. A Policy inside the operation multiplies: each attempt
// then makes all of the policy's.
//
// A Hedge does not choose where an attempt goes (see [HedgeNumber]), and does not
// limit the time of an attempt; the operation does both.
//
// Sources: Dean and Barroso, "The Tail at Scale", CACM 56(2), 2013; gRFC A6, "Hedging
// Policy"; Finagle's BackupRequestFilter.
type Hedge struct {
	_ [0]func() // no unkeyed literals, no ==

	// Name is the operation, as it should stand in errors.
	Name string
	// MaxAttempts limits the attempts of a call, the first included. 0 means 2, 1 means
	// no hedges. A negative number means the most there can be, 5, and so does any beyond.
	MaxAttempts int
	// Delay is how long there must be no result before a hedge is sent, and again
	// before the next one is. A negative Delay sends all attempts at once. 0 means to
	// measure it: as the time that the share 1-MaxExtraLoad of first attempts stays
	// within, but at least 1 ms and at most half the time left before the context's
	// deadline. Until 100 first attempts have succeeded it is not known, and no hedge
	// is sent but after a failure.
	//
	// However long the delay is, no hedge is sent with less time left than that.
	Delay time.Duration
	// MaxExtraLoad is how many hedges there may be for each call that succeeds, from
	// 0 to 1, beyond a reserve of 10; it bounds a fixed Delay as well. 0 means 0.05, which
	// is 5 %. A negative number means no limit; the measured delay is then that of 5 %.
	MaxExtraLoad float64
	// MaxHint is the longest time a server may ask to be left alone for. A longer one
	// ends the hedging of the call. 0 means 5 minutes, a negative one no limit.
	MaxHint time.Duration
	// Classify sorts errors into those that end the call and those that do not. nil
	// means DefaultClassifier. gRPC's nonFatalStatusCodes are
	// OnCode(status.Code, codes.Unavailable, ...).
	Classify Classifier
	// Idempotency must allow the operation to be sent twice at the same time. nil
	// means Idempotent: to use a Hedge is to say so. NonIdempotent and NeverRetry are
	// invalid. Keyed gives all attempts of a call the same key. Any other one is asked
	// when a hedge is due; if it says no, the call goes on without.
	Idempotency Idempotency
	// Budget is asked for every attempt, the first included; it should be the one that
	// the policies for the same service share. nil means none.
	Budget Budget
	// Detach runs the first attempt on a goroutine of its own. Otherwise it runs on
	// the caller's, which makes fast calls cheap, and HedgeValue cannot return
	// before it does, even if a hedge has won: the operation must return when its
	// context ends. Set Detach for operations that do not.
	Detach bool

	latency  histogram.Histogram // of first attempts
	measured atomic.Int64        // the delay by it; 0 while unknown

	mu   sync.Mutex
	seen uint64 // of calls, when last looked at
	debt int64  // hedges not yet paid for, in millionths

	calls, hedges, wins, refused, panics atomic.Uint64
}

// HedgeStats counts what a [Hedge] did, since it was first used.
type HedgeStats struct {
	Calls   uint64        // that succeeded
	Hedges  uint64        // sent; Hedges/Calls is the extra load
	Wins    uint64        // hedges whose result was the call's
	Refused uint64        // hedges that MaxExtraLoad or the Budget did not allow
	Panics  uint64        // in attempts that had lost, and so had nobody to carry it to
	Delay   time.Duration // before a hedge, but for deadlines; 0 while it is not known
}

// Stats returns the counts so far. They are not all of the same instant.
func (h *Hedge) Stats() HedgeStats {
	return HedgeStats{
		Calls:   h.calls.Load(),
		Hedges:  h.hedges.Load(),
		Wins:    h.wins.Load(),
		Refused: h.refused.Load(),
		Panics:  h.panics.Load(),
		Delay:   max(0, h.delay(maxDuration)),
	}
}

// Validate says what is wrong with the hedge, naming the field and its value, or
// returns nil. HedgeValue calls it by itself.
func (h *Hedge) Validate() error {
	if !(h.MaxExtraLoad <= 1) {
		return invalid("Hedge.MaxExtraLoad", "is "+strconv.FormatFloat(h.MaxExtraLoad, 'g', -1, 64)+", want a share of at most 1, or a negative number for no limit")
	}
	if h.Idempotency == NonIdempotent || h.Idempotency == NeverRetry {
		return invalid("Hedge.Idempotency", "is "+h.Idempotency.(idempotency).String()+", but a hedge sends the operation twice")
	}
	return validate(h.Budget)
}

// HedgeValue calls op, and again while that is slow, as h says. It returns the first
// result that comes without an error. The contexts of the other attempts then end, with
// the cause [ErrHedgeLost]; HedgeValue does not wait for them.
//
// An attempt that fails does not beat one that may yet succeed. If its error may be
// retried, the next hedge is sent at once, and the one after it h.Delay later; if the
// server said when ([Pushback], [RetryAfter]), exactly then. If the server said not to
// (ClassOverloaded), or "too much" and not when (ClassThrottled), or if the attempt was
// refused before it was sent (ErrBudget, ErrOpen), there are no more hedges, and those
// under way go on. A definitive error ends the call.
//
// op runs in several goroutines at once and must not share variables between them;
// results go through T, for which struct{} will do where there is none. Its context is
// derived from ctx, and ends when the attempt fails or loses. That of the winner ends
// when HedgeValue returns; but with a discard it ends when ctx does, because a value that
// must be closed may need it until then. There, ctx should end when the value is done with.
//
// discard gets the value of every attempt that succeeds too late, once, on the
// goroutine of that attempt, and possibly long after HedgeValue has returned. It may be
// nil where a value needs no closing. For an *http.Response it is
//
//	func(r *http.Response) { r.Body.Close() }
//
// Values beside errors are not discarded: an attempt that fails cleans up after itself.
// HedgeValue returns one if the call ended with that attempt.
//
// A definitive error comes back as it is, marked [Permanent]. Otherwise the error is an
// [*Error], which matches that of the last attempt and tells why there was no further
// one. Both are final to a Policy around the call, unless MaxAttempts is 1. An invalid h is
// refused before the first attempt, with the error of Validate, and so is a ctx that has ended.
//
// HedgeValue blocks until there is a result, returned also if ctx has ended meanwhile.
// When ctx ends without one, it returns at once if h.Detach is set or the first attempt
// has failed, else when that returns. A panic or a runtime.Goexit in an attempt reaches
// the caller's goroutine. If it comes on another one after the call is over, it ends
// there; panics are then counted in [HedgeStats].
//
// While op is fast, HedgeValue starts no goroutine and allocates once.
func HedgeValue[T any](ctx context.Context, h *Hedge, op func(context.Context) (T, error), discard func(T)) (T, error) {
	c := &contest[T]{op: op, discard: discard}
	c.runner, c.keep = c, discard != nil
	if !c.start(ctx, h) {
		return c.value, c.err
	}
	returned := false
	defer func() {
		if !returned { // the first attempt panicked, or left the goroutine
			c.crash(&c.first, nil)
		}
	}()
	decided := false
	if h.Detach {
		go c.begin(nil, &c.first)
	} else {
		decided = c.run(&c.first)
	}
	returned = true
	if !decided {
		c.await()
	}
	return c.value, c.err
}

// HedgeNumber tells an operation which attempt ctx belongs to: 0 for the first, and
// outside of HedgeValue; 1 for the first hedge, and so on. With it an operation
// picks another replica than the attempts before it did.
func HedgeNumber(ctx context.Context) int {
	if a, ok := ctx.Value(hedgeKey{}).(*hedgeAttempt); ok {
		return a.number
	}
	return 0
}

// delay returns the time before the next hedge, for a call with so much time left.
func (h *Hedge) delay(left time.Duration) time.Duration {
	if h.Delay != 0 {
		return max(0, h.Delay)
	}
	measured := time.Duration(h.measured.Load())
	if measured == 0 {
		return 0
	}
	return max(min(measured, left/2), leastHedgeDelay)
}

func (h *Hedge) maxAttempts() int {
	switch {
	case h.MaxAttempts == 0:
		return defaultHedgeAttempts
	case h.MaxAttempts < 0:
		return mostHedgeAttempts
	}
	return min(h.MaxAttempts, mostHedgeAttempts)
}

func (h *Hedge) maxHint() time.Duration {
	if h.MaxHint == 0 {
		return defaultMaxHint
	}
	return h.MaxHint
}

func (h *Hedge) extraLoad() float64 {
	if h.MaxExtraLoad == 0 {
		return defaultExtraLoad
	}
	return h.MaxExtraLoad
}

// observe takes the latency of a first attempt.
func (h *Hedge) observe(d time.Duration, now time.Time) {
	if h.latency.Add(d, now)%hedgeRefresh != 0 || h.latency.Count() < hedgeSamples {
		return
	}
	share := h.extraLoad()
	if share < 0 {
		share = defaultExtraLoad
	}
	h.measured.Store(int64(max(h.latency.Quantile(1-share), leastHedgeDelay)))
}

// afford pays for a hedge with what calls have earned, or refuses.
func (h *Hedge) afford() bool {
	share := h.extraLoad()
	if share < 0 {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	calls := h.calls.Load()
	earned := int64(math.Round(share*oneHedge)) * int64(calls-h.seen)
	h.debt, h.seen = max(0, h.debt-earned), calls
	if h.debt > (hedgeBurst-1)*oneHedge {
		return false
	}
	h.debt += oneHedge
	return true
}

// refund takes back what was paid for a hedge that is not sent.
func (h *Hedge) refund() {
	h.mu.Lock()
	h.debt = max(0, h.debt-oneHedge)
	h.mu.Unlock()
}

// contest is a race that knows the type of what is raced for.
type contest[T any] struct {
	race
	op      func(context.Context) (T, error)
	discard func(T)
	value   T // of the attempt that ended the call
}

// run makes an attempt, and reports whether it ended the call.
func (c *contest[T]) run(a *hedgeAttempt) bool {
	value, err := c.op(a)
	decided := c.land(a, value, err)
	if !decided && err == nil && c.discard != nil {
		c.discard(value)
	}
	return decided
}

func (c *contest[T]) land(a *hedgeAttempt, value T, err error) bool {
	var v verdict
	if err != nil {
		v = judge(c.hedge.Classify, err)
	}
	now := clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	decided := c.finish(a, err, v, now)
	if decided {
		c.value = value
	}
	return decided
}

// race is one call: its attempts, and when the next one starts. What is below mu is
// guarded by it.
type race struct {
	hedge    *Hedge
	runner   interface{ run(*hedgeAttempt) bool } // the contest around this
	ctx      context.Context                      // of the call, with its key
	began    time.Time
	sent     time.Time // the first attempt
	deadline time.Time // of ctx, if it has one
	delay    time.Duration

	mu       sync.Mutex
	first    hedgeAttempt
	attempts [mostHedgeAttempts]*hedgeAttempt
	number   int           // of attempts sent
	running  int           // of these, have no result yet
	unsent   int           // of these, a breaker refused
	alarm    *alarm        // for the next hedge
	earliest time.Time     // for it, as a server or the Budget said
	ticket   Ticket        // of the attempt about to be sent
	wait     time.Duration // that there was no time for
	last     error
	open     *OpenError // that refused an attempt
	hint     time.Duration
	err      error         // of the call
	done     chan struct{} // closed when over, if the caller waits
	panic    any           // that broke the call
	why      Reason        // there are no more hedges; ReasonSuccess while there may be
	class    Class         // of last
	keep     bool          // the winner's context
	granted  bool          // the next hedge is paid for, and only has to wait
	over     bool
	broken   bool // by a panic or, if that is nil, by a Goexit
}

// start begins the call, or reports that there is none.
func (r *race) start(ctx context.Context, h *Hedge) bool {
	r.hedge, r.ctx = h, ctx
	if r.err = h.Validate(); r.err != nil {
		return false
	}
	r.began = clock.Now()
	r.sent = r.began
	r.deadline, _ = ctx.Deadline()
	if h.Idempotency == Keyed && IdempotencyKey(ctx) == "" {
		r.ctx = WithIdempotencyKey(ctx, "")
	}
	if why := r.admit(); why != ReasonSuccess {
		r.giveUp(why)
		return false
	}
	r.delay = h.delay(r.left(r.sent))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.enter(&r.first)
	r.lineUp(r.sent)
	return true
}

// admit asks for the first attempt, and waits if the Budget says so.
func (r *race) admit() Reason {
	if err := r.ctx.Err(); err != nil {
		return endOf(err)
	}
	if r.hedge.Budget == nil {
		return ReasonSuccess
	}
	ticket, wait, ok := r.hedge.Budget.Reserve(Attempt{Number: 1, Kind: KindFirst, Now: r.began})
	if !ok {
		return ReasonBudget
	}
	r.ticket = ticket
	why := ReasonSuccess
	if wait > 0 {
		why = r.sleep(wait)
	}
	if why == ReasonSuccess && !r.depart() {
		why = ReasonBudget
	}
	if why != ReasonSuccess {
		r.hedge.Budget.Done(ticket, OutcomeNotSent)
	}
	return why
}

// sleep waits before the first attempt.
func (r *race) sleep(wait time.Duration) Reason {
	if wait >= r.left(r.began) {
		r.wait = wait
		return ReasonDeadline
	}
	if !pause(r.ctx.Done(), wait, r.began) {
		return endOf(r.ctx.Err())
	}
	r.sent = clock.Now()
	return ReasonSuccess
}

// depart tells the Budget that the attempt it granted is about to be made.
func (r *race) depart() bool {
	b, ok := r.hedge.Budget.(Departures)
	return !ok || b.Depart(r.ticket)
}

// begin is where every goroutine of a call starts: with an attempt, or with an alarm
// that may lead to one.
func (r *race) begin(al *alarm, a *hedgeAttempt) {
	returned := false
	defer func() {
		if !returned {
			r.crash(a, recover())
		}
	}()
	if al != nil {
		a = r.wake(al)
	}
	if a != nil {
		r.runner.run(a)
	}
	returned = true
}

// crash ends the call for the panic p of an attempt, or its Goexit if p is nil.
func (r *race) crash(a *hedgeAttempt, p any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a != nil && !a.over {
		r.leave(a, outcomeOf(ClassRetryable, false, r.over))
	}
	if !r.over {
		r.broken, r.panic = true, p
		r.end(nil, nil)
	} else if p != nil {
		r.hedge.panics.Add(1)
	}
}

// await returns when the call is over. It lets out the panic that ended it.
func (r *race) await() {
	r.mu.Lock()
	if !r.over {
		r.done = make(chan struct{})
		r.mu.Unlock()
		select {
		case <-r.done:
		case <-r.ctx.Done():
		}
		r.mu.Lock()
	}
	if !r.over {
		r.giveUp(endOf(r.ctx.Err()))
	}
	r.mu.Unlock()
	if r.broken && r.panic == nil {
		runtime.Goexit()
	} else if r.broken {
		panic(r.panic)
	}
}

// enter counts an attempt that is about to run.
func (r *race) enter(a *hedgeAttempt) {
	a.Context, a.number, a.ticket = r.ctx, r.number, r.ticket
	r.attempts[r.number] = a
	r.number++
	r.running++
}

// leave counts an attempt that has returned.
func (r *race) leave(a *hedgeAttempt, o Outcome) {
	a.over = true
	r.running--
	if r.hedge.Budget != nil {
		r.hedge.Budget.Done(a.ticket, o)
	}
}

// finish takes the result of an attempt, and reports whether it ended the call.
func (r *race) finish(a *hedgeAttempt, err error, v verdict, now time.Time) bool {
	switch {
	case r.over:
		r.leave(a, OutcomeCanceled)
		return false
	case err != nil:
		r.fail(a, err, v, now)
		return r.over
	}
	r.measure(a, now)
	r.hedge.calls.Add(1)
	if a != &r.first {
		r.hedge.wins.Add(1)
	}
	r.leave(a, OutcomeSuccess)
	r.end(nil, a)
	return true
}

// measure takes the latency of the first attempt when winner wins. One that is beaten
// counts as well, or there would seem to be no slow ones: with the time it had, or the
// delay, as it would have taken longer than both.
func (r *race) measure(winner *hedgeAttempt, now time.Time) {
	h := r.hedge
	if h.Delay != 0 || r.first.over {
		return
	}
	d := now.Sub(r.sent)
	if winner != &r.first {
		d = max(d, time.Duration(h.measured.Load()))
	}
	h.observe(d, now)
}

// fail decides after a failure.
func (r *race) fail(a *hedgeAttempt, err error, v verdict, now time.Time) {
	ended := r.ctx.Err()
	if v.open == nil || a == &r.first {
		r.last, r.class = err, v.class // else the last answer of the service stands
	}
	if v.hint.given {
		r.hint = v.hint.after
	}
	if v.open != nil {
		r.unsent++
		r.leave(a, OutcomeNotSent)
	} else {
		r.leave(a, outcomeOf(v.class, false, ended != nil))
	}
	a.end()
	switch {
	case ended != nil:
		r.giveUp(endOf(ended))
	case v.open != nil:
		r.stop(ReasonOpen)
		r.open, r.why = v.open, ReasonOpen // also where this was the last attempt
	case v.class == ClassPermanent && r.running > 0 && errors.Is(err, ErrBudget):
		r.stop(ReasonBudget)
	case v.class == ClassPermanent:
		r.definitive(v)
	case v.class == ClassOverloaded, v.class == ClassThrottled && !v.hint.given:
		r.stop(ReasonOverloaded)
	case v.hint.given && r.hedge.maxHint() > 0 && v.hint.after > r.hedge.maxHint():
		r.stop(ReasonHint)
	default:
		r.postpone(now, v.hint.after)
		r.hurry(now)
	}
	r.settle()
}

// definitive ends the call with its last error as it is.
func (r *race) definitive(v verdict) {
	err := r.last
	if !v.marked {
		err = inferred(err)
	}
	r.end(err, nil)
}

// settle ends the call if nothing is left of it to wait for.
func (r *race) settle() {
	if !r.over && r.running == 0 && r.alarm == nil {
		r.giveUp(r.why)
	}
}

// postpone puts off the next hedge by wait from now, unless it is off for longer.
func (r *race) postpone(now time.Time, wait time.Duration) {
	if at := now.Add(wait); at.After(r.earliest) {
		r.earliest = at
	}
}

// hurry sends the next hedge as soon as it may be.
func (r *race) hurry(now time.Time) {
	if r.why != ReasonSuccess {
		return
	}
	wait := r.earliest.Sub(now)
	switch {
	case wait > 0 && r.fits(now, wait):
		r.arm(wait)
	case wait > 0:
		r.wait = wait
		r.stop(ReasonDeadline)
	default:
		if a := r.next(now); a != nil {
			go r.begin(nil, a)
		}
	}
}

// next makes the next hedge ready. It returns nil if there is none, of which why
// then tells, or if it has to wait.
func (r *race) next(now time.Time) *hedgeAttempt {
	if !r.granted && !r.ask(now) {
		return nil
	}
	r.granted = true
	if !r.depart() {
		r.refuse()
		return nil
	}
	r.granted = false
	r.hedge.hedges.Add(1)
	a := new(hedgeAttempt)
	r.enter(a)
	r.lineUp(now)
	return a
}

// lineUp arranges for the attempt after the one just made ready.
func (r *race) lineUp(now time.Time) {
	r.disarm()
	switch {
	case r.number >= r.hedge.maxAttempts():
		r.why = ReasonAttempts
	case r.hedge.Delay < 0:
		r.hurry(now)
	case r.delay > 0 && r.fits(now, r.delay):
		r.arm(r.delay)
	}
}

// ask reports whether the next hedge may be sent now.
func (r *race) ask(now time.Time) bool {
	h := r.hedge
	why := ReasonSuccess
	switch ended := r.ctx.Err(); {
	case ended != nil:
		why = endOf(ended)
	case !r.fits(now, 0):
		why, r.wait = ReasonDeadline, r.delay
	case h.Idempotency != nil && !h.Idempotency.Repeatable(r.ctx, r.class):
		why = ReasonNotIdempotent
	case !h.afford():
		r.refuse()
		return false
	case h.Budget != nil:
		return r.reserve(now)
	}
	r.stop(why)
	return why == ReasonSuccess
}

// refuse stops the hedging because there is nothing to pay it with.
func (r *race) refuse() {
	r.hedge.refused.Add(1)
	r.stop(ReasonBudget)
}

// reserve asks the Budget for the next hedge.
func (r *race) reserve(now time.Time) bool {
	h := r.hedge
	ticket, wait, ok := h.Budget.Reserve(Attempt{Number: r.number + 1, Kind: KindHedge, Class: r.class, Now: now})
	if !ok {
		h.refund()
		r.refuse()
		return false
	}
	r.ticket = ticket
	if wait > 0 {
		r.granted = true
		r.postpone(now, wait)
		r.hurry(now)
	}
	return wait <= 0
}

// stop says that no more hedges are sent, and why. Those under way go on.
func (r *race) stop(why Reason) {
	if why == ReasonSuccess {
		return
	}
	if r.why == ReasonSuccess {
		r.why = why
	}
	r.disarm()
	if !r.granted {
		return
	}
	r.granted = false
	r.hedge.refund()
	if r.hedge.Budget != nil {
		r.hedge.Budget.Done(r.ticket, OutcomeNotSent)
	}
}

// giveUp ends the call with an *Error.
func (r *race) giveUp(why Reason) {
	now := clock.Now()
	e := &Error{
		Name:     r.hedge.Name,
		Attempts: r.number - r.unsent,
		Elapsed:  now.Sub(r.began),
		Reason:   why,
		Last:     r.last,
		Hint:     r.hint,
		ctx:      r.ctx,
		open:     r.open,
		single:   r.hedge.maxAttempts() == 1,
	}
	switch {
	case why == ReasonHint:
		e.limit = r.hedge.maxHint()
	case why == ReasonDeadline && r.ctx.Err() == nil:
		e.wait, e.limit = r.wait, r.left(now)
	}
	r.end(e, nil)
}

// end is where every call comes to, with the winner if there is one.
func (r *race) end(err error, winner *hedgeAttempt) {
	r.stop(ReasonAttempts)
	r.over, r.err = true, err
	for _, a := range r.attempts[:r.number] {
		switch {
		case !a.over:
			a.lose()
		case a != winner || !r.keep:
			a.end()
		}
	}
	if r.done != nil {
		close(r.done)
	}
}

// left returns how much time is left before the deadline.
func (r *race) left(now time.Time) time.Duration {
	if r.deadline.IsZero() {
		return maxDuration
	}
	return r.deadline.Sub(now)
}

// fits reports whether a hedge that starts after wait has time to be of use: as
// much as was thought too long for the attempts before it.
func (r *race) fits(now time.Time, wait time.Duration) bool {
	left := r.left(now)
	return saturatingAdd(wait, r.delay) <= left && wait < left
}

// An alarm sends the next hedge. It goes off once: another hedge has another alarm, so
// that one going off while it is replaced is known by its being the wrong one.
type alarm struct {
	race  *race
	timer *time.Timer
}

// alarms holds those that did not go off, for most do not.
var alarms sync.Pool

func (al *alarm) ring() { al.race.begin(al, nil) }

// wake returns the hedge that an alarm is to send, if any.
func (r *race) wake(al *alarm) *hedgeAttempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.alarm != al { // replaced, or stopped too late
		return nil
	}
	r.alarm = nil
	a := r.next(clock.Now())
	r.settle()
	return a
}

func (r *race) arm(d time.Duration) {
	r.disarm()
	if r.reusable() {
		r.alarm, _ = alarms.Get().(*alarm)
	}
	if r.alarm != nil {
		r.alarm.race = r
		r.alarm.timer.Reset(d)
		return
	}
	r.alarm = &alarm{race: r}
	r.alarm.timer = time.AfterFunc(d, r.alarm.ring)
}

func (r *race) disarm() {
	al := r.alarm
	if al == nil {
		return
	}
	r.alarm = nil
	if al.timer.Stop() && r.reusable() {
		al.race = nil
		alarms.Put(al)
	}
}

// reusable reports whether timers may outlive the call; see pause.
func (r *race) reusable() bool { return r.began != r.began.Round(0) }

// hedgeAttempt is one attempt, and its context. That is the call's until somebody asks for
// Done, or the attempt loses: fast operations do not, and a context that can be
// cancelled costs more than the rest of their call.
type hedgeAttempt struct {
	context.Context
	mu     sync.Mutex                 // held to change own
	own    atomic.Pointer[ownContext] // nil until somebody asks
	number int
	ticket Ticket
	over   bool // guarded by the race
}

type ownContext struct {
	context.Context
	cancel context.CancelCauseFunc
}

// neverAsked is what a context has of its own that ended before anybody asked.
var neverAsked = func() *ownContext {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(nil)
	return &ownContext{ctx, cancel}
}()

type hedgeKey struct{}

// Done implements context.Context.
func (a *hedgeAttempt) Done() <-chan struct{} { return a.derive().Done() }

// Err implements context.Context.
func (a *hedgeAttempt) Err() error {
	if own := a.own.Load(); own != nil {
		return own.Err()
	}
	return a.Context.Err()
}

// Value implements context.Context. By the key of package context, which finds the nearest
// cancelled one, it gives away its own context: so its cause is found, and those
// derived from it need no goroutine to follow it.
func (a *hedgeAttempt) Value(key any) any {
	if key == (hedgeKey{}) {
		return a
	}
	if own := a.own.Load(); own != nil && own != neverAsked {
		return own.Value(key)
	}
	return a.Context.Value(key)
}

// derive returns the context's own context, and makes it first.
func (a *hedgeAttempt) derive() *ownContext {
	a.mu.Lock()
	defer a.mu.Unlock()
	own := a.own.Load()
	if own == nil {
		ctx, cancel := context.WithCancelCause(a.Context)
		own = &ownContext{ctx, cancel}
		a.own.Store(own)
	}
	return own
}

// lose ends the context of an attempt under way.
func (a *hedgeAttempt) lose() { a.derive().cancel(ErrHedgeLost) }

// end ends the context of an attempt that has returned.
func (a *hedgeAttempt) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if own := a.own.Load(); own != nil {
		own.cancel(nil)
		return
	}
	a.own.Store(neverAsked)
}
