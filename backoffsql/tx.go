// Package backoffsql repeats database transactions that failed for a reason
// that may pass: a serialization failure, a deadlock, a lost connection.
//
//	err := backoffsql.Tx(ctx, db, policy, &sql.TxOptions{Isolation: sql.LevelSerializable},
//		func(ctx context.Context, tx *sql.Tx) error {
//			_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - 10 WHERE id = 1")
//			return err
//		})
//
// It imports no driver. It knows errors by their SQLSTATE (pgx, lib/pq), by their number
// (github.com/go-sql-driver/mysql), or by a function of the program ([MySQL], [SQLite]).
//
// [Tx] is for package database/sql. The module contrib/backoffpgx is its
// counterpart for the pools and connections of pgx, and both are made of
// [Transact].
package backoffsql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/errtree"
)

// A Beginner begins transactions. It is a *sql.DB, or a *sql.Conn if the
// session matters. A *sql.Conn whose connection is lost stays unusable, and
// nothing is repeated.
type Beginner interface {
	BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
}

// Tx begins a transaction, calls fn in it, and commits. If that fails in a way
// that may pass, Tx rolls back and begins again, as the policy says. It returns
// nil once the transaction is committed. It holds no connection between two
// attempts.
//
// A failure of BEGIN, of a statement or of COMMIT is repeated if the policy's
// own Classify, which is asked first, or [Classify] knows it to be transient.
// All other errors are permanent: the transaction is rolled back, and Tx returns
// the error as [backoff.Policy.Do] does: marked [backoff.Permanent], unless
// [backoff.DefaultClassifier] finds it permanent. The same holds for fn's own
// errors, unless they are marked otherwise ([backoff.OfClass]). When the policy
// gives up, Tx returns a [*backoff.Error], which matches the last error.
//
// A transaction that fails before its COMMIT has had no effect. It is repeated
// even under [backoff.NonIdempotent]. But if the connection is lost during the
// COMMIT, it is unknown whether the transaction was committed. Then it is
// repeated only if the policy declares fn idempotent: by an Idempotency of
// [backoff.Idempotent] or [backoff.Keyed], or by a custom one that returns true.
// A nil Idempotency does not declare it here. Otherwise, and whenever the call
// fails later on, the error matches [ErrCommitUnknown] and is permanent to the
// policies around the call.
//
// To be idempotent, fn begins by inserting a key under a unique constraint
// ([backoff.IdempotencyKey] under Keyed), with ON CONFLICT DO NOTHING or
// INSERT IGNORE, and returns nil if no row was inserted. A SELECT is not
// enough, since the first COMMIT may still be running. An INSERT that fails is
// not enough either, since PostgreSQL commits nothing after an error.
//
// fn gets the context of the attempt and must use it. It may be called several
// times, so its effects outside the transaction must allow for that. It must
// neither commit nor roll back. It must return the errors of its statements,
// which it may wrap. An error that it drops cannot be recognized as a
// deadlock. In PostgreSQL the transaction then commits nothing, which pgx and
// lib/pq report at the COMMIT; that error is permanent. Savepoints are left to
// fn: Tx makes none. A Tx within fn is another transaction, on another connection.
// It waits forever if such functions hold all connections of the pool. If fn panics or
// ends its goroutine, the transaction is rolled back, and the panic goes on.
//
// The zero policy makes 4 attempts, which suits transactions that seldom
// conflict. Allow more if many transactions want the same rows. Nil opts mean the
// default isolation level of the database; PostgreSQL reports serialization
// failures from sql.LevelRepeatableRead on. A nil db or fn is an error. An attempt
// that exceeds the policy's AttemptTimeout is rolled back and repeated, or is of
// unknown state if it was committing.
//
// Tx blocks until the transaction is over, as long as ctx, the policy and the
// driver allow. It is safe for concurrent use. For statements outside a
// transaction, [backoff.Policy.Do] with [Classify] is enough.
//
// Sources: PostgreSQL, "Serialization Failure Handling"; MySQL, "Deadlocks in
// InnoDB"; package database/sql/driver, ErrBadConn.
func Tx(ctx context.Context, db Beginner, policy backoff.Policy, opts *sql.TxOptions, fn func(context.Context, *sql.Tx) error) error {
	if none, ok := db.(*sql.DB); db == nil || ok && none == nil || fn == nil {
		return backoff.Permanent(errors.New("backoffsql: Tx wants a database and a function"))
	}
	if opts != nil && opts.ReadOnly {
		fn = readOnly(fn)
	}
	return Transact(ctx, database{db, opts}, policy, fn)
}

// readOnly returns fn for a transaction that the program has begun read-only: no
// other session lets it write.
func readOnly(fn func(context.Context, *sql.Tx) error) func(context.Context, *sql.Tx) error {
	return func(ctx context.Context, tx *sql.Tx) error {
		err := fn(ctx, tx)
		if err != nil && (sqlState(err) == "25006" || strings.Contains(err.Error(), "(25006)")) { // as 1792 of MySQL says
			return backoff.Permanent(err)
		}
		return err
	}
}

// database is the Transactor of Tx.
type database struct {
	db   Beginner
	opts *sql.TxOptions
}

// Begin implements Transactor. To lib/pq a connection that ends while it is made is
// a bare io.EOF, as where a proxy has no server behind it.
func (d database) Begin(ctx context.Context) (*sql.Tx, error) {
	tx, err := d.db.BeginTx(ctx, d.opts)
	if errtree.Is(err, io.EOF) {
		err = backoff.OfClass(err, backoff.ClassRetryable)
	}
	return tx, err
}

// Commit implements Transactor.
func (database) Commit(ctx context.Context, tx *sql.Tx) error {
	err := tx.Commit()
	switch {
	case err == nil || !errtree.Is(err, sql.ErrTxDone):
		return err
	case ctx.Err() != nil: // package sql rolled back when ctx ended
		return RolledBack(contextError(ctx))
	}
	return fmt.Errorf("%w: %w", ErrEnded, err)
}

// Rollback implements Transactor.
func (database) Rollback(ctx context.Context, tx *sql.Tx) error {
	err := tx.Rollback()
	if err == sql.ErrTxDone && ctx.Err() == nil { // else package sql did it
		return fmt.Errorf("%w: %w", ErrEnded, err)
	}
	return err
}

// Renew throws sessions away: the one that the pool gives next, which is the one
// that came back last, or all that are idle.
func (d database) Renew(ctx context.Context, all func(pool any) bool) {
	pool, ok := d.db.(*sql.DB)
	if !ok {
		return
	}
	n := 1
	if all(pool) {
		n = max(n, pool.Stats().Idle)
	}
	for range n {
		session, err := pool.Conn(ctx)
		if err != nil {
			return
		}
		session.Raw(func(any) error { return driver.ErrBadConn })
		session.Close()
	}
}
