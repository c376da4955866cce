package limit

import (
	"math"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/badfield"
	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/limits"
)

// Rate is a rate limit: a [backoff.Budget] that makes every attempt take a
// token from a [rate.Limiter]. If there is no token left, the attempt waits
// for one. Attempts wait in the order in which they asked. A call whose wait
// would pass the deadline of its context, or its MaxElapsed, ends at once.
//
// Reserve does not block. It returns how long to wait, and the call waits.
// That time does not change when other calls end, or when the limit is
// changed.
//
// An attempt that waits longer for another reason than it would for a token
// takes its token when that wait is over, in Pace: a retry that backs off, or an
// attempt that another budget holds. So calls that a server told to retry at the
// same time retry at the rate. Any other attempt takes its token when it is
// decided on, and waits in the line. A hand-written loop that does not call
// [backoff.Run.Begin] takes the token of such a retry when it reports how the
// retry ended: then the rate holds on average only.
//
// Tokens given back. A call that ends while it waits, or whose attempt another
// budget refuses, gives its token back to the limiter. The attempts that ask
// after that wait less. The attempts that wait already keep their times. So
// the token must be saved until the last of them has gone, and the limiter can
// save it only as far as its burst has room. A token that cannot be saved is
// lost, unless the calls behind it end early as well: once no attempt waits,
// the limiter is as if the calls that ended had never asked. (After
// [rate.Reservation.Cancel] a plain limiter goes on paying for many of them.)
//
// The bound. A token is due when its attempt may be made. In any interval
//
//	tokens due <= Burst + Limit*interval + late
//
// where late is the number of tokens that were given back in it after they were
// due.
//
// Cost. An attempt takes Tokens times its Cost, which hand-written loops may
// set; the loops of package backoff leave it at 0, which counts as 1. If Done
// reports another cost, the difference is taken or given back then, up to the
// limiter's burst, unless 4096 attempts that were due later are running.
//
// Other code may share the limiter, and its limit may change at any time. A
// limiter that has a limit of 0 and no tokens left refuses.
//
// A Rate must not be copied, nor its fields changed, after first use. It is
// safe for concurrent use. A Done that is never called keeps a token that was
// due anyway. A second Done changes nothing, except for a retry that should
// have called Pace and did not.
//
// To give tokens back, Rate relies on ReserveN accepting a negative number,
// which is not documented (go.dev/issue/54082). Its tests fail if that
// changes.
type Rate struct {
	backoff.BudgetDefaults

	// Limiter has the tokens. nil is invalid, and limits nothing.
	Limiter *rate.Limiter
	// Tokens is the number that an attempt of Cost 1 takes. 0 means 1. Negative
	// numbers are invalid, and so are numbers beyond the limiter's burst, with
	// which no attempt would ever be made.
	Tokens int
	// RetriesOnly leaves first attempts alone.
	RetriesOnly bool

	mu    sync.Mutex
	queue queue
}

// GrantsFirst implements [backoff.Budget]. It is false, also if l is nil.
func (l *Rate) GrantsFirst() bool { return false }

// Reserve implements [backoff.Budget].
func (l *Rate) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	if l.Limiter == nil || l.RetriesOnly && a.First() {
		return backoff.Ticket{}, 0, true
	}
	return l.reserve(l.tokens(a.Cost), a.Time(), a.Wait)
}

// Pace implements [backoff.Budget]. An attempt that waited for another reason
// takes its tokens now.
func (l *Rate) Pace(t backoff.Ticket) (backoff.Ticket, time.Duration, bool) {
	if t.Word&planned != 0 {
		return l.reserve(int(t.Word&^planned), clock.Now(), 0)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return t, l.queue.left(t.Word, l.queue.watch.Elapsed(clock.Now())), true
}

// reserve takes tokens, or plans to if own is longer than the wait for them.
func (l *Rate) reserve(tokens int, read time.Time, own time.Duration) (backoff.Ticket, time.Duration, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	number, wait, ok := l.queue.reserve(l.Limiter, tokens, l.queue.watch.Elapsed(read), own)
	if ok && number == 0 {
		number = planned | uint64(tokens)
	}
	return backoff.Ticket{Word: number}, wait, ok
}

// Done implements [backoff.Budget].
func (l *Rate) Done(t backoff.Ticket, r backoff.Result) {
	unused := r.NotSent
	if t.Word == 0 || unused && t.Word&planned != 0 {
		return
	}
	now := clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	elapsed := l.queue.watch.Elapsed(now)
	more := 0
	if t.Word&planned != 0 { // it was made without Pace
		more = max(int(t.Word&^planned), l.tokens(r.Cost))
	} else if taken, ok := l.queue.finish(l.Limiter, elapsed, t.Word, unused); ok && !unused && r.Cost > 0 {
		more = l.tokens(r.Cost) - taken.tokens
	}
	if more != 0 {
		l.queue.level -= float64(min(0, more))
		l.Limiter.ReserveN(l.queue.watch.Time(elapsed), min(more, l.Limiter.Burst()))
	}
}

// tokens returns what an attempt takes. It saturates: a product that wrapped would
// give tokens to the limiter.
func (l *Rate) tokens(cost int) int {
	tokens := limits.Or(l.Tokens, 1)
	if tokens > 0 && cost > math.MaxInt/tokens {
		return math.MaxInt
	}
	return tokens * max(1, cost)
}

// Validate names the field that is invalid.
func (l *Rate) Validate() error { return backoff.Permanent(l.check()) }

func (l *Rate) check() error {
	switch {
	case l == nil:
		return badfield.New("limit.Rate", "is nil")
	case l.Limiter == nil:
		return badfield.New("limit.Rate.Limiter", "is nil")
	case l.Tokens < 0:
		return badfield.Int("limit.Rate.Tokens", l.Tokens, "0 (for 1) or more")
	case l.Limiter.Limit() != rate.Inf && l.Limiter.Burst() < l.tokens(1):
		return badfield.New("limit.Rate.Limiter", "has a burst of "+strconv.Itoa(l.Limiter.Burst())+", want at least what an attempt takes")
	}
	return nil
}
