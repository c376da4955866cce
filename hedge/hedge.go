// Package hedge sends a call a second time while the first attempt is slow, and
// takes the result that arrives first.
//
//	var lookups = hedge.Hedge{Name: "lookup"}
//
//	answer, err := hedge.Value(ctx, &lookups, lookup, nil)
//
// It is for tail latency: a few calls take ten times as long as the others, although
// nothing is wrong with them. What fails is retried by a [backoff.Policy] instead.
//
// Retry or hedge, but do not do both around one operation. A Hedge is not a
// [backoff.Doer], and so does not fit into [backoff.DoValue], but inside a func neither
// sees the other. A Policy around Value does no harm, because what the Hedge gave up on
// is permanent to it. A Policy inside the operation multiplies: every attempt then makes
// all attempts of the policy.
//
// Hedged calls share a guard.Service with other calls by its Do, under a policy with
// MaxAttempts 1, around Value. To the breaker and the budget of the Service such a
// call is one attempt, however many hedges it sends.
package hedge

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/badfield"
	"github.com/gobackoff/backoff/internal/limits"
)

const (
	defaultAttempts = 2
	mostAttempts    = 5 // gRFC A6, "Limits on Retries and Hedges"
	maxDuration     = time.Duration(math.MaxInt64)
)

// errLost is the cause of an attempt's context, as context.Cause tells it,
// when another attempt of the same hedged call has ended the call.
var errLost error = lostError{}

// lostError is the type of errLost.
type lostError struct{}

func (lostError) Error() string { return "backoff: hedge lost: another attempt has ended the call" }

// Temporary tells a call that was cut by it to try again. A connection may be
// closed for an attempt that lost when another call has just taken it over, as
// happens in net/http.
func (lostError) Temporary() bool { return true }

// A Hedge sends an operation a second time while the first attempt is slow, and takes
// the result that arrives first. [Value] runs operations under it.
//
// The zero value measures latency. It sends one hedge to an attempt that takes longer
// than 95 % of those measured (see Delay), which is about 5 % more load for the service.
// It sends no hedge before it has measured 100 attempts, and only as many as the
// successes of other calls pay for, so a service that gets slow as a whole is not sent
// everything twice. Without a Budget, such as that of guard.Service.Parts, hedges go on
// in an overload, only fewer.
//
// Use one Hedge for each operation, or for each operation and host: different latencies
// do not belong in one estimate. The operation chooses where an attempt goes (see
// [Number]), and limits its time.
//
// A Hedge is safe for concurrent use. It must not be copied, nor its fields changed,
// after first use.
//
// Sources: Dean and Barroso, "The Tail at Scale", CACM 56(2), 2013; gRFC A6,
// "Hedging Policy"; Finagle's BackupRequestFilter.
type Hedge struct {
	_ [0]func() // no unkeyed literals, no ==

	// Name of the operation, as errors and events show it.
	Name string

	// Most attempts of a call, the first included. Defaults to 2; 1 means no hedges.
	// More than 5 and negative numbers mean 5.
	MaxAttempts int

	// Time without a result after which a call sends a hedge, and again the next one.
	// Defaults to a measured delay; negative sends all attempts at once. No hedge is
	// sent with less time left than the delay.
	//
	// The measured delay is the time within which the share 1-MaxExtraLoad of first
	// attempts succeeds, at least 1 ms and at most half the time left before the
	// context's deadline. It is not known before 100 first attempts have succeeded; until
	// then only a failure leads to a hedge. A bad time stays in the measurement for up to
	// a minute, or for 1,000 such attempts if they take longer.
	Delay time.Duration

	// Hedges per call that succeeds, from 0 to 1, beyond a reserve of 10. Defaults to
	// 0.05, which is 5 %; negative means no limit, and a delay measured as for 5 %. It
	// bounds a fixed Delay as well.
	MaxExtraLoad float64

	// Longest wait that a server may ask for. Defaults to 5 minutes; negative means no
	// limit. If the server asks for more, the call sends no more hedges.
	MaxRetryAfter time.Duration

	// Classifier of errors into those that end the call and those that do not. Defaults
	// to DefaultClassifier. gRPC's nonFatalStatusCodes are
	// plug.OnCode(status.Code, codes.Unavailable, ...).
	Classify backoff.Classifier

	// Permission to run the operation twice at the same time. Defaults to Idempotent: to
	// use a Hedge is to say so. NonIdempotent is invalid. Keyed gives all attempts of a
	// call the same key, which they send. Any other Idempotency is asked when a hedge is
	// due, with ClassUnknown while another attempt runs. If it says no, the call goes on
	// without the hedge.
	Idempotency backoff.Idempotency

	// Budget of all attempts, the first included. nil means none. It should be the budget
	// that all policies for the service share, such as that of guard.Service.Parts,
	// unless the call runs under that Service, which asks it already.
	Budget backoff.Budget

	// Observer of the events of a call. nil means none. It gets them when the call is
	// over: first one for each hedge, which won, lost or was refused, then one for the
	// end.
	Observer backoff.Observer

	// First attempt on a goroutine of its own. By default it runs on the caller's
	// goroutine, which makes fast calls cheap, but Value then returns only after the
	// first attempt has, even if a hedge has won. So without Detach the operation must
	// return when its context ends.
	Detach bool

	slow    measuredDelay // measured delay, of first attempts
	account account       // account of MaxExtraLoad

	hedges, wins, refused, panics atomic.Uint64
}

