package backoffpgx_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffsql"
	"github.com/gobackoff/backoff/contrib/backoffpgx"
)

const (
	attempted = "begin, work, commit"
	failed    = "begin, work, rollback"
)

// swift returns a policy that does not wait.
func swift(i backoff.Idempotency) backoff.Policy {
	return backoff.Policy{
		Name:        "transfer",
		Idempotency: i,
		Jitter:      func(time.Duration, time.Duration, float64) time.Duration { return 0 },
	}
}

func work(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "work")
	return err
}

// state returns the SQLSTATE of an error.
func state(err error) string {
	e, _ := errors.AsType[*pgconn.PgError](err)
	if e == nil {
		return ""
	}
	return e.Code
}

func TestTxCommitsOnce(t *testing.T) {
	f := start(t, nil)
	pool := f.pool(t, 2)
	acquired, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer acquired.Release()
	var want []string
	for name, db := range map[string]backoffpgx.Beginner{"pool": pool, "conn": f.connect(t), "conn of a pool": acquired} {
		want = append(want, attempted)
		require.NoError(t, backoffpgx.Tx(t.Context(), db, backoff.Policy{}, pgx.TxOptions{}, work), name)
		require.Equal(t, strings.Join(want, ", "), f.heard(), name)
	}
}

func TestTxBeginsAgainAfterAFailureThatMayPass(t *testing.T) {
	for _, fault := range []string{"40001", "40P01", "55P03", "57P01", "53300"} {
		for _, i := range []backoff.Idempotency{nil, backoff.Idempotent, backoff.NonIdempotent, backoff.Keyed} {
			f := start(t, times(2, "work", fault))
			require.NoError(t, backoffpgx.Tx(t.Context(), f.pool(t, 1), swift(i), pgx.TxOptions{}, work), fault)
			require.Equal(t, failed+", "+failed+", "+attempted, f.heard(), fault)
		}
	}
	f := start(t, once("work", hangUp))
	require.NoError(t, backoffpgx.Tx(t.Context(), f.pool(t, 1), swift(backoff.NonIdempotent), pgx.TxOptions{}, work))
	require.Equal(t, "begin, work, "+attempted, f.heard())
	f = start(t, once("begin", hangUp))
	require.NoError(t, backoffpgx.Tx(t.Context(), f.pool(t, 1), swift(backoff.NonIdempotent), pgx.TxOptions{}, work))
	require.Equal(t, "begin, "+attempted, f.heard())
}

func TestACommitWithoutAnAnswerIsRepeatedOnlyIfDeclaredIdempotent(t *testing.T) {
	for _, fault := range []string{hangUp, silent, "57P01", "08006", "40003"} {
		p := swift(nil)
		if fault == silent {
			p.AttemptTimeout = 500 * time.Millisecond
		}
		for _, p.Idempotency = range []backoff.Idempotency{nil, backoff.NonIdempotent} {
			f := start(t, once("commit", fault))
			err := backoffpgx.Tx(t.Context(), f.pool(t, 1), p, pgx.TxOptions{}, work)
			require.ErrorIs(t, err, backoffsql.ErrCommitUnknown, fault)
			require.False(t, backoff.Policy{}.Retryable(err), "an outer policy would apply it twice")
			require.Equal(t, attempted, f.heard(), fault)
		}
		for _, p.Idempotency = range []backoff.Idempotency{backoff.Idempotent, backoff.Keyed} {
			if fault == "40003" { // not retryable
				continue
			}
			f := start(t, once("commit", fault))
			require.NoError(t, backoffpgx.Tx(t.Context(), f.pool(t, 1), p, pgx.TxOptions{}, work), fault)
			require.Equal(t, attempted+", "+attempted, f.heard(), fault)
		}
	}
}

func TestACallerWhoLeavesDuringTheCommitLearnsThatItIsUnknown(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := start(t, func(_ int, sql string) string {
		if sql != "commit" {
			return ""
		}
		cancel()
		return silent
	})
	err := backoffpgx.Tx(ctx, f.pool(t, 1), swift(backoff.Idempotent), pgx.TxOptions{}, work)
	require.ErrorIs(t, err, backoffsql.ErrCommitUnknown)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, attempted, f.heard())
}

