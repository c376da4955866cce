package plug

import (
	"context"
	"errors"
	"time"

	"github.com/gobackoff/backoff"
)

// Stop is what [BackOff.NextBackOff] returns to end the retries.
const Stop time.Duration = -1

// BackOff makes a policy a BackOff of github.com/cenkalti/backoff, of any
// version. Other libraries take the same interface. See [Cenkalti].
type BackOff struct {
	run *backoff.Run
	err error // why the operation is refused
}

// errFailed stands for the error of the operation, which the shape does not
// pass on.
var errFailed = backoff.OfClass(errors.New("the operation failed"), backoff.ClassRetryable)

// Cenkalti returns p as a BackOff for one operation at a time:
//
//	err := cenkalti.Retry(op, plug.Cenkalti(ctx, policy)) // v4
//	v, err := cenkalti.Retry(ctx, op, cenkalti.WithBackOff(plug.Cenkalti(ctx, policy))) // v5
//
// The shape says that an attempt failed, but not with which error. Cenkalti
// takes every error as transient, so Classify and Retry-After have no effect;
// mark permanent errors with that package's own Permanent. MaxAttempts,
// MaxElapsed, Schedule, ByClass for ClassRetryable, Jitter with its memory,
// MaxDelay, Budget, Idempotency, Observer and the deadline of ctx hold. The
// shape does not report success either: a Budget that is paid by success is
// never paid, and soon grants only its reserve.
//
// If the policy is invalid, NextBackOff stops at once, and Err says why. So it
// does if nothing would end the retries: no limit of attempts, no MaxElapsed, and
// no deadline of ctx. A BackOff is for one goroutine.
func Cenkalti(ctx context.Context, p backoff.Policy) *BackOff {
	rule := newRule(p)
	err := rule.refusal(ctx, rule.attemptsAfter(backoff.ClassRetryable))
	if err == errUnbounded && p.MaxElapsed > 0 {
		err = nil
	}
	if err != nil {
		return &BackOff{err: err}
	}
	return &BackOff{run: p.Start(ctx)}
}

// NextBackOff returns the wait before the next attempt, or [Stop].
func (b *BackOff) NextBackOff() time.Duration {
	if b.err != nil {
		return Stop
	}
	wait, ok := b.run.Tried(errFailed)
	if !ok {
		return Stop
	}
	return wait
}

// Reset begins a new operation. That package's Retry calls it.
func (b *BackOff) Reset() {
	if b.run != nil {
		b.run.Reset()
		b.run.Progress() // the time of the first attempt counts
	}
}

// Err returns why NextBackOff stopped, or nil.
func (b *BackOff) Err() error {
	if b.err != nil {
		return b.err
	}
	return b.run.Err()
}
