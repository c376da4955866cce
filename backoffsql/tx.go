// Package backoffsql runs database transactions again that failed for a reason which may pass:
// a serialization failure, a deadlock, a lost connection. It imports no driver: errors are known by
// their SQLSTATE (pgx, lib/pq) or by a hook ([MySQL]).
package backoffsql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/gobackoff/backoff"
)

// A Beginner begins transactions. It is a *sql.DB, or a *sql.Conn where the session matters; a
// *sql.Conn whose connection is lost does not come back, so that nothing is repeated then.
type Beginner interface {
	BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
}

// ErrCommitUnknown is matched when the answer to a COMMIT did not arrive, of the last attempt
// or of an earlier one: the transaction may have been committed. The text of the error says
// "commit state unknown".
var ErrCommitUnknown = errors.New("backoffsql: commit state unknown")

var (
	errEnded = errors.New("backoffsql: fn ended the transaction itself")
	errInput = errors.New("backoffsql: Tx wants a database and a function")
)

// Tx begins a transaction, calls fn in it, and commits; if that fails in a way that may pass, it
// rolls back and begins again, as the policy says. It returns nil once the transaction is
// committed. Between two attempts no connection is held.
//
// What is tried again, whether the failure is of BEGIN, of a statement, or of COMMIT, is what [Classify] and the
// policy's own Classify, which is asked first, know to be transient. Everything else is final: an error that
// nobody knows rolls back and comes back as it is, marked [backoff.Permanent]. So does an error of
// fn's own, unless it is marked otherwise ([backoff.WithClass]). When the policy gives up, the error is a
// [*backoff.Error], which matches the last error.
//
// Up to its COMMIT a transaction that fails has had no effect, and is repeated even under
// [backoff.NonIdempotent]. But if the connection is lost while it commits, nobody knows whether it has. Then it is
// repeated only if fn is declared idempotent: by a policy whose Idempotency is
// [backoff.Idempotent], [backoff.Keyed], [backoff.AlwaysRetry], or one that says yes. nil does not say so here.
// Otherwise, and whenever the call fails later on, the error matches [ErrCommitUnknown], and is
// final to the policies around. To be idempotent, fn begins by inserting a key under a unique constraint
// ([backoff.IdempotencyKey] under Keyed) with ON CONFLICT DO NOTHING or INSERT IGNORE, and returns nil if
// no row was inserted. A SELECT will not do, as the first COMMIT may still be under way; nor will
// an INSERT that fails, as PostgreSQL commits nothing after an error.
//
// fn gets the context of the attempt and must use it; it may be called several times, so what it
// changes outside of the transaction must bear that. It must neither commit nor roll back. It
// must return the errors of its statements, wrapped if it likes: an error it swallows cannot be known for
// a deadlock, and leaves a transaction that commits nothing, as the COMMIT then tells (pgx). Savepoints are fn's own affair: Tx makes none and
// knows none. A Tx within fn is another transaction, on another connection. If fn panics or
// leaves its goroutine, the transaction is rolled back, and the panic goes on.
//
// A nil policy means the zero one: 4 attempts, which suits transactions that seldom meet. Where many
// want the same rows, allow more. nil opts are the default isolation level of the database;
// PostgreSQL reports serialization failures from sql.LevelRepeatableRead on. A nil db or fn is an
// error. Under the policy's AttemptTimeout an attempt ends with its rollback, and is
// repeated, or is of unknown state if it was committing.
//
// Tx blocks until the transaction is over, as long as ctx, the policy, and the driver let it. It
// is safe for concurrent use. It does not cover statements outside of a transaction, for which
// [backoff.Policy.Do] with [Classify] is enough.
//
// Sources: PostgreSQL, "Serialization Failure Handling"; MySQL, "Deadlocks in InnoDB"; package
// database/sql/driver, ErrBadConn.
func Tx(ctx context.Context, db Beginner, policy *backoff.Policy, opts *sql.TxOptions, fn func(context.Context, *sql.Tx) error) error {
	if none, ok := db.(*sql.DB); db == nil || ok && none == nil || fn == nil {
		return backoff.Permanent(errInput)
	}
	if policy == nil {
		policy = &backoff.Policy{}
	}
	c := &call{db: db, opts: opts, fn: fn, declared: policy.Idempotency, hook: policy.Classify}
	if c.declared == backoff.Keyed && backoff.IdempotencyKey(ctx) == "" {
		ctx = backoff.WithIdempotencyKey(ctx, "")
	}
	own := *policy
	own.Classify = c.classify
	if c.declared != backoff.NeverRetry {
		own.Idempotency = c
	}
	return c.conclude(ctx, own.Do(ctx, c.attempt))
}

