// Package backoffpgx repeats transactions of pgx that failed for a reason that
// may pass: a serialization failure, a deadlock, a lost connection. It is
// package backoffsql for the pools and connections of pgx itself.
//
//	err := backoffpgx.Tx(ctx, pool, policy, pgx.TxOptions{IsoLevel: pgx.Serializable},
//		func(ctx context.Context, tx pgx.Tx) error {
//			_, err := tx.Exec(ctx, "UPDATE accounts SET balance = balance - 10 WHERE id = 1")
//			return err
//		})
package backoffpgx

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffsql"
)

// A Beginner begins transactions. It is a *pgxpool.Pool, or a *pgx.Conn or
// *pgxpool.Conn if the session matters. Such a connection does not return once
// it is closed, and then nothing is repeated: the last error is permanent. A
// pgx.Tx is no Beginner, since what it begins is a savepoint.
type Beginner interface {
	BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error)
}

var (
	errInput = errors.New("backoffpgx: Tx wants a database and a function")
	errEnded = fmt.Errorf("%w: %w", backoffsql.ErrEnded, pgx.ErrTxClosed)
)

// Tx begins a transaction, calls fn in it, and commits. If that fails in a way
// that may pass, Tx rolls back and begins again, as the policy says. It takes
// the place of pgx.BeginTxFunc, and keeps the promises of [backoffsql.Tx], which
// says what is repeated, what fn must do, and how fn becomes idempotent. In
// short:
//
//   - A transaction that fails before its COMMIT has had no effect. It is
//     repeated even under [backoff.NonIdempotent].
//   - If the response to the COMMIT does not arrive, it is unknown whether the
//     transaction was committed. Then it is repeated only if the policy
//     declares fn idempotent, by [backoff.Keyed] for instance. Otherwise the
//     error is permanent, and matches [backoffsql.ErrCommitUnknown].
//   - pgx.ErrTxCommitRollback is permanent: a statement failed whose error fn
//     dropped, and PostgreSQL has rolled back.
//   - Tx returns pgx.ErrNoRows and a *pgconn.PgError of the classes 22, 23, 28 and
//     42, such as a duplicate key, as fn returned them: == finds them. Another
//     permanent error may have the mark of [backoff.Permanent]: compare by errors.Is.
//   - Serializable transactions that want the same rows fail one another: allow
//     them more than the 4 attempts of the zero policy.
//
// Tx knows more than backoffsql.Tx: a COMMIT that pgx did not send, because the
// connection was closed before or ctx had ended, has committed nothing.
//
// A session is wrong for good if its server is a standby now or its prepared
// statements are gone ([backoffsql.Classify] lists the SQLSTATEs). Tx then closes
// the connection that the pool gives next, which is the same one unless others use
// the pool, and begins again in another one. Once a second at most it resets the
// whole pool instead. A *pgx.Conn stays open. With target_session_attrs=read-write
// in the DSN a pool connects to no standby, and with default_query_exec_mode=exec
// it needs no prepared statements, which get lost behind pgbouncer. A transaction
// that the program begins read-only, by opts or by default_transaction_read_only in
// the DSN, is not repeated for a write.
//
// fn gets the context of the attempt. It must return the errors of its
// statements, and of BatchResults.Close and Rows.Err. It must close its results
// and wait for its goroutines: a connection that is still busy is a permanent
// error. It must neither commit nor roll back, neither by a method nor in
// SQL; Tx returns [backoffsql.ErrEnded] where it notices that. tx.Begin makes a
// savepoint, which is fn's own affair. If fn panics or ends its goroutine, the
// transaction is rolled back, the connection goes back to the pool, and the
// panic goes on.
//
// If ctx or the policy's AttemptTimeout ends while pgx waits for a response,
// pgx closes the connection. During the COMMIT that is a response which does
// not arrive. An attempt that waits for a connection of the pool until its
// AttemptTimeout is repeated.
//
// The zero opts mean the defaults of the server. Tx returns an error before the
// first attempt if db or fn is nil, if db is a pgx.Tx, or if opts.CommitQuery
// has several statements: if one after the COMMIT fails, that cannot be known.
// Tx blocks until the transaction is over, as long as ctx, the policy and pgx
// allow. It is safe for concurrent use if db is.
func Tx(ctx context.Context, db Beginner, policy backoff.Policy, opts pgx.TxOptions, fn func(context.Context, pgx.Tx) error) error {
	if fn == nil {
		return backoff.Permanent(errInput)
	}
	d, err := newDatabase(db, opts)
	if err != nil {
		return backoff.Permanent(err)
	}
	return backoffsql.Transact(ctx, d, policy, func(ctx context.Context, tx *transaction) error {
		return d.final(d.refused(fn(ctx, tx), tx.conn))
	})
}

// database is the backoffsql.Transactor of Tx.
type database struct {
	db   Beginner
	opts pgx.TxOptions
	own  *pgx.Conn // the only connection, unless db is a pool
}

