package backoffsql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/errtree"
	"github.com/gobackoff/backoff/internal/evidence"
)

var (
	// ErrCommitUnknown is matched if the response to a COMMIT did not arrive,
	// at the last attempt or at an earlier one: the transaction may have been
	// committed. The text of the error says "commit state unknown".
	ErrCommitUnknown = errors.New("backoffsql: commit state unknown")

	// ErrEnded is matched if fn has committed or rolled back the transaction
	// itself. The error is permanent.
	ErrEnded = errors.New("backoffsql: fn ended the transaction itself")
)

// A Transactor begins and ends transactions of type T. It lets [Transact] use
// a database that package database/sql does not reach.
//
// The methods get the context of the attempt. They must be safe for concurrent
// use if Transact is called concurrently.
//
// A Transactor that takes sessions from a pool may also have a method
// Renew(ctx context.Context, all func(pool any) bool). It is called after an attempt
// whose session was at fault (see [Classify]), once that session is back in the pool. It
// should discard the session, and if all returns true for a pointer to the pool, which it
// does once a second, the other idle ones too.
type Transactor[T any] interface {
	// Begin begins a transaction.
	Begin(ctx context.Context) (T, error)

	// Commit commits it. If it fails, Transact takes the outcome for unknown,
	// unless the error has a SQLSTATE by which the server says that it did not
	// commit. A Transactor that knows more returns [RolledBack] of the error.
	// If the transaction is over already, Commit returns an error that matches
	// [ErrEnded].
	Commit(ctx context.Context, tx T) error

	// Rollback rolls it back. It is called if ctx has ended, too. It must not
	// leave the transaction open: if it fails, it closes the connection. If
	// the transaction is over already, because fn has ended it, Rollback
	// returns an error that matches [ErrEnded]. Other errors are ignored.
	Rollback(ctx context.Context, tx T) error
}

// RolledBack marks an error that a [Transactor] returns from Commit: it proves
// that the transaction was not and will not be committed, for instance because
// nothing was sent. The error keeps its text and its class, by which the policy
// decides whether to begin again. The mark counts only as the outermost error.
// RolledBack returns nil for nil.
func RolledBack(err error) error {
	if err == nil {
		return nil
	}
	return &rolledBack{err}
}

// rolledBack is an error after which a transaction is not committed.
type rolledBack struct{ error }

// Unwrap returns the error itself.
func (r *rolledBack) Unwrap() error { return r.error }

// Transact is [Tx] for any kind of transaction: it begins one, calls fn in it,
// and commits, and repeats that as the policy says. Everything in the doc of
// [Tx] holds for it, except what concerns drivers. A nil fn is an error, and
// so is a nil db.
func Transact[T any, D Transactor[T]](ctx context.Context, db D, policy backoff.Policy, fn func(context.Context, T) error) error {
	if any(db) == nil || fn == nil {
		return backoff.Permanent(errors.New("backoffsql: Transact wants a Transactor and a function"))
	}
	c := &call[T, D]{db: db, fn: fn, outcome: outcome{declared: policy.Idempotency, custom: policy.Classify}}
	if c.declared == backoff.Keyed && backoff.IdempotencyKey(ctx) == "" {
		ctx = backoff.WithIdempotencyKey(ctx, "")
	}
	policy.Classify = c.classify
	policy.Idempotency = &c.outcome
	return c.result(ctx, policy.Do(ctx, c.attempt))
}

// call is one call of Transact.
type call[T any, D Transactor[T]] struct {
	outcome
	db D
	fn func(context.Context, T) error
}

// attempt makes one attempt. If its session is wrong for good, the next attempt
// must not get it again.
func (c *call[T, D]) attempt(ctx context.Context) error {
	err := c.try(ctx)
	if evidence.IsOfSession(err) && c.classify(err).Retryable() {
		if d, ok := any(c.db).(interface {
			Renew(context.Context, func(any) bool)
		}); ok {
			d.Renew(ctx, mayEmpty)
		}
	}
	return err
}

// emptied are the times when pools were emptied last, by their addresses: a pool
// itself would stay in memory. One that gets the address of another one may have to
// wait for a second.
var emptied sync.Map

// mayEmpty reports whether that was a second ago, and notes that it is now. A
// program that writes to a replica has new sessions that are as wrong as the old
// ones, and must not open them all the time.
func mayEmpty(pool any) bool {
	key, now := reflect.ValueOf(pool).Pointer(), clock.Now()
	last, again := emptied.LoadOrStore(key, now)
	return !again || now.Sub(last.(time.Time)).Abs() >= time.Second && emptied.CompareAndSwap(key, last, now)
}