// Stats counts what a [Hedge] has done since it was first used.
type Stats struct {
	Calls   uint64        // calls that succeeded
	Hedges  uint64        // hedges sent; Hedges/Calls is the extra load
	Wins    uint64        // hedges whose result was the call's
	Refused uint64        // hedges that MaxExtraLoad or the Budget did not allow
	Panics  uint64        // panics in attempts that had lost, which no caller sees
	Delay   time.Duration // delay before a hedge, without regard to deadlines; 0 while it is not known
}

// Stats returns the counts so far. They are not all of the same instant.
func (h *Hedge) Stats() Stats {
	return Stats{
		Calls:   h.account.calls.Load(),
		Hedges:  h.hedges.Load(),
		Wins:    h.wins.Load(),
		Refused: h.refused.Load(),
		Panics:  h.panics.Load(),
		Delay:   h.delay(maxDuration),
	}
}

// Validate says what is wrong with the hedge, naming the field and its value,
// or returns nil. Value calls it by itself.
func (h *Hedge) Validate() error {
	if h == nil {
		return backoff.Permanent(badfield.Nil("hedge.Hedge", true))
	}
	var share error
	if !(h.MaxExtraLoad <= 1) {
		share = backoff.Permanent(badfield.Float("Hedge.MaxExtraLoad", h.MaxExtraLoad, "a share of at most 1, or a negative number for no limit"))
	}
	idempotency := badfield.NotNil("Hedge.Idempotency", h.Idempotency)
	if h.Idempotency == backoff.NonIdempotent {
		idempotency = badfield.New("Hedge.Idempotency", "is NonIdempotent, but a hedge sends the operation twice")
	}
	budget := badfield.NotNil("Hedge.Budget", h.Budget)
	if h.Budget != nil && budget == nil {
		budget = h.Budget.Validate()
	}
	return errors.Join(share, backoff.Permanent(idempotency), backoff.Permanent(budget))
}

// Value calls op, and calls it again while the first call is slow, as h says. It returns
// the first result that comes without an error. The contexts of the other attempts then
// end, with a cause that says so; Value does not wait for them.
//
// An attempt that fails does not beat one that may yet succeed. If its error may be
// retried, the next hedge is sent at once, and the one after it h.Delay later. If the
// server said when ([backoff.Pushback], [backoff.RetryAfter]), the hedge is sent exactly
// then. There are no more hedges, and attempts under way go on, if the server said not
// to retry (ClassOverloaded), or said "too much" but not when (ClassThrottled), or if
// the attempt was refused before it was sent (ErrBudget, ErrOpen). A permanent error
// ends the call.
//
// op runs on several goroutines at once, and the calls must not share variables. The
// result is of type T; struct{} will do if there is none. The context of op is derived
// from ctx, and ends when the attempt fails or loses. The context of the winner ends
// when Value returns. With a discard it ends when ctx does, because a value that must be
// closed may need it until then, and Value cannot know for how long. Until then an
// attempt that called Done of its context keeps some 200 bytes on ctx. So if ctx outlives
// the value, derive a context for the call with context.WithCancel, and cancel it where
// the value is closed.
//
// discard gets the value of every attempt that succeeds too late, once, on the goroutine
// of that attempt, and possibly long after Value has returned. It also gets the value of
// a call that succeeded if a panic or a runtime.Goexit reaches the caller instead. It may
// be nil if values need no closing. For an *http.Response it is
//
//	func(r *http.Response) { r.Body.Close() }
//
// Values beside errors are not discarded: an attempt that fails cleans up after itself.
// Value returns such a value if the call ended with that attempt.
//
// A permanent error is returned as by [backoff.Policy.Do]. Otherwise the error is an
// [*backoff.Error], which matches the error of the last attempt and says why there was
// no further one. It is permanent to a Policy around the call, unless MaxAttempts is 1.
// Value refuses an invalid h with the error of Validate, before the first attempt, and a
// ctx that has ended.
//
// Value blocks until there is a result, and returns it even if ctx has ended meanwhile.
// If ctx ends without a result, Value returns at once if h.Detach is set or the first
// attempt has failed, and otherwise when the first attempt returns. A panic or a
// runtime.Goexit in an attempt reaches the caller's goroutine. If it comes on another
// goroutine after the call is over, it ends there; [Stats] counts the panics.
//
// While op is fast, Value starts no goroutine and allocates once.
func Value[T any](ctx context.Context, h *Hedge, op func(context.Context) (T, error), discard func(T)) (T, error) {
	c := &contest[T]{op: op, discard: discard}
	c.runner, c.keep = c, discard != nil
	defer c.drop()
	c.do(ctx, h)
	c.passed = true
	return c.value, c.err
}

// Number returns which attempt ctx belongs to: 0 for the first attempt,
// and outside of Value; 1 for the first hedge, and so on. An operation can use it to pick
// another replica each time.
func Number(ctx context.Context) int {
	if a, ok := ctx.Value(attemptKey{}).(*attempt); ok {
		return a.number
	}
	return 0
}

func (h *Hedge) maxAttempts() int {
	if n := limits.Or(h.MaxAttempts, defaultAttempts); n > 0 {
		return min(n, mostAttempts)
	}
	return mostAttempts
}
