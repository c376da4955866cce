package backoff

import (
	"context"
	"errors"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

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
	// MaxRetryAfter is the longest time a server may ask to be left alone for. A longer one
	// ends the hedging of the call. 0 means 5 minutes, a negative one no limit.
	MaxRetryAfter time.Duration
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
	// Observer is told of every call when it is over: first of its hedges, each of which won or
	// lost or was refused, then of the end. nil means none.
	Observer Observer
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
		c.notify()
		return c.value, c.err
	}
	returned := false
	defer func() {
		if !returned { // the first attempt panicked, or left the goroutine
			c.crash(&c.first, nil)
		}
		c.notify()
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

func (h *Hedge) maxRetryAfter() time.Duration {
	if h.MaxRetryAfter == 0 {
		return defaultMaxRetryAfter
	}
	return h.MaxRetryAfter
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
