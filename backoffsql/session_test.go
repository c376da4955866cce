package backoffsql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffsql"
)

// sessions is a database whose first sessions are wrong for good.
type sessions struct {
	wrong int    // how many of them, from 1
	at    string // what fails in them: "begin", "work" or "commit"
	err   error

	mu     sync.Mutex
	opened int
	used   []int // the session of each transaction
	closed []int
}

// kept are pools that no later one may get the address of: it would count as a pool
// that was emptied a moment ago.
var kept []*sql.DB

// open returns a pool that holds n idle sessions.
func (s *sessions) open(t *testing.T, n int) *sql.DB {
	db := sql.OpenDB(s)
	kept = append(kept, db)
	t.Cleanup(func() { db.Close() })
	db.SetMaxIdleConns(n)
	fill(t, db, n)
	return db
}

// fill has n others use the pool at once, which leaves n idle sessions.
func fill(t *testing.T, db *sql.DB, n int) {
	conns := make([]*sql.Conn, n)
	for i := range conns {
		var err error
		conns[i], err = db.Conn(t.Context())
		require.NoError(t, err)
	}
	for _, conn := range conns {
		require.NoError(t, conn.Close())
	}
}

func (s *sessions) Driver() driver.Driver { return nil }

func (s *sessions) Connect(context.Context) (driver.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened++
	return &session{fakeConn: fakeConn{&fake{}}, of: s, number: s.opened}, nil
}

// session is one of its sessions.
type session struct {
	fakeConn
	of     *sessions
	number int
}

func (s *session) fail(at string) error {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if at == "begin" {
		s.of.used = append(s.of.used, s.number)
	}
	if s.number <= s.of.wrong && at == s.of.at {
		return s.of.err
	}
	return nil
}

func (s *session) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) {
	return s, s.fail("begin")
}

func (s *session) Commit() error { return s.fail("commit") }

func (s *session) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(1), s.fail("work")
}

func (s *session) Close() error {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.of.closed = append(s.of.closed, s.number)
	return nil
}

func TestTxLeavesASessionThatIsWrongForGood(t *testing.T) {
	for _, at := range []string{"begin", "work", "commit"} {
		for _, code := range []string{"25006", "26000"} {
			synctest.Test(t, func(t *testing.T) {
				s := &sessions{wrong: 20, at: at, err: fmt.Errorf("debit: %w", state(code))}
				db := s.open(t, 20)
				require.NoError(t, backoffsql.Tx(t.Context(), db, with(backoff.NonIdempotent), nil, exec))
				require.Equal(t, []int{20, 21}, s.used)
				require.Len(t, s.closed, 20, "none of them stays in the pool")
				require.Equal(t, sql.DBStats{MaxOpenConnections: 0, OpenConnections: 1, Idle: 1}, db.Stats())
			})
		}
	}
}

func TestTxGivesASessionBackThatIsNotWrong(t *testing.T) {
	s := &sessions{wrong: 1, at: "work", err: state("40001")}
	db := s.open(t, 1)
	require.Error(t, backoffsql.Tx(t.Context(), db, swift, nil, exec))
	require.Equal(t, []int{1, 1, 1, 1}, s.used)
	require.Empty(t, s.closed)
}

func TestASessionOfTheProgramsOwnIsKept(t *testing.T) {
	s := &sessions{wrong: 1, at: "work", err: state("25006")}
	own, err := s.open(t, 1).Conn(t.Context())
	require.NoError(t, err)
	defer own.Close()
	require.ErrorIs(t, backoffsql.Tx(t.Context(), own, swift, nil, exec), state("25006"))
	require.Equal(t, []int{1, 1, 1, 1}, s.used, "it may become right: a standby is promoted")
	require.Empty(t, s.closed)
}

// said is an error with a text, as that of the MySQL driver.
type said string

func (s said) Error() string { return string(s) }

func TestATransactionThatWasBegunReadOnlyIsNotRepeatedForThat(t *testing.T) {
	const mysql = said("Error 1792 (25006): Cannot execute statement in a READ ONLY transaction")
	for _, err := range []error{state("25006"), fmt.Errorf("debit: %w", state("25006")), mysql} {
		s := &sessions{wrong: 9, at: "work", err: err}
		p := swift
		p.Classify = backoffsql.MySQL(func(err error) uint16 {
			if errors.Is(err, mysql) {
				return 1792
			}
			return 0
		})
		got := backoffsql.Tx(t.Context(), s.open(t, 1), p, &sql.TxOptions{ReadOnly: true}, exec)
		require.ErrorIs(t, got, err)
		require.False(t, backoff.Policy{}.Retryable(got))
		require.Len(t, s.used, 1)
		require.Empty(t, s.closed)

		s = &sessions{wrong: 1, at: "work", err: state("40001")}
		require.Error(t, backoffsql.Tx(t.Context(), s.open(t, 1), swift, &sql.TxOptions{ReadOnly: true}, exec))
		require.Len(t, s.used, 4, "other errors are")
	}
}

// A pool is emptied once a second at most, whatever fails.
func TestAProgramThatWritesToAReplicaDoesNotEmptyItsPoolAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sessions{wrong: 1 << 20, at: "work", err: state("25006")}
		db := s.open(t, 20)
		for range 10 {
			require.ErrorIs(t, backoffsql.Tx(t.Context(), db, swift, nil, exec), state("25006"))
			fill(t, db, 20) // readers, to which the sessions are right
		}
		require.Len(t, s.used, 40)
		require.LessOrEqual(t, len(s.closed), 20+40, "one session an attempt, besides")
		for i, session := range s.used {
			require.NotContains(t, s.used[:i], session, "no session is asked twice")
		}
	})
}

func TestSessionsAreThrownAwayOnlyForErrorsThatAreRetried(t *testing.T) {
	s := &sessions{wrong: 9, at: "work", err: state("25006")}
	p := swift
	p.Classify = func(error) backoff.Class { return backoff.ClassPermanent }
	require.ErrorIs(t, backoffsql.Tx(t.Context(), s.open(t, 1), p, nil, exec), state("25006"))
	require.Empty(t, s.closed)
	require.Equal(t, []int{1}, s.used)
}
