package backoff

import (
	"errors"
	"time"
)

// hint is what a server asked for.
type hint struct {
	after time.Duration
	given bool
	exact bool // to be waited as it is, neither spread nor compared
}

// longer returns the hint to obey where an error tree holds two.
func (h hint) longer(other hint) hint {
	if !h.given || other.given && other.after > h.after {
		return other
	}
	return h
}

// RetryAfter marks err with a server's hint: no attempt before d has passed. The
// loop waits d and, on top of it, the longer of its own jittered delay and a random part of
// up to 10 % of d, so that a fleet that was told "120" does not come back as one.
// A hint beyond [Policy.MaxRetryAfter], or beyond the time the call has left, ends the call
// at once, with the hint in the [Error]. A negative d counts as 0.
//
// An error says the same by a method RetryAfter() time.Duration. A hint says when,
// not whether: a permanent error stays permanent. RetryAfter(nil, d) is nil.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &marked{err: err, hint: hint{after: max(0, d), given: true}}
}

// Pushback marks err with gRPC's form of a hint, which differs from [RetryAfter]: the
// wait is exactly d, and the schedule starts again after it; a negative d means
// "do not retry" and makes the error ClassOverloaded. Pushback(nil, d) is nil.
//
// Source: gRFC A6, "Pushback".
func Pushback(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	if d < 0 {
		return WithClass(err, ClassOverloaded)
	}
	return &marked{err: err, hint: hint{after: d, given: true, exact: true}}
}

// RetryAfterOf returns the server's hint that err carries, by [RetryAfter], [Pushback], a
// method RetryAfter() time.Duration, or as an [Error]: for those who pass it on. It
// returns false if there is none.
func RetryAfterOf(err error) (time.Duration, bool) {
	if gave, ok := errors.AsType[*Error](err); ok && gave.retryAfter > 0 {
		return gave.retryAfter, true
	}
	h := judge(nil, err).hint
	return h.after, h.given
}
