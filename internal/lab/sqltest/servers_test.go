//go:build integration

package sqltest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffsql"
	"github.com/gobackoff/backoff/backofftest/fault"
	"github.com/gobackoff/backoff/contrib/backoffpgx"
)

// server is a database server of one kind.
type server struct {
	name, addr string
	driver     string
	dsn        func(addr string) string
	level      sql.IsolationLevel
	session    string // query for the session's number
	kill       string // statement that ends it
	lock       string // what makes a SELECT lock
	ignore     string // INSERT that leaves alone what is there
	suffix     string // of that INSERT
	conflict   string // code of a conflict
	deadlock   string // code of a deadlock
	width      int    // accounts, so that transfers meet often enough
	native     bool   // through contrib/backoffpgx, not package sql
}

var postgres = server{
	name: "postgres", addr: "127.0.0.1:5432", driver: "pgx", level: sql.LevelSerializable,
	dsn: func(addr string) string {
		return "postgres://postgres@" + addr + "/test?sslmode=disable&deadlock_timeout=20ms&default_query_exec_mode=exec&synchronous_commit=off"
	},
	session: "SELECT pg_backend_pid()", kill: "SELECT pg_terminate_backend(%d)",
	ignore: "INSERT", suffix: " ON CONFLICT DO NOTHING",
	conflict: "40001", deadlock: "40P01", width: 48,
}

var pgxNative = func() server {
	s := postgres
	s.name, s.native = "pgxpool", true
	return s
}()

var mariadb = server{
	name: "mariadb", addr: "127.0.0.1:3306", driver: "mysql", level: sql.LevelDefault,
	dsn: func(addr string) string {
		c := mysql.NewConfig()
		c.User, c.Net, c.Addr, c.DBName = "root", "tcp", addr, "test"
		c.Params = map[string]string{"innodb_lock_wait_timeout": "1"}
		c.InterpolateParams = true
		return c.FormatDSN()
	},
	session: "SELECT CONNECTION_ID()", kill: "KILL %d",
	lock: " FOR UPDATE", ignore: "INSERT IGNORE",
	conflict: "1213", deadlock: "1213", width: 8,
}

func init() { mysql.SetLogger(silent{}) } // it tells of every connection that breaks

type silent struct{}

func (silent) Print(...any) {}

func number(err error) uint16 {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Number
	}
	if errors.Is(err, mysql.ErrInvalidConn) {
		return 2013
	}
	return 0
}

// code returns the name under which a test counts an error.
func code(err error) string {
	if n := number(err); n != 0 {
		return strconv.Itoa(int(n))
	}
	e, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err)
	if ok {
		return e.SQLState()
	}
	return backoffsql.Classify(err).String()
}

// onEach runs a test on both kinds of server, and on PostgreSQL through pgx's
// own pool.
func onEach(t *testing.T, test func(*testing.T, *fixture)) {
	for _, s := range []server{postgres, pgxNative, mariadb} {
		t.Run(s.name, func(t *testing.T) { test(t, setUp(t, s)) })
	}
}

// fixture is a database behind a proxy, with tables of its own.
type fixture struct {
	server
	db     *sql.DB       // through the proxy
	pool   *pgxpool.Pool // the same, if the server is native
	direct *sql.DB
	proxy  *fault.Proxy
	policy backoff.Policy

	accounts, transfers string

	mu   sync.Mutex
	seen map[string]int // what was retried
}

func setUp(t *testing.T, s server) *fixture {
	proxy, err := new(fault.Injector).Proxy(s.addr)
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	f := &fixture{server: s, proxy: proxy, seen: make(map[string]int)}
	f.direct, f.db = f.open(t, s.addr), f.open(t, proxy.Addr())
	if s.native {
		f.pool, err = pgxpool.New(t.Context(), f.dsn(proxy.Addr())+"&pool_max_conns=20")
		require.NoError(t, err)
		t.Cleanup(f.pool.Close)
	}
	f.policy = backoff.Policy{
		Name:        "transfer",
		MaxAttempts: -1,
		Schedule:    backoff.Exponential{Initial: 4 * time.Millisecond, Max: 100 * time.Millisecond},
		Observer:    f.observe,
	}
	f.accounts = f.table(t, "accounts", "(id INT PRIMARY KEY, balance INT NOT NULL)")
	f.transfers = f.table(t, "transfers", "(id INT PRIMARY KEY, src INT NOT NULL, dst INT NOT NULL, amount INT NOT NULL)")
	return f
}

func (f *fixture) open(t *testing.T, addr string) *sql.DB {
	db, err := sql.Open(f.driver, f.dsn(addr))
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(20)
	db.SetMaxIdleConns(20)
	if err := db.PingContext(t.Context()); err != nil {
		t.Fatalf("%v (compose.yaml starts the servers)", err)
	}
	return db
}

