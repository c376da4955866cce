//go:build nightly

package sqltest

import (
	"context"
	"database/sql"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffsql"
)

// openSQLite opens a file with one counter, which is 0. Writers do not wait for
// each other, so that they meet.
func openSQLite(t *testing.T, mode string) *sql.DB {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "a.db")+"?_pragma=journal_mode("+mode+")")
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	_, err = db.ExecContext(t.Context(), "CREATE TABLE counter (n INT); INSERT INTO counter VALUES (0)")
	require.NoError(t, err)
	return db
}

// count adds 1 to the counter, by reading and writing it.
func count(ctx context.Context, tx *sql.Tx) error {
	var n int
	if err := tx.QueryRowContext(ctx, "SELECT n FROM counter").Scan(&n); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "UPDATE counter SET n = ?", n+1)
	return err
}

func counted(t *testing.T, db *sql.DB) (n int) {
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT n FROM counter").Scan(&n))
	return n
}

func TestEveryUpdateOfABusySQLiteIsMadeOnce(t *testing.T) {
	for _, mode := range []string{"wal", "delete"} {
		t.Run(mode, func(t *testing.T) {
			db := openSQLite(t, mode)
			policy := backoff.Policy{
				MaxAttempts: -1,
				Schedule:    backoff.Exponential{Initial: time.Millisecond, Max: 50 * time.Millisecond},
				Idempotency: backoff.NonIdempotent,
				Classify:    backoffsql.SQLite,
			}
			errs := make([]error, 80)
			var workers sync.WaitGroup
			for w := range 8 {
				workers.Go(func() {
					for i := w; i < len(errs); i += 8 {
						errs[i] = backoffsql.Tx(t.Context(), db, policy, nil, count)
					}
				})
			}
			workers.Wait()
			for i, err := range errs {
				require.NoError(t, err, "update %d", i)
			}
			require.Equal(t, 80, counted(t, db))
		})
	}
}

// The other connection lets go once Tx waits for its second attempt.
func TestABusySQLiteRefusesStatementsAndCommitsForNow(t *testing.T) {
	for name, c := range map[string]struct {
		mode  string
		other string // statement of the other connection, after the first one read
		late  bool   // the first one is refused at its COMMIT
	}{
		"a writer holds the lock":     {"wal", "BEGIN IMMEDIATE", false},
		"what was read is old":        {"wal", "CREATE TABLE another (n INT)", false},
		"a reader holds back COMMITs": {"delete", "BEGIN; SELECT n FROM counter", true},
	} {
		t.Run(name, func(t *testing.T) {
			db := openSQLite(t, c.mode)
			other, err := db.Conn(t.Context())
			require.NoError(t, err)
			var seen []error
			policy := backoff.Policy{Classify: backoffsql.SQLite, Idempotency: backoff.NonIdempotent, Observer: func(ctx context.Context, e backoff.Event) {
				if e.Kind == backoff.EventRetry {
					seen = append(seen, e.Err)
					other.ExecContext(ctx, "ROLLBACK")
				}
			}}
			attempts, ran := 0, 0
			err = backoffsql.Tx(t.Context(), db, policy, nil, func(ctx context.Context, tx *sql.Tx) error {
				var n int
				if err := tx.QueryRowContext(ctx, "SELECT n FROM counter").Scan(&n); err != nil {
					return err
				}
				if attempts++; attempts == 1 {
					_, err := other.ExecContext(ctx, c.other)
					require.NoError(t, err)
				}
				_, err := tx.ExecContext(ctx, "UPDATE counter SET n = ?", n+1)
				if err == nil {
					ran++
				}
				return err
			})
			require.NoError(t, err)
			require.Len(t, seen, 1)
			require.Equal(t, backoff.ClassNotSent, backoffsql.SQLite(seen[0]))
			require.NotErrorIs(t, seen[0], backoffsql.ErrCommitUnknown)
			require.Equal(t, c.late, ran == 2, "refused at the COMMIT")
			require.Equal(t, 1, counted(t, db))
		})
	}
}

func TestAConstraintOfSQLiteIsFinal(t *testing.T) {
	db := openSQLite(t, "wal")
	_, err := db.ExecContext(t.Context(), "CREATE UNIQUE INDEX once ON counter (n); INSERT INTO counter VALUES (1)")
	require.NoError(t, err)
	attempts := 0
	policy := backoff.Policy{Classify: backoffsql.SQLite}
	require.Error(t, policy.Do(t.Context(), func(ctx context.Context) error {
		attempts++
		_, err := db.ExecContext(ctx, "INSERT INTO counter VALUES (1)")
		return err
	}))
	require.Equal(t, 1, attempts)
}