func TestACommitThatWasNotSentIsRepeated(t *testing.T) {
	f := start(t, once("work", hangUp))
	err := backoffpgx.Tx(t.Context(), f.pool(t, 1), swift(backoff.NonIdempotent), pgx.TxOptions{}, func(ctx context.Context, tx pgx.Tx) error {
		work(ctx, tx) // it drops the error
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, "begin, work, "+attempted, f.heard())

	f = start(t, nil)
	d := &late{Pool: f.pool(t, 1)}
	require.NoError(t, backoffpgx.Tx(t.Context(), d, swift(backoff.NonIdempotent), pgx.TxOptions{}, work))
	require.Equal(t, "begin, work, "+attempted, f.heard())
}

// late is a pool whose first COMMIT finds that the time of the attempt is over.
type late struct {
	*pgxpool.Pool
	n int
}

func (l *late) BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error) {
	tx, err := l.Pool.BeginTx(ctx, opts)
	if l.n++; err != nil || l.n > 1 {
		return tx, err
	}
	return lateTx{tx}, nil
}

type lateTx struct{ pgx.Tx }

func (tx lateTx) Commit(ctx context.Context) error {
	ctx, cancel := context.WithDeadline(ctx, time.Unix(0, 0))
	defer cancel()
	return tx.Tx.Commit(ctx)
}

func TestACommitThatWasRefusedIsNotUnknown(t *testing.T) {
	for _, fault := range []string{"40001", "40P01"} {
		f := start(t, once("commit", fault))
		require.NoError(t, backoffpgx.Tx(t.Context(), f.pool(t, 1), swift(backoff.NonIdempotent), pgx.TxOptions{}, work))
		require.Equal(t, attempted+", "+attempted, f.heard())
	}
	f := start(t, once("commit", "23505")) // a deferred constraint
	err := backoffpgx.Tx(t.Context(), f.pool(t, 1), swift(backoff.Idempotent), pgx.TxOptions{}, work)
	require.Equal(t, "23505", state(err))
	require.NotErrorIs(t, err, backoffsql.ErrCommitUnknown)
	require.Equal(t, attempted, f.heard())
}

func TestASwallowedErrorIsNoSuccess(t *testing.T) {
	for _, fault := range []string{"40001", "25P02", "23505"} {
		f := start(t, once("work", fault))
		err := backoffpgx.Tx(t.Context(), f.pool(t, 1), swift(backoff.Idempotent), pgx.TxOptions{}, func(ctx context.Context, tx pgx.Tx) error {
			work(ctx, tx)
			return nil
		})
		require.Equal(t, pgx.ErrTxCommitRollback, backoff.Cause(err))
		require.NotErrorIs(t, err, backoffsql.ErrCommitUnknown)
		require.Equal(t, attempted, f.heard())
	}
}

func TestTxKnowsThatFnEndedTheTransaction(t *testing.T) {
	for name, end := range map[string]func(context.Context, pgx.Tx) error{
		"by Commit":         func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) },
		"by Rollback":       func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) },
		"by a COMMIT":       func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, "commit"); return err },
		"by a ROLLBACK":     func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, "rollback"); return err },
		"by a deferred one": func(ctx context.Context, tx pgx.Tx) error { defer tx.Rollback(ctx); return nil },
	} {
		f := start(t, nil)
		pool := f.pool(t, 1)
		err := backoffpgx.Tx(t.Context(), pool, swift(backoff.Idempotent), pgx.TxOptions{}, end)
		require.ErrorIs(t, err, backoffsql.ErrEnded, name)
		require.ErrorIs(t, err, pgx.ErrTxClosed, name)
		require.Equal(t, 1, f.begun(), name)
		requireReleased(t, pool)
	}
}