func (f *fixture) table(t *testing.T, kind, columns string) string {
	name := kind + "_" + strings.ToLower(rand.Text())[:12]
	_, err := f.direct.ExecContext(t.Context(), "CREATE TABLE "+name+" "+columns)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := f.direct.Exec("DROP TABLE " + name)
		require.NoError(t, err)
	})
	return name
}

func (f *fixture) observe(_ context.Context, e backoff.Event) {
	if e.Kind != backoff.EventRetry {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if errors.Is(e.Err, backoffsql.ErrCommitUnknown) {
		f.seen["unknown, declared"]++
	}
	f.seen[code(e.Err)]++
}

func (f *fixture) count(what string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen[what]
}

// A transaction is one of package sql or of pgx.
type transaction interface {
	exec(ctx context.Context, query string) (affected int64, err error)
	scan(ctx context.Context, query string, column any) error
}

type sqlTx struct{ *sql.Tx }

func (tx sqlTx) exec(ctx context.Context, query string) (int64, error) {
	result, err := tx.ExecContext(ctx, query)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (tx sqlTx) scan(ctx context.Context, query string, column any) error {
	return tx.QueryRowContext(ctx, query).Scan(column)
}

type pgxTx struct{ pgx.Tx }

func (tx pgxTx) exec(ctx context.Context, query string) (int64, error) {
	tag, err := tx.Exec(ctx, query)
	return tag.RowsAffected(), err
}

func (tx pgxTx) scan(ctx context.Context, query string, column any) error {
	return tx.QueryRow(ctx, query).Scan(column)
}

// tx runs fn under the policy of the fixture.
func (f *fixture) tx(ctx context.Context, i backoff.Idempotency, fn func(context.Context, transaction) error) error {
	p := f.policy
	p.Idempotency = i
	if f.native {
		opts := pgx.TxOptions{IsoLevel: pgx.TxIsoLevel(strings.ToLower(f.level.String()))}
		if f.level == sql.LevelDefault {
			opts.IsoLevel = ""
		}
		return backoffpgx.Tx(ctx, f.pool, p, opts, func(ctx context.Context, tx pgx.Tx) error { return fn(ctx, pgxTx{tx}) })
	}
	return backoffsql.Tx(ctx, f.db, p, &sql.TxOptions{Isolation: f.level}, func(ctx context.Context, tx *sql.Tx) error { return fn(ctx, sqlTx{tx}) })
}

// fill makes n accounts of 1000 each.
func (f *fixture) fill(t *testing.T, n int) {
	for id := range n {
		_, err := f.direct.ExecContext(t.Context(), fmt.Sprintf("INSERT INTO %s VALUES (%d, 1000)", f.accounts, id))
		require.NoError(t, err)
	}
}

// end terminates a session from another one.
func (f *fixture) end(ctx context.Context, session int64) error {
	_, err := f.direct.ExecContext(ctx, fmt.Sprintf(f.kill, session))
	if number(err) == 1094 { // it is gone already
		return nil
	}
	return err
}

func (f *fixture) sessionOf(ctx context.Context, tx transaction) (session int64, err error) {
	err = tx.scan(ctx, f.session, &session)
	return session, err
}

// add changes a balance, by reading and writing it.
func (f *fixture) add(ctx context.Context, tx transaction, account, amount int) error {
	var balance int
	if err := tx.scan(ctx, fmt.Sprintf("SELECT balance FROM %s WHERE id = %d%s", f.accounts, account, f.lock), &balance); err != nil {
		return err
	}
	_, err := tx.exec(ctx, fmt.Sprintf("UPDATE %s SET balance = %d WHERE id = %d", f.accounts, balance+amount, account))
	return err
}

func (f *fixture) balance(t *testing.T, account int) (balance int) {
	require.NoError(t, f.direct.QueryRowContext(t.Context(), fmt.Sprintf("SELECT balance FROM %s WHERE id = %d", f.accounts, account)).Scan(&balance))
	return balance
}

// insert records a transfer. If the transfer is recorded already, insert fails,
// or returns false if that is allowed.
func (f *fixture) insert(ctx context.Context, tx transaction, bear bool, id, src, dst, amount int) (bool, error) {
	verb, suffix := "INSERT", ""
	if bear {
		verb, suffix = f.ignore, f.suffix
	}
	n, err := tx.exec(ctx, fmt.Sprintf("%s INTO %s VALUES (%d, %d, %d, %d)%s", verb, f.transfers, id, src, dst, amount, suffix))
	return n == 1, err
}

func (f *fixture) inserted(t *testing.T, id int) (n int) {
	require.NoError(t, f.direct.QueryRowContext(t.Context(), fmt.Sprintf("SELECT COUNT(*) FROM %s WHERE id = %d", f.transfers, id)).Scan(&n))
	return n
}
