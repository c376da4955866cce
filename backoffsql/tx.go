// Package backoffsql repeats database transactions that failed for a reason
// that may pass: a serialization failure, a deadlock, a lost connection. It
// imports no driver. It knows errors by their SQLSTATE (pgx, lib/pq) or by a
// function of the program ([MySQL]).
package backoffsql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/errtree"
)

// A Beginner begins transactions. It is a *sql.DB, or a *sql.Conn if the
// session matters. If the connection of a *sql.Conn is lost, it does not come
// back, and nothing is repeated.
type Beginner interface {
	BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
}

// ErrCommitUnknown is matched if the answer to a COMMIT did not arrive, at the
// last attempt or at an earlier one: the transaction may have been committed.
// The text of the error says "commit state unknown".
var ErrCommitUnknown = errors.New("backoffsql: commit state unknown")

var (
	errEnded = errors.New("backoffsql: fn ended the transaction itself")
	errInput = errors.New("backoffsql: Tx wants a database and a function")
)

// Tx begins a transaction, calls fn in it, and commits. If that fails in a way
// that may pass, Tx rolls back and begins again, as the policy says. It returns
// nil once the transaction is committed. It holds no connection between two
// attempts.
//
// A failure of BEGIN, of a statement or of COMMIT is repeated if the policy's
// own Classify, which is asked first, or [Classify] knows it to be transient.
// All other errors are final: the transaction is rolled back, and Tx returns
// the error as [backoff.Policy.Do] does: marked [backoff.Permanent], unless
// [backoff.DefaultClassifier] finds it permanent. The same holds for fn's own errors,
// unless they are marked otherwise ([backoff.WithClass]). When the policy gives
// up, Tx returns a [*backoff.Error], which matches the last error.
//
// A transaction that fails before its COMMIT has had no effect. It is repeated
// even under [backoff.NonIdempotent]. But if the connection is lost during the
// COMMIT, nobody knows whether the transaction was committed. Then it is
// repeated only if the policy declares fn idempotent: by an Idempotency of
// [backoff.Idempotent], [backoff.Keyed] or [backoff.AlwaysRetry], or by one
// that says yes. A nil Idempotency does not declare it here. Otherwise, and
// whenever the call fails later on, the error matches [ErrCommitUnknown] and is
// final to the policies around the call.
//
// To be idempotent, fn begins by inserting a key under a unique constraint
// ([backoff.IdempotencyKey] under Keyed), with ON CONFLICT DO NOTHING or INSERT
// IGNORE, and returns nil if no row was inserted. A SELECT is not enough, since
// the first COMMIT may still be under way. An INSERT that fails is not enough
// either, since PostgreSQL commits nothing after an error.
//
// fn gets the context of the attempt and must use it. It may be called several
// times, so its effects outside the transaction must allow for that. It must
// neither commit nor roll back. It must return the errors of its statements,
// which it may wrap. An error that it drops cannot be recognized as a deadlock.
// In PostgreSQL the transaction then commits nothing, which pgx and lib/pq
// report at the COMMIT; that error is final.
// Savepoints are left to fn: Tx makes none. A Tx within fn is another
// transaction, on another connection. If fn panics or ends its goroutine, the
// transaction is rolled back, and the panic goes on.
//
// A nil policy means the zero one: 4 attempts, which suits transactions that
// seldom conflict. Allow more if many transactions want the same rows. Nil opts
// mean the default isolation level of the database; PostgreSQL reports
// serialization failures from sql.LevelRepeatableRead on. A nil db or fn is an
// error. An attempt that exceeds the policy's AttemptTimeout is rolled back and
// repeated, or is of unknown state if it was committing.
//
// Tx blocks until the transaction is over, as long as ctx, the policy and the
// driver allow. It is safe for concurrent use. For statements outside a
// transaction, [backoff.Policy.Do] with [Classify] is enough.
//
// Sources: PostgreSQL, "Serialization Failure Handling"; MySQL, "Deadlocks in
// InnoDB"; package database/sql/driver, ErrBadConn.
func Tx(ctx context.Context, db Beginner, policy *backoff.Policy, opts *sql.TxOptions, fn func(context.Context, *sql.Tx) error) error {
	if none, ok := db.(*sql.DB); db == nil || ok && none == nil || fn == nil {
		return backoff.Permanent(errInput)
	}
	if policy == nil {
		policy = &backoff.Policy{}
	}
	c := &call{db: db, opts: opts, fn: fn, declared: policy.Idempotency, custom: policy.Classify}
	if c.declared == backoff.Keyed && backoff.IdempotencyKey(ctx) == "" {
		ctx = backoff.WithIdempotencyKey(ctx, "")
	}
	own := *policy
	own.Classify = c.classify
	own.Idempotency = c
	return c.result(ctx, own.Do(ctx, c.attempt))
}