func TestWhatFnEndedByACommitWithoutAnAnswerIsUnknown(t *testing.T) {
	f := start(t, once("commit", hangUp))
	err := backoffpgx.Tx(t.Context(), f.pool(t, 1), swift(nil), pgx.TxOptions{}, func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) })
	require.ErrorIs(t, err, backoffsql.ErrCommitUnknown)
	require.Equal(t, "begin, commit", f.heard())

	f = start(t, once("work", hangUp))
	err = backoffpgx.Tx(t.Context(), f.pool(t, 1), swift(nil), pgx.TxOptions{}, func(ctx context.Context, tx pgx.Tx) error {
		tx.Commit(ctx)
		return errors.Join(tx.Commit(ctx), backoff.OfClass(errors.New("later"), backoff.ClassRetryable))
	})
	require.ErrorIs(t, err, backoffsql.ErrCommitUnknown, "it was committed, and an error followed")
	require.Equal(t, "begin, commit", f.heard())
}

func TestResultsThatFnLeavesOpenAreAPermanentError(t *testing.T) {
	f := start(t, nil)
	pool := f.pool(t, 1)
	err := backoffpgx.Tx(t.Context(), pool, swift(backoff.Idempotent), pgx.TxOptions{}, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Query(ctx, "work", pgx.QueryExecModeSimpleProtocol)
		return err
	})
	require.ErrorContains(t, err, "fn has left Rows or BatchResults open")
	require.NotErrorIs(t, err, backoffsql.ErrCommitUnknown)
	require.Equal(t, "begin, work", f.heard())
	requireReleased(t, pool)
}

func TestALostConnectionIsAPermanentErrorWhereThereIsNoOther(t *testing.T) {
	for _, at := range []string{"begin", "work", "commit"} {
		f := start(t, once(at, hangUp))
		conn := f.connect(t)
		err := backoffpgx.Tx(t.Context(), conn, swift(backoff.Idempotent), pgx.TxOptions{}, work)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "backoffpgx:", "this is the error of the attempt")
		require.Equal(t, at == "commit", errors.Is(err, backoffsql.ErrCommitUnknown), at)
		require.Equal(t, 1, f.begun(), at)
		err = backoffpgx.Tx(t.Context(), conn, swift(backoff.Idempotent), pgx.TxOptions{}, work)
		require.EqualError(t, err, "backoffpgx: conn closed")
		require.ErrorIs(t, err, pgconn.ErrConnClosed)
		require.False(t, backoff.Policy{}.Retryable(err))
	}
	f := start(t, once("work", "40001"))
	require.NoError(t, backoffpgx.Tx(t.Context(), f.connect(t), swift(nil), pgx.TxOptions{}, work), "it is there still")
}

func TestABeginQueryThatFailsLeavesNoTransactionOpen(t *testing.T) {
	const begin = "begin transaction; lock"
	f := start(t, once(begin, "55P03"))
	for _, db := range []backoffpgx.Beginner{f.connect(t), f.pool(t, 1)} {
		require.NoError(t, backoffpgx.Tx(t.Context(), db, swift(nil), pgx.TxOptions{BeginQuery: begin}, work))
	}
	attempt := begin + ", work, commit"
	require.Equal(t, begin+", rollback, "+attempt+", "+attempt, f.heard())
}

