//go:build integration

package sqltest

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffsql"
)

// setUpPlain sets a fixture up on MariaDB whose pool is of a user that read_only
// stops. It stops nobody who has the rights of root, as the other tests have.
func setUpPlain(t *testing.T, params string) *fixture {
	f := setUp(t, mariadb)
	user := "plain_" + strings.TrimPrefix(f.accounts, "accounts_")
	for _, s := range []string{"CREATE USER %s@'%%' IDENTIFIED BY 'plain'", "GRANT ALL ON test.* TO %s@'%%'"} {
		_, err := f.direct.ExecContext(t.Context(), fmt.Sprintf(s, user))
		require.NoError(t, err)
	}
	c, err := mysql.ParseDSN(f.dsn(f.addr) + params)
	require.NoError(t, err)
	c.User, c.Passwd = user, "plain"
	f.db, err = sql.Open("mysql", c.FormatDSN())
	require.NoError(t, err)
	t.Cleanup(func() {
		f.db.Close()
		f.setReadOnly(t, 0)
		_, err := f.direct.Exec(fmt.Sprintf("DROP USER %s@'%%'", user))
		require.NoError(t, err)
	})
	f.level, f.width = 0, 20
	f.fill(t, f.width)
	return f
}

func (f *fixture) setReadOnly(t *testing.T, on int) {
	_, err := f.direct.Exec(fmt.Sprintf("SET GLOBAL read_only = %d", on))
	require.NoError(t, err)
}

// writableAfter makes the server take writes again once something was retried.
func (f *fixture) writableAfter(t *testing.T) {
	observe := f.policy.Observer
	var once sync.Once
	f.policy.Observer = func(ctx context.Context, e backoff.Event) {
		observe(ctx, e)
		if e.Kind == backoff.EventRetry {
			once.Do(func() { f.setReadOnly(t, 0) })
		}
	}
}

func TestAServerThatIsReadOnlyForAWhileIsSurvived(t *testing.T) {
	f := setUpPlain(t, "")
	var begun, workers sync.WaitGroup
	begun.Add(20)
	errs := make([]error, 20)
	f.policy.Idempotency = backoff.NonIdempotent
	f.writableAfter(t)
	for w := range errs {
		workers.Go(func() {
			var once sync.Once
			errs[w] = f.tx(t.Context(), f.policy.Idempotency, func(ctx context.Context, tx transaction) error {
				if _, err := f.insert(ctx, tx, false, 2*w, 0, 0, 1); err != nil {
					return err
				}
				once.Do(func() { // all transactions are open when the server becomes read-only
					begun.Done()
					begun.Wait()
					if w == 0 {
						f.setReadOnly(t, 1)
					}
				})
				_, err := f.insert(ctx, tx, false, 2*w+1, 0, 0, 1)
				return err
			})
		})
	}
	workers.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	require.Positive(t, f.count("1290"), "%v", f.seen)
	require.Equal(t, 40, (&bank{fixture: f}).sum(t, "1", f.transfers))
}

// A COMMIT that is refused has rolled back.
func TestACommitThatAReadOnlyServerRefusedIsRepeated(t *testing.T) {
	f := setUpPlain(t, "")
	f.writableAfter(t)
	attempts := 0
	err := f.tx(t.Context(), backoff.NonIdempotent, func(ctx context.Context, tx transaction) error {
		attempts++
		_, err := f.insert(ctx, tx, false, 1, 0, 0, 1) // fails if the first one was committed
		if attempts == 1 {
			f.setReadOnly(t, 1)
		}
		return err
	})
	require.NoError(t, err)
	require.Equal(t, 2, attempts)
	require.Equal(t, 1, f.count("1290"), "%v", f.seen)
	require.Equal(t, 1, f.inserted(t, 1))
}

// As on a failover to which the name of the server leads: only new sessions work.
func TestRejectReadOnlyLeavesASessionThatMayNotWrite(t *testing.T) {
	f := setUpPlain(t, "&rejectReadOnly=true")
	f.writableAfter(t)
	f.setReadOnly(t, 1)
	var sessions []int64
	err := f.tx(t.Context(), backoff.NonIdempotent, func(ctx context.Context, tx transaction) error {
		session, err := f.sessionOf(ctx, tx)
		require.NoError(t, err)
		sessions = append(sessions, session)
		_, err = f.insert(ctx, tx, false, 1, 0, 0, 1)
		return err
	})
	require.NoError(t, err)
	require.Len(t, sessions, 2)
	require.NotEqual(t, sessions[0], sessions[1])
}

// 1792 says it of the transaction, where the program itself has begun it so.
func TestATransactionThatTheProgramBeganReadOnlyDoesNotWaitForMariaDB(t *testing.T) {
	f := setUp(t, mariadb)
	f.policy.MaxAttempts = 4
	attempts := 0
	err := backoffsql.Tx(t.Context(), f.db, f.policy, &sql.TxOptions{ReadOnly: true}, func(ctx context.Context, tx *sql.Tx) error {
		attempts++
		_, err := f.insert(ctx, sqlTx{tx}, false, 1, 0, 0, 1)
		return err
	})
	require.Equal(t, "1792", code(err))
	require.Equal(t, 1, attempts)
}