// try begins a transaction, calls fn in it, and commits.
func (c *call[T, D]) try(ctx context.Context) error {
	c.unknown = false
	tx, err := c.db.Begin(ctx)
	if err != nil {
		return err
	}
	returned := false
	defer func() {
		if !returned { // a panic, or a Goexit
			c.db.Rollback(ctx, tx)
		}
	}()
	err = c.fn(ctx, tx)
	if err == nil && ctx.Err() == nil {
		err = c.db.Commit(ctx, tx)
		returned = true
		return c.afterCommit(err)
	}
	returned = true
	return c.afterRollback(ctx, err, errtree.Is(c.db.Rollback(ctx, tx), ErrEnded))
}

// outcome is what a call knows of its transactions. It is the Idempotency of the
// call's policy, since only it knows how the attempt ended.
type outcome struct {
	declared backoff.Idempotency
	custom   backoff.Classifier // the policy's own

	unknown    bool // it is unknown whether the last attempt committed
	anyUnknown bool // the same of any attempt
}

// Repeatable implements backoff.Idempotency.
func (o *outcome) Repeatable(ctx context.Context, class backoff.Class) bool {
	if o.unknown {
		return o.declared != nil && o.declared.Repeatable(ctx, max(class, backoff.ClassRetryable))
	}
	return o.declared == nil || o.declared.Repeatable(ctx, backoff.ClassNotSent)
}

// classify is the Classifier of the call.
func (o *outcome) classify(err error) backoff.Class {
	if o.custom != nil {
		return cmp.Or(o.custom(err), Classify(err))
	}
	return Classify(err)
}

// afterRollback returns the error of an attempt that was rolled back because fn
// failed with err, or because its context has ended. If ended, fn had ended the
// transaction before.
func (o *outcome) afterRollback(ctx context.Context, err error, ended bool) error {
	over := ctx.Err() != nil
	switch {
	case ended && err == nil:
		return backoff.Permanent(ErrEnded)
	case ended && (over || o.classify(err).Retryable()) && !o.provesRollback(err):
		// fn has ended the transaction, perhaps by a COMMIT that failed.
		return o.markUnknown(err)
	case !ended && over && (err == nil || errtree.Is(err, sql.ErrTxDone)):
		return contextError(ctx)
	}
	return err
}

// contextError returns the error of a transaction that was rolled back because
// ctx ended. Package sql itself only says that the transaction is done.
func contextError(ctx context.Context) error {
	return fmt.Errorf("%w: the transaction was rolled back", ctx.Err())
}

// afterCommit tells what the result of a COMMIT proves.
func (o *outcome) afterCommit(err error) error {
	proof, proven := err.(*rolledBack)
	switch {
	case err == nil:
		return nil
	case proven:
		return proof.error
	case errtree.Is(err, ErrEnded):
		return backoff.Permanent(err)
	case o.provesRollback(err):
		return err
	}
	return o.markUnknown(err)
}

// markUnknown notes that it is unknown whether the attempt committed.
func (o *outcome) markUnknown(err error) error {
	o.unknown, o.anyUnknown = true, true
	return &commitUnknown{err: err}
}

// result returns the error of the call. It says so if the transaction may have
// been committed.
func (o *outcome) result(ctx context.Context, err error) error {
	if err == nil || !o.anyUnknown {
		return err
	}
	if !errtree.Is(err, ErrCommitUnknown) {
		err = &commitUnknown{err: err, earlier: true}
	}
	if o.declared == nil || !o.declared.Repeatable(ctx, backoff.ClassRetryable) {
		return backoff.Permanent(err) // even if MaxAttempts is 1
	}
	return err
}

// commitUnknown is an error after which a transaction may have been committed.
type commitUnknown struct {
	err     error
	earlier bool // an earlier attempt may have committed, not the one of err
}

// Error returns the text, beginning with that of ErrCommitUnknown.
func (u *commitUnknown) Error() string {
	if u.earlier {
		return ErrCommitUnknown.Error() + " (of an earlier attempt): " + u.err.Error()
	}
	return ErrCommitUnknown.Error() + ": " + u.err.Error()
}

// Unwrap returns ErrCommitUnknown and the error itself.
func (u *commitUnknown) Unwrap() []error { return []error{ErrCommitUnknown, u.err} }
