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
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffsql"
	"github.com/gobackoff/backoff/backofftest/faultproxy"
)

// server is a database server of one kind.
type server struct {
	name, addr string
	driver     string
	dsn        func(addr string) string
	hook       backoff.Classifier
	level      sql.IsolationLevel
	session    string // query for the session's number
	kill       string // statement that ends it
	lock       string // what makes a SELECT lock
	ignore     string // INSERT that leaves alone what is there
	suffix     string // of that INSERT
	conflict   string // code of a conflict
	deadlock   string // code of a deadlock
	width      int    // accounts, so that transfers meet often enough
}

var postgres = server{
	name: "postgres", addr: "127.0.0.1:5432", driver: "pgx", level: sql.LevelSerializable,
	dsn: func(addr string) string {
		return "postgres://postgres@" + addr + "/test?sslmode=disable&deadlock_timeout=20ms"
	},
	session: "SELECT pg_backend_pid()", kill: "SELECT pg_terminate_backend(%d)",
	ignore: "INSERT", suffix: " ON CONFLICT DO NOTHING",
	conflict: "40001", deadlock: "40P01", width: 48,
}

var mariadb = server{
	name: "mariadb", addr: "127.0.0.1:3306", driver: "mysql", level: sql.LevelDefault,
	dsn: func(addr string) string {
		c := mysql.NewConfig()
		c.User, c.Net, c.Addr, c.DBName = "root", "tcp", addr, "test"
		c.Params = map[string]string{"innodb_lock_wait_timeout": "1"}
		c.InterpolateParams = true
		return c.FormatDSN()
	},
	hook:    backoffsql.MySQL(number),
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

// onEach runs a test on both kinds of server.
func onEach(t *testing.T, test func(*testing.T, *fixture)) {
	for _, s := range []server{postgres, mariadb} {
		t.Run(s.name, func(t *testing.T) { test(t, setUp(t, s)) })
	}
}

// fixture is a database behind a proxy, with tables of its own.
type fixture struct {
	server
	db     *sql.DB // through the proxy
	direct *sql.DB
	proxy  *faultproxy.Proxy
	policy backoff.Policy

	accounts, transfers string

	mu   sync.Mutex
	seen map[string]int // what was retried
}

func setUp(t *testing.T, s server) *fixture {
	proxy, err := faultproxy.Start(s.addr, nil)
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	f := &fixture{server: s, proxy: proxy, seen: make(map[string]int)}
	f.direct, f.db = f.open(t, s.addr), f.open(t, proxy.Addr())
	f.policy = backoff.Policy{
		Name:        "transfer",
		MaxAttempts: -1,
		Schedule:    backoff.Exponential{Initial: 4 * time.Millisecond, Max: 100 * time.Millisecond},
		Classify:    s.hook,
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

// tx runs fn under the policy of the fixture.
func (f *fixture) tx(ctx context.Context, i backoff.Idempotency, fn func(context.Context, *sql.Tx) error) error {
	p := f.policy
	p.Idempotency = i
	return backoffsql.Tx(ctx, f.db, &p, &sql.TxOptions{Isolation: f.level}, fn)
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

func (f *fixture) sessionOf(ctx context.Context, tx *sql.Tx) (session int64, err error) {
	err = tx.QueryRowContext(ctx, f.session).Scan(&session)
	return session, err
}

// add changes a balance, by reading and writing it.
func (f *fixture) add(ctx context.Context, tx *sql.Tx, account, amount int) error {
	var balance int
	if err := tx.QueryRowContext(ctx, fmt.Sprintf("SELECT balance FROM %s WHERE id = %d%s", f.accounts, account, f.lock)).Scan(&balance); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE %s SET balance = %d WHERE id = %d", f.accounts, balance+amount, account))
	return err
}

func (f *fixture) balance(t *testing.T, account int) (balance int) {
	require.NoError(t, f.direct.QueryRowContext(t.Context(), fmt.Sprintf("SELECT balance FROM %s WHERE id = %d", f.accounts, account)).Scan(&balance))
	return balance
}

// insert records a transfer. If the transfer is recorded already, insert fails,
// or returns false if that is allowed.
func (f *fixture) insert(ctx context.Context, tx *sql.Tx, bear bool, id, src, dst, amount int) (bool, error) {
	verb, suffix := "INSERT", ""
	if bear {
		verb, suffix = f.ignore, f.suffix
	}
	result, err := tx.ExecContext(ctx, fmt.Sprintf("%s INTO %s VALUES (%d, %d, %d, %d)%s", verb, f.transfers, id, src, dst, amount, suffix))
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n == 1, err
}

func (f *fixture) inserted(t *testing.T, id int) (n int) {
	require.NoError(t, f.direct.QueryRowContext(t.Context(), fmt.Sprintf("SELECT COUNT(*) FROM %s WHERE id = %d", f.transfers, id)).Scan(&n))
	return n
}
