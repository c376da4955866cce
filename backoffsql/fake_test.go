package backoffsql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"sync"
	"testing"
)

// fake is a database that behaves as its fields say, and keeps a log. The
// functions get the number of the transaction, from 1.
type fake struct {
	begin, exec, commit func(n int) error
	before              func(stage string) // called without the lock

	mu  sync.Mutex
	n   int
	log []string
}

func (f *fake) open(t *testing.T) *sql.DB {
	db := sql.OpenDB(f)
	t.Cleanup(func() { db.Close() })
	return db
}

// seen returns what the database has done.
func (f *fake) seen() string { return strings.Join(f.log, " ") }

func (f *fake) note(stage string, answer func(int) error) error {
	if f.before != nil {
		f.before(stage)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if stage == "begin" {
		f.n++
	}
	f.log = append(f.log, stage)
	if answer == nil {
		return nil
	}
	return answer(f.n)
}

func (f *fake) Connect(context.Context) (driver.Conn, error) { return &fakeConn{f}, nil }
func (f *fake) Driver() driver.Driver                        { return nil }

// fakeConn is a connection to a fake.
type fakeConn struct{ f *fake }

func (c *fakeConn) Prepare(string) (driver.Stmt, error) { return nil, errors.New("not here") }
func (c *fakeConn) Close() error                        { return nil }
func (c *fakeConn) Begin() (driver.Tx, error)           { return nil, errors.New("not here") }
func (c *fakeConn) Commit() error                       { return c.f.note("commit", c.f.commit) }
func (c *fakeConn) Rollback() error                     { return c.f.note("rollback", nil) }

func (c *fakeConn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) {
	return c, c.f.note("begin", c.f.begin)
}

func (c *fakeConn) ExecContext(ctx context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return driver.RowsAffected(1), c.f.note(query, c.f.exec)
}

// state is an error like those of pgx and lib/pq.
type state string

func (s state) Error() string    { return "SQLSTATE " + string(s) }
func (s state) SQLState() string { return string(s) }

// notSent is an error like those of pgx when nothing was written.
type notSent struct{ error }

func (notSent) SafeToRetry() bool { return true }

// numbered is an error like those of the MySQL driver.
type numbered struct{ Number uint16 }

func (numbered) Error() string { return "a number" }

func number(err error) uint16 {
	var e numbered
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}

// times returns a function that fails the first n transactions.
func times(n int, err error) func(int) error {
	return func(tx int) error {
		if tx <= n {
			return err
		}
		return nil
	}
}