// call is one Tx. It is the Idempotency of its policy, as only it knows how the attempt ended.
type call struct {
	db       Beginner
	opts     *sql.TxOptions
	fn       func(context.Context, *sql.Tx) error
	declared backoff.Idempotency
	hook     backoff.Classifier

	unknown bool // whether the last attempt committed
	doubt   bool // whether any did
}

// Repeatable implements backoff.Idempotency.
func (c *call) Repeatable(ctx context.Context, class backoff.Class) bool {
	if c.unknown {
		return c.declared != nil && c.declared.Repeatable(ctx, max(class, backoff.ClassRetryable))
	}
	return c.declared == nil || c.declared.Repeatable(ctx, backoff.ClassNotSent)
}

func (c *call) classify(err error) backoff.Class {
	if c.hook != nil {
		if class := c.hook(err); class != backoff.ClassUnknown {
			return class
		}
	}
	return Classify(err)
}

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

// rollback ends an attempt that failed, or whose time is over.
func (c *call) rollback(ctx context.Context, tx *sql.Tx, err error) error {
	gone := tx.Rollback()
	switch {
	case ctx.Err() != nil && (err == nil || errors.Is(err, sql.ErrTxDone)):
		return ended(ctx)
	case gone == sql.ErrTxDone && ctx.Err() == nil && c.classify(err).Retryable() && !c.refused(err):
		return c.lose(err) // fn has ended the transaction, perhaps by a COMMIT that failed
	}
	return err
}

// ended is what became of a transaction that package sql rolled back because of ctx, and of
// which it says no more than that it is done.
func ended(ctx context.Context) error {
	return fmt.Errorf("%w: %w", ctx.Err(), sql.ErrTxDone)
}

func (c *call) commit(ctx context.Context, tx *sql.Tx) error {
	err := tx.Commit()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrTxDone) && ctx.Err() != nil:
		return ended(ctx)
	case errors.Is(err, sql.ErrTxDone):
		return backoff.Permanent(fmt.Errorf("%w: %w", errEnded, err))
	case c.refused(err):
		return err
	}
	return c.lose(err)
}

// lose notes that nobody knows whether the attempt committed.
func (c *call) lose(err error) error {
	c.unknown, c.doubt = true, true
	return &uncertain{err: err}
}

// conclude returns the error of the call, with the doubts that are left.
func (c *call) conclude(ctx context.Context, err error) error {
	if err == nil || !c.doubt {
		return err
	}
	if !errors.Is(err, ErrCommitUnknown) {
		err = &uncertain{err: err, earlier: true}
	}
	if c.declared == nil || !c.declared.Repeatable(ctx, backoff.ClassRetryable) {
		return backoff.Permanent(err) // also where the policy left retrying to others
	}
	return err
}

// uncertain is an error by which a transaction may have been committed.
type uncertain struct {
	err     error
	earlier bool // not this error, but one before it
}

func (u *uncertain) Error() string {
	if u.earlier {
		return ErrCommitUnknown.Error() + " (of an earlier attempt): " + u.err.Error()
	}
	return ErrCommitUnknown.Error() + ": " + u.err.Error()
}

func (u *uncertain) Unwrap() []error { return []error{ErrCommitUnknown, u.err} }
