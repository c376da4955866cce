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
// instead if that is longer. If d fits into the time left and that wait does
// not, the call waits for a random time between the two, unless d is 0. If d
// does not fit, or is beyond [Policy.MaxRetryAfter], the call ends at once, and
// the [Error] has d. A negative d counts as 0.
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
// when to retry, not whether. A negative d means "do not retry", and makes the
// error ClassOverloaded. Under a [Supervisor] a d of 0 or more means the same
// as in RetryAfter. Pushback(nil, d) is nil.
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
// the schedule, but counts for MaxAttempts and the budget. Of several such
// errors in a row, only the first is retried at once. If err says how long to
// wait, as [RetryAfter] and [Pushback] do, that counts instead.
//
// The mark makes an error retryable that a classifier finds permanent. It does
// not change one that is marked [Permanent] or ClassOverloaded, or that a
// policy inside gave up on. To a [NonIdempotent] operation that the server did
// not execute, add OfClass(err, ClassNotSent).
//
// [Policy.Decide] retries at once only for retry 1. AtOnce(nil) is nil.
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