func newDatabase(db Beginner, opts pgx.TxOptions) (d database, err error) {
	d = database{db: db, opts: opts}
	if v := reflect.ValueOf(db); db == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return d, errInput
	}
	switch db := db.(type) {
	case pgx.Tx:
		return d, errors.New("backoffpgx: Tx wants a connection or a pool, not a pgx.Tx, which would make a savepoint")
	case *pgx.Conn:
		d.own = db
	case *pgxpool.Conn:
		d.own = db.Conn()
	}
	if strings.Contains(strings.TrimRight(opts.CommitQuery, "; \t\r\n"), ";") {
		return d, fmt.Errorf("backoffpgx: TxOptions.CommitQuery is %q, want one statement", opts.CommitQuery)
	}
	return d, nil
}

// final marks err permanent if there is no connection to begin again on.
func (d database) final(err error) error {
	if err != nil && d.own != nil && d.own.IsClosed() {
		return backoff.Permanent(err)
	}
	return err
}

// refused marks err permanent if it refuses to write in a transaction that the
// program has begun read-only.
func (d database) refused(err error, conn *pgx.Conn) error {
	if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != "25006" {
		return err
	}
	if d.opts.AccessMode == pgx.ReadOnly || strings.Contains(strings.ToLower(d.opts.BeginQuery), "read only") ||
		conn != nil && conn.Config().RuntimeParams["default_transaction_read_only"] == "on" {
		return backoff.Permanent(err)
	}
	return err
}

// Renew throws sessions away: the one that the pool gives next, which is the one
// that came back last, or all of them, and those in use once they come back.
func (d database) Renew(ctx context.Context, all func(pool any) bool) {
	pool, ok := d.db.(*pgxpool.Pool)
	if !ok {
		return
	}
	if all(pool) {
		pool.Reset()
	} else if session, err := pool.Acquire(ctx); err == nil {
		session.Conn().Close(ctx)
		session.Release()
	}
}

// Begin implements backoffsql.Transactor.
func (d database) Begin(ctx context.Context) (*transaction, error) {
	switch stateOf(d.own) {
	case closed:
		return nil, backoff.Permanent(fmt.Errorf("backoffpgx: %w", pgconn.ErrConnClosed))
	case busy, inside:
		// BEGIN would join a transaction that is open, and the COMMIT would end it.
		return nil, backoff.Permanent(errors.New("backoffpgx: the connection is in a transaction or reads a result"))
	}
	tx, err := d.db.BeginTx(ctx, d.opts)
	if err != nil {
		if stateOf(d.own) == inside { // opts.BeginQuery failed after its BEGIN
			d.own.Exec(ctx, "rollback")
		}
		return nil, d.final(err)
	}
	t := &transaction{Tx: tx, conn: d.own}
	if tx, ok := tx.(*pgxpool.Tx); ok {
		t.conn = tx.Conn()
	}
	return t, nil
}

// Commit implements backoffsql.Transactor.
func (d database) Commit(ctx context.Context, t *transaction) error {
	if t.ended {
		return errEnded
	}
	before := stateOf(t.conn)
	if before == idle { // fn has sent a COMMIT or ROLLBACK by Exec
		t.Tx.Rollback(ctx) // gives the connection back
		return errEnded
	}
	err := t.Tx.Commit(ctx)
	switch {
	case err == nil:
		return nil
	case before == busy:
		return backoffsql.RolledBack(backoff.Permanent(fmt.Errorf("backoffpgx: fn has left Rows or BatchResults open, or a goroutine that uses the transaction: %w", err)))
	case before == closed, notSent(err):
		return backoffsql.RolledBack(d.final(err))
	}
	return d.final(err)
}

// Rollback implements backoffsql.Transactor.
func (d database) Rollback(ctx context.Context, t *transaction) error {
	if t.ended {
		return errEnded
	}
	before := stateOf(t.conn)
	err := t.Tx.Rollback(ctx)
	if before == idle {
		return errEnded
	}
	return err
}

// notSent reports whether err, the error of a COMMIT on a connection that was
// open, proves that pgx sent nothing. ErrConnClosed does not: pgx also returns
// it if the connection breaks while pgx waits for the answer, and before 5.13
// said of it that it is safe to retry.
func notSent(err error) bool { return pgconn.SafeToRetry(err) && !errors.Is(err, pgconn.ErrConnClosed) }

// state is the state of a connection.
type state int

const (
	unknown state = iota // of a database that is not pgx's own
	closed
	busy // reads a result
	idle
	inside // a transaction
)

func stateOf(conn *pgx.Conn) state {
	switch {
	case conn == nil:
		return unknown
	case conn.IsClosed():
		return closed
	case conn.PgConn().IsBusy():
		return busy
	case conn.PgConn().TxStatus() == 'I':
		return idle
	}
	return inside
}

// transaction is the pgx.Tx that fn gets. It notes whether fn ends it: from
// then on its connection may be somebody else's.
type transaction struct {
	pgx.Tx
	conn  *pgx.Conn // nil if it is not known
	ended bool
}

// Commit implements pgx.Tx.
func (t *transaction) Commit(ctx context.Context) error {
	t.ended = true
	return t.Tx.Commit(ctx)
}

// Rollback implements pgx.Tx.
func (t *transaction) Rollback(ctx context.Context) error {
	t.ended = true
	return t.Tx.Rollback(ctx)
}
