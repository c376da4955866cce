package backoff

import (
	"time"

	"github.com/gobackoff/backoff/internal/errtree"
)

// hint is how long a server asked to wait.
type hint struct {
	after time.Duration // the wait
	given bool          // whether a server asked
	exact bool          // whether the wait is neither spread nor made longer
}

// longer returns the hint that counts where an error tree holds two.
func (h hint) longer(other hint) hint {
	if !h.given || other.given && other.after > h.after {
		return other
	}
	return h
}

// RetryAfter marks err with the wait that a server asked for, such as by the
// Retry-After header. The call waits for d and a random part: up to a tenth of
// d, or up to 100 ms if that is more. It waits for its own jittered delay
// instead if that is longer. If the time left, before the deadline and MaxElapsed, allows
// d but not that wait, the call waits a random time between d and the time left, unless d
// is 0. If d itself is longer than the time left, or than [Policy.MaxRetryAfter], the
// call ends at once, and [Error.RetryAfter] returns d. A negative d counts as 0.
//
// An error says the same by a method RetryAfter() time.Duration. The mark says
// when to retry, not whether: a permanent error stays permanent.
// RetryAfter(nil, d) is nil.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &marked{err: err, hint: hint{after: max(0, d), given: true}}
}

// Pushback marks err with a wait that is exactly d, after which the schedule
// starts again. It is gRPC's form of Retry-After. Like [RetryAfter], it says
// when to retry, not whether, and MaxRetryAfter bounds it. A negative d means
// "do not retry", and makes the error ClassOverloaded. Under a [Supervisor],
// Pushback with a d of 0 or more is RetryAfter. Pushback(nil, d) is nil.
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
// made again at once: a used nonce (ACME's badNonce), the wrong region, an
// expired token that was renewed. The retry does not wait and takes no step of
// the schedule, but counts for MaxAttempts and for the budget. Of several such
// errors in a row, only the first is retried at once. If err also says how long
// to wait, by [RetryAfter] or [Pushback], the call waits so long.
//
// The mark makes an error retryable that a classifier finds permanent. It does
// not change one that is marked [Permanent] or ClassOverloaded, or that a
// policy inside gave up on. A [NonIdempotent] operation is repeated only if err
// is also marked by OfClass(err, ClassNotSent): do so if the server did not
// execute it.
//
// [Policy.Decide] knows no earlier error, and so retries at once only if its
// retry is 1. AtOnce(nil) is nil.
func AtOnce(err error) error {
	if err == nil {
		return nil
	}
	return &marked{err: err, atOnce: true}
}

// RetryAfterOf returns how long a server asked to wait, for programs that pass
// it on. It reads the marks of [RetryAfter] and [Pushback], a method
// RetryAfter() time.Duration, and an [Error]. It returns false if err has none
// of them.
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