// call is one call of Tx. It is the Idempotency of its policy, since only it
// knows how the attempt ended.
type call struct {
	db       Beginner
	opts     *sql.TxOptions
	fn       func(context.Context, *sql.Tx) error
	declared backoff.Idempotency
	custom   backoff.Classifier // the policy's own

	unknown    bool // it is unknown whether the last attempt committed
	anyUnknown bool // the same of any attempt
}

// Repeatable implements backoff.Idempotency.
func (c *call) Repeatable(ctx context.Context, class backoff.Class) bool {
	if c.unknown {
		return c.declared != nil && c.declared.Repeatable(ctx, max(class, backoff.ClassRetryable))
	}
	return c.declared == nil || c.declared.Repeatable(ctx, backoff.ClassNotSent)
}

// classify is the Classifier of the call.
func (c *call) classify(err error) backoff.Class {
	if c.custom != nil {
		if class := c.custom(err); class != backoff.ClassUnknown {
			return class
		}
	}
	return Classify(err)
}

// attempt makes one attempt.
func (c *call) attempt(ctx context.Context) error {
	c.unknown = false
	tx, err := c.db.BeginTx(ctx, c.opts)
	if err != nil {
		return err
	}
	returned := false
	defer func() {
		if !returned { // a panic, or a Goexit
			tx.Rollback()
		}
	}()
	err = c.fn(ctx, tx)
	returned = true
	if err == nil && ctx.Err() == nil {
		return c.commit(ctx, tx)
	}
	return c.rollback(ctx, tx, err)
}

// rollback ends an attempt that failed, or whose context has ended.
func (c *call) rollback(ctx context.Context, tx *sql.Tx, err error) error {
	gone := tx.Rollback()
	switch {
	case ctx.Err() != nil && (err == nil || errtree.Is(err, sql.ErrTxDone)):
		return contextError(ctx)
	case gone == sql.ErrTxDone && ctx.Err() == nil && c.classify(err).Retryable() && !c.provesRollback(err):
		// fn has ended the transaction, perhaps by a COMMIT that failed.
		return c.markUnknown(err)
	}
	return err
}

// contextError returns the error of a transaction that package sql rolled back
// when ctx ended. Package sql itself only says that the transaction is done.
func contextError(ctx context.Context) error {
	return fmt.Errorf("%w: %w", ctx.Err(), sql.ErrTxDone)
}

// commit commits, and tells what the result proves.
func (c *call) commit(ctx context.Context, tx *sql.Tx) error {
	err := tx.Commit()
	switch {
	case err == nil:
		return nil
	case errtree.Is(err, sql.ErrTxDone) && ctx.Err() != nil:
		return contextError(ctx)
	case errtree.Is(err, sql.ErrTxDone):
		return backoff.Permanent(fmt.Errorf("%w: %w", errEnded, err))
	case c.provesRollback(err):
		return err
	}
	return c.markUnknown(err)
}

// markUnknown notes that it is unknown whether the attempt committed.
func (c *call) markUnknown(err error) error {
	c.unknown, c.anyUnknown = true, true
	return &commitUnknown{err: err}
}

// result returns the error of the call. It says so if the transaction may have
// been committed.
func (c *call) result(ctx context.Context, err error) error {
	if err == nil || !c.anyUnknown {
		return err
	}
	if !errtree.Is(err, ErrCommitUnknown) {
		err = &commitUnknown{err: err, earlier: true}
	}
	if c.declared == nil || !c.declared.Repeatable(ctx, backoff.ClassRetryable) {
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
