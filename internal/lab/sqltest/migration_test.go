//go:build integration

package sqltest

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

const oldSessions = 8

// kept are pools that no later one may get the address of: it would count as a pool
// that was emptied a moment ago.
var kept []any

// A migration changes the type of a column under sessions that have prepared a
// SELECT of it: each of them fails with 0A000 for good, unless its driver forgets
// the statement.
func TestAMigrationUnderAPoolIsSurvived(t *testing.T) {
	for name, way := range map[string]func(*testing.T, *fixture) func(context.Context, transaction) error{
		"pgx's own statements":                 cached,
		"statements of the program":            named,
		"statements of package sql, by lib/pq": prepared,
	} {
		t.Run(name, func(t *testing.T) {
			f := setUpNative(t)
			read := way(t, f)
			kept = append(kept, f.pool, f.db)
			use := func(n int) {
				var all, met sync.WaitGroup
				errs := make([]error, n)
				met.Add(n)
				for i := range n {
					all.Go(func() {
						var once sync.Once
						errs[i] = f.tx(t.Context(), nil, func(ctx context.Context, tx transaction) error {
							err := read(ctx, tx)
							if n == oldSessions {
								once.Do(func() { met.Done(); met.Wait() }) // each has a session of its own
							}
							if err != nil {
								return err
							}
							_, err = tx.exec(ctx, fmt.Sprintf("UPDATE %s SET balance = balance + 1 WHERE id = %d", f.accounts, i+1))
							return err
						})
					})
				}
				all.Wait()
				for _, err := range errs {
					require.NoError(t, err, "%v", f.seen)
				}
			}
			use(oldSessions)
			require.Empty(t, f.seen)
			_, err := f.direct.ExecContext(t.Context(), "ALTER TABLE "+f.accounts+" ALTER COLUMN balance TYPE BIGINT")
			require.NoError(t, err)
			f.policy.MaxAttempts = 0 // 4
			use(1)
			require.Positive(t, f.count("0A000"), "%v", f.seen)
			f.policy.MaxAttempts = -1
			use(oldSessions)
			require.Equal(t, oldSessions+1+oldSessions+f.width*1000, (&bank{fixture: f}).sum(t, "balance", f.accounts))
		})
	}
}

func (f *fixture) reading() string { return "SELECT * FROM " + f.accounts + " WHERE id = $1" }

func cached(t *testing.T, f *fixture) func(context.Context, transaction) error {
	f.through(t, f.addr, "cache_statement", oldSessions)
	return func(ctx context.Context, tx transaction) error {
		var id, balance int
		return tx.(pgxTx).QueryRow(ctx, f.reading(), 0).Scan(&id, &balance)
	}
}

func named(t *testing.T, f *fixture) func(context.Context, transaction) error {
	config, err := pgxpool.ParseConfig(f.dsn(f.addr))
	require.NoError(t, err)
	config.MaxConns = oldSessions
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Prepare(ctx, "reading", f.reading())
		return err
	}
	f.pool, err = pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(f.pool.Close)
	return func(ctx context.Context, tx transaction) error {
		var id, balance int
		return tx.(pgxTx).QueryRow(ctx, "reading", 0).Scan(&id, &balance)
	}
}

func prepared(t *testing.T, f *fixture) func(context.Context, transaction) error {
	var err error
	f.native = false
	f.db, err = sql.Open("postgres", "postgres://postgres@"+f.addr+"/test?sslmode=disable")
	require.NoError(t, err)
	t.Cleanup(func() { f.db.Close() })
	f.db.SetMaxOpenConns(oldSessions)
	f.db.SetMaxIdleConns(oldSessions)
	statement, err := f.db.PrepareContext(t.Context(), f.reading())
	require.NoError(t, err)
	return func(ctx context.Context, tx transaction) error {
		var id, balance int
		return tx.(sqlTx).StmtContext(ctx, statement).QueryRowContext(ctx, 0).Scan(&id, &balance)
	}
}