// BEGIN within a transaction is only a warning of the server, and COMMIT then
// ends the outer transaction.
func TestTxLeavesATransactionAlone(t *testing.T) {
	f := start(t, nil)
	conn := f.connect(t)
	outer, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, is := outer.(backoffpgx.Beginner)
	require.False(t, is)
	err = backoffpgx.Tx(t.Context(), conn, swift(nil), pgx.TxOptions{}, work)
	require.EqualError(t, err, "backoffpgx: the connection is in a transaction or reads a result")
	err = backoffpgx.Tx(t.Context(), beginning{outer}, swift(nil), pgx.TxOptions{}, work)
	require.ErrorContains(t, err, "not a pgx.Tx")
	require.NoError(t, outer.Commit(t.Context()))
	require.Equal(t, "begin, commit", f.heard())

	rows, err := conn.Query(t.Context(), "work", pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	require.Error(t, backoffpgx.Tx(t.Context(), conn, swift(nil), pgx.TxOptions{}, work))
	rows.Close()
	require.NoError(t, backoffpgx.Tx(t.Context(), conn, swift(nil), pgx.TxOptions{}, work))
}

// beginning is a pgx.Tx with the method of a Beginner, as a later pgx may have it.
type beginning struct{ pgx.Tx }

func (b beginning) BeginTx(ctx context.Context, _ pgx.TxOptions) (pgx.Tx, error) { return b.Begin(ctx) }

func TestAnAttemptThatGetsNoConnectionIsRepeated(t *testing.T) {
	f := start(t, nil)
	pool := f.pool(t, 1)
	other, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	p := swift(backoff.NonIdempotent)
	p.AttemptTimeout = 50 * time.Millisecond
	p.MaxAttempts = -1
	retried := false
	p.Observer = func(_ context.Context, e backoff.Event) {
		if e.Kind == backoff.EventRetry && !retried {
			retried = true
			other.Release()
		}
	}
	require.NoError(t, backoffpgx.Tx(t.Context(), pool, p, pgx.TxOptions{}, work))
	require.True(t, retried)

	other, err = pool.Acquire(t.Context())
	require.NoError(t, err)
	defer other.Release()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err = backoffpgx.Tx(ctx, pool, swift(nil), pgx.TxOptions{}, work)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, backoffsql.ErrCommitUnknown)
}

func TestTxPassesItsOptionsOn(t *testing.T) {
	f := start(t, nil)
	pool := f.pool(t, 1)
	require.NoError(t, backoffpgx.Tx(t.Context(), pool, backoff.Policy{}, pgx.TxOptions{IsoLevel: pgx.Serializable, AccessMode: pgx.ReadOnly}, work))
	require.NoError(t, backoffpgx.Tx(t.Context(), pool, backoff.Policy{}, pgx.TxOptions{BeginQuery: "begin priority high", CommitQuery: "commit and no chain;"}, work))
	require.Equal(t, "begin isolation level serializable read only, work, commit, begin priority high, work, commit and no chain;", f.heard())
}

func TestTxRefusesBadInput(t *testing.T) {
	f := start(t, nil)
	pool := f.pool(t, 1)
	var noPool *pgxpool.Pool
	var noConn *pgx.Conn
	var noneOfPool *pgxpool.Conn
	for _, db := range []backoffpgx.Beginner{nil, noPool, noConn, noneOfPool} {
		err := backoffpgx.Tx(t.Context(), db, backoff.Policy{}, pgx.TxOptions{}, work)
		require.EqualError(t, err, "backoffpgx: Tx wants a database and a function")
		require.False(t, backoff.Policy{}.Retryable(err))
	}
	require.EqualError(t, backoffpgx.Tx(t.Context(), pool, backoff.Policy{}, pgx.TxOptions{}, nil), "backoffpgx: Tx wants a database and a function")
	err := backoffpgx.Tx(t.Context(), pool, backoff.Policy{}, pgx.TxOptions{CommitQuery: "commit; notify done"}, work)
	require.EqualError(t, err, `backoffpgx: TxOptions.CommitQuery is "commit; notify done", want one statement`)
	require.ErrorContains(t, backoffpgx.Tx(t.Context(), pool, backoff.Policy{Schedule: backoff.Constant(-1)}, pgx.TxOptions{}, work), "Policy.Schedule")
	require.Empty(t, f.heard())
}

// mock is a database that has no connections, as those of mocking libraries.
type mock struct{}

func (mock) BeginTx(context.Context, pgx.TxOptions) (pgx.Tx, error) { return mockTx{}, nil }

type mockTx struct{ pgx.Tx }

func (mockTx) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	return pgconn.NewCommandTag("INSERT 0 1"), nil
}

func (mockTx) Commit(context.Context) error   { return nil }
func (mockTx) Rollback(context.Context) error { return nil }
func (mockTx) Conn() *pgx.Conn                { panic("there is none") }

// What a fake does instead of an answer. Other faults are SQLSTATEs.
const (
	hangUp = "hang up" // closes the connection
	silent = "silent"  // never answers
)

