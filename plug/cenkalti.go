package plug

import (
	"context"
	"errors"
	"time"

	"github.com/gobackoff/backoff"
)

// Stop is what [BackOff.NextBackOff] returns when there is to be no more retry.
const Stop time.Duration = -1

// BackOff is a policy in the shape of github.com/cenkalti/backoff's BackOff, of any
// version, which other libraries take. See [Cenkalti].
type BackOff struct {
	run  *backoff.Run
	err  error // of refusal
	last error // the failure that the run is told of
}

var errFailed = errors.New("the operation failed")

// Cenkalti returns p as a BackOff for one operation at a time:
//
//	err := cenkalti.Retry(op, plug.Cenkalti(ctx, &policy)) // v4
//	v, err := cenkalti.Retry(ctx, op, cenkalti.WithBackOff(plug.Cenkalti(ctx, &policy))) // v5
//
// The shape is told that an attempt failed, but not with what error: it takes every one
// for transient. So Classify and hints are without effect; mark what is final by that
// package's own Permanent. MaxAttempts, MaxElapsed, Schedule, Jitter with its memory,
// MaxDelay, Budget, Idempotency, Observer and the deadline of ctx hold. It is not told of success either: a
// Budget that is paid by success gets nothing here, and soon grants only its reserve.
//
// With a nil or invalid policy, and one that nothing ends (no limit of attempts, no MaxElapsed, and no deadline
// of ctx), NextBackOff stops at once, and Err says why. A BackOff is for one goroutine.
func Cenkalti(ctx context.Context, p *backoff.Policy) *BackOff {
	rule := ruleOf(p)
	err := rule.refusal(ctx)
	if err == errUnbounded && p.MaxElapsed > 0 {
		err = nil
	}
	if err != nil {
		return &BackOff{err: err}
	}
	return &BackOff{
		run:  rule.policy.Start(ctx),
		last: backoff.WithClass(errFailed, backoff.ClassRetryable),
	}
}

// NextBackOff returns the wait before the next attempt, or [Stop].
func (b *BackOff) NextBackOff() time.Duration {
	if b.err != nil {
		return Stop
	}
	wait, ok := b.run.Retry(b.last)
	if !ok {
		return Stop
	}
	return wait
}

// Reset begins a new operation, as that package's Retry does by itself.
func (b *BackOff) Reset() {
	if b.run != nil {
		b.run.Reset()
		b.run.Admit() // begins to count MaxElapsed; whether it may begin, NextBackOff tells
	}
}

// Err returns why NextBackOff stopped, or nil.
func (b *BackOff) Err() error {
	if b.err != nil {
		return b.err
	}
	return b.run.Err()
}
