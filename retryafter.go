package backoff

import (
	"time"

	"github.com/gobackoff/backoff/internal/errtree"
)

// hint is how long a server asked to wait.
type hint struct {
	after time.Duration
	given bool
	exact bool // wait exactly so long, without a spread, and even if the own wait is longer
}

// longer returns the hint that counts where an error tree holds two.
func (h hint) longer(other hint) hint {
	if !h.given || other.given && other.after > h.after {
		return other
	}
	return h
}

// RetryAfter marks err with the wait that a server asked for, such as by the
// Retry-After header: no attempt is made before d has passed. The loop adds a
// random part of up to 10 % of d, or up to 100 ms if that is more, so that
// clients that were all told "120" do not retry together. It waits for its own
// jittered delay instead if that is longer. If the call has time left for
// d but not for that wait, the wait is random between d and the time left, unless
// d is 0. If d does not fit, or is beyond [Policy.MaxRetryAfter], the
// call ends at once, and the [Error] carries d. A negative d counts as 0.
//
// An error says the same by a method RetryAfter() time.Duration. The mark says
// when to retry, and not whether: a permanent error stays permanent.
// RetryAfter(nil, d) is nil.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &marked{err: err, hint: hint{after: max(0, d), given: true}}
}

// Pushback marks err with a wait that is exactly d. The schedule starts
// again after it. Like [RetryAfter], it says when to retry, and not whether. It is
// gRPC's form of Retry-After, and fits what no other program waits for.
// A negative d means "do not retry", and makes the error ClassOverloaded.
// Under a [Supervisor] a d of 0 or more means the same as in RetryAfter.
// Pushback(nil, d) is nil.
//
// Source: gRFC A6, "Pushback".
func Pushback(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	if d < 0 {
		return OfClass(err, ClassOverloaded)
	}
	return &marked{err: err, hint: hint{after: d, given: true, exact: true}}
}

// AtOnce marks err as a failure after which the same call succeeds if it is
// made again at once: a nonce that was used before (ACME's badNonce), the
// wrong region, a token that has expired and was renewed. The retry does not
// wait. If the attempt before it failed with such an error as well, it waits
// as the schedule says: of several errors in a row that are marked AtOnce,
// only the first is retried at once. A retry without a wait is an attempt like
// any other to MaxAttempts and the budget, and takes no step of the schedule.
//
// The mark makes an error retryable that a classifier finds permanent, such as
// an HTTP 400. An error that is marked [Permanent] or ClassOverloaded stays
// so, and so does what an inner policy gave up on. The mark does not say that
// the operation may be repeated: to a [NonIdempotent] one that the server did
// not execute, add OfClass(err, ClassNotSent). If err says how long to wait,
// as [RetryAfter] and [Pushback] do, that counts instead. A hedged call
// sends its next attempt at once after any error that may be retried.
//
// [Policy.Decide] does not know the attempts before, and retries at once only
// for retry 1. AtOnce(nil) is nil.
func AtOnce(err error) error {
	if err == nil {
		return nil
	}
	return &marked{err: err, atOnce: true}
}

// RetryAfterOf returns how long a server asked to wait, for programs that pass
// it on. It reads the marks of [RetryAfter] and [Pushback], a method
// RetryAfter() time.Duration, and an [Error]. It returns false if err carries
// nothing of the kind.
func RetryAfterOf(err error) (time.Duration, bool) {
	var gave *Error
	errtree.Find(err, func(err error) (found bool) {
		gave, found = err.(*Error)
		return found
	})
	if gave.RetryAfter() > 0 {
		return gave.RetryAfter(), true
	}
	h := judge(nil, err).hint
	return h.after, h.given
}