// fake is a server that speaks PostgreSQL's protocol, but only counts
// transactions.
type fake struct {
	fault func(tx int, sql string) string // of the statement; "" is none
	addr  string

	mu       sync.Mutex
	n        int
	log      []string
	sessions int
	wrong    int    // sessions, from 1, in which
	at, says string // this statement has this fault
	used     []int  // the session of each transaction
}

func start(t testing.TB, fault func(tx int, sql string) string) *fake {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f := &fake{fault: fault, addr: listener.Addr().String()}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { f.serve(conn) })
		}
	})
	t.Cleanup(func() { listener.Close(); conns.Wait() })
	return f
}

// once is a fault of the first transaction.
func once(sql, fault string) func(int, string) string { return times(1, sql, fault) }

// times is a fault of the first n transactions.
func times(n int, sql, fault string) func(int, string) string {
	return func(tx int, got string) string {
		if tx <= n && got == sql {
			return fault
		}
		return ""
	}
}

func (f *fake) serve(conn net.Conn) {
	defer conn.Close()
	b := pgproto3.NewBackend(conn, conn)
	if _, err := b.ReceiveStartupMessage(); err != nil {
		return
	}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"})
	b.Send(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
	status := byte('I')
	f.mu.Lock()
	f.sessions++
	session := f.sessions
	f.mu.Unlock()
	for {
		b.Send(&pgproto3.ReadyForQuery{TxStatus: status})
		if b.Flush() != nil {
			return
		}
		m, err := b.Receive()
		query, ok := m.(*pgproto3.Query)
		if err != nil || !ok {
			return
		}
		switch fault := f.note(session, query.String); fault {
		case "":
			var tag string
			tag, status = answer(query.String, status)
			b.Send(&pgproto3.CommandComplete{CommandTag: []byte(tag)})
		case hangUp:
			return
		case silent:
			b.Receive() // until the client closes
			return
		default:
			b.Send(&pgproto3.ErrorResponse{Severity: "ERROR", Code: fault, Message: "as told"})
			if status = 'E'; verb(query.String) == "commit" || query.String == "begin" { // is over, or was not begun
				status = 'I'
			}
		}
	}
}

func verb(sql string) string {
	first, _, _ := strings.Cut(sql, " ")
	return first
}

// answer returns what the server says, and the state after it.
func answer(sql string, status byte) (string, byte) {
	switch {
	case verb(sql) == "begin":
		return "BEGIN", 'T'
	case verb(sql) == "rollback", verb(sql) == "commit" && status == 'E':
		return "ROLLBACK", 'I'
	case verb(sql) == "commit":
		return "COMMIT", 'I'
	}
	return "UPDATE 1", status
}

func (f *fake) note(session int, sql string) (fault string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if verb(sql) == "begin" {
		f.n++
		f.used = append(f.used, session)
	}
	f.log = append(f.log, sql)
	if session <= f.wrong && verb(sql) == f.at {
		return f.says
	}
	if f.fault == nil {
		return ""
	}
	return f.fault(f.n, sql)
}

// begun returns how many transactions were begun.
func (f *fake) begun() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n
}

// heard returns the statements so far.
func (f *fake) heard() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.log, ", ")
}

func (f *fake) url() string { return "postgres://nobody@" + f.addr + "/test?sslmode=disable" }

func (f *fake) pool(t testing.TB, conns int32) *pgxpool.Pool {
	config, err := pgxpool.ParseConfig(f.url())
	require.NoError(t, err)
	config.MaxConns = conns
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	first, err := pool.Acquire(context.Background()) // an attempt with a timeout finds it there
	require.NoError(t, err)
	first.Release()
	return pool
}

// requireReleased waits until no connection of a pool is in use: pgxpool gives
// up one that was closed in the background.
func requireReleased(t testing.TB, pool *pgxpool.Pool) {
	require.Eventually(t, func() bool { return pool.Stat().AcquiredConns() == 0 }, 5*time.Second, time.Millisecond)
}

func (f *fake) connect(t testing.TB) *pgx.Conn {
	conn, err := pgx.Connect(t.Context(), f.url())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}
