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

// Rate is a [backoff.Budget] that makes every attempt take a token from a
// [rate.Limiter]. Where there is no token left, the attempt waits for one.
// Attempts wait in the order in which they asked. A call whose wait would pass
// the deadline of its context, or its MaxElapsed, ends at once.
//
// Reserve does not block. It answers how long to wait, and the call waits. An
// answer stands: it does not change because other calls leave, or because the
// limit is set.
//
// A retry takes its token when it is decided on, before its backoff. Where the
// backoff is longer than the wait for the token, the retry is made when the
// backoff ends.
//
// Tokens given back. A call that ends while it waits, or whose attempt another
// budget refuses, gives its token back to the limiter. The attempts that ask
// after that wait less. The attempts that wait already keep their times. So the
// token must be saved until the last of them has gone, and the limiter can save
// it only as far as its burst has room. A token that cannot be saved is lost,
// unless the calls behind it end early as well: once nobody waits, the limiter
// is as if the calls that ended had never asked. (After
// [rate.Reservation.Cancel] a plain limiter goes on paying for many of them.)
//
// The bound. A token is due when its attempt may be made. In any interval
//
//	tokens due <= Burst + Limit*interval + late
//
// where late is the number of tokens that were due in it and given back after
// that.
//
// Cost. An attempt takes Tokens times its Cost, which callers with a loop of
// their own may set; the loops of package backoff leave it at 0, which counts
// as 1. If Done tells another cost, the difference is taken or given back then,
// up to the limiter's burst.
//
// Other code may share the limiter, and its limit may change at any time. A
// limiter that has a limit of 0 and no tokens left refuses.
//
// A Rate must not be copied, nor its fields changed, after first use. It is
// safe for concurrent use. A Done that never comes keeps a token that was due
// anyway; a second Done changes nothing.
//
// To give tokens back, Rate relies on ReserveN accepting a negative number,
// which is not documented (go.dev/issue/54082). Its tests fail where that ends.
type Rate struct {
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

// Reserve implements [backoff.Budget].
func (l *Rate) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	if l.Limiter == nil || l.RetriesOnly && a.Kind == backoff.AttemptFirst {
		return backoff.Ticket{}, 0, true
	}
	now := a.Time()
	l.mu.Lock()
	defer l.mu.Unlock()
	number, wait, ok := l.queue.reserve(l.Limiter, l.tokens(a.Cost), l.queue.watch.Elapsed(now), 0)
	return backoff.Ticket{number}, wait, ok
}

// Done implements [backoff.Budget].
func (l *Rate) Done(t backoff.Ticket, r backoff.Result) {
	if t[0] == 0 {
		return
	}
	now := clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	elapsed := l.queue.watch.Elapsed(now)
	taken, ok := l.queue.finish(l.Limiter, elapsed, t[0], r.Outcome == backoff.OutcomeNotSent)
	if ok && r.Outcome != backoff.OutcomeNotSent && r.Cost > 0 {
		more := min(l.tokens(r.Cost)-taken.tokens, l.Limiter.Burst())
		l.Limiter.ReserveN(l.queue.watch.Time(elapsed), more)
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
