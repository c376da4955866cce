//go:build integration

package sqltest

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffsql"
	"github.com/gobackoff/backoff/internal/faultproxy"
)

func TestADeadlockIsRepeated(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		f.level = sql.LevelDefault
		f.fill(t, 2)
		var both, tasks sync.WaitGroup
		both.Add(2)
		errs := make([]error, 2)
		for i := range 2 {
			tasks.Go(func() {
				var met sync.Once
				errs[i] = f.tx(t.Context(), nil, func(ctx context.Context, tx transaction) error {
					if err := f.increase(ctx, tx, i); err != nil {
						return err
					}
					met.Do(func() { both.Done(); both.Wait() })
					return f.increase(ctx, tx, 1-i)
				})
			})
		}
		tasks.Wait()
		require.NoError(t, errs[0])
		require.NoError(t, errs[1])
		require.Positive(t, f.count(f.deadlock), "%v", f.seen) // a busy server may see a second one
		require.Equal(t, 1002, f.balance(t, 0))
		require.Equal(t, 1002, f.balance(t, 1))
	})
}

func (f *fixture) increase(ctx context.Context, tx transaction, account int) error {
	_, err := tx.exec(ctx, fmt.Sprintf("UPDATE %s SET balance = balance + 1 WHERE id = %d", f.accounts, account))
	return err
}

func TestALockWaitTimeoutIsRepeated(t *testing.T) {
	f := setUp(t, mariadb)
	f.fill(t, 1)
	holder, err := f.direct.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, f.increase(t.Context(), sqlTx{holder}, 0))
	time.AfterFunc(1300*time.Millisecond, func() { holder.Rollback() })
	require.NoError(t, f.tx(t.Context(), nil, func(ctx context.Context, tx transaction) error { return f.increase(ctx, tx, 0) }))
	require.Equal(t, 1, f.count("1205"), "%v", f.seen)
	require.Equal(t, 1001, f.balance(t, 0))
}

func TestASessionIsTerminatedMidTransaction(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		attempts := 0
		err := f.tx(t.Context(), nil, func(ctx context.Context, tx transaction) error {
			attempts++
			if _, err := f.insert(ctx, tx, false, 1, 2, 3, 4); err != nil {
				return err
			}
			if attempts > 1 {
				return nil
			}
			session, err := f.sessionOf(ctx, tx)
			require.NoError(t, err)
			require.NoError(t, f.end(ctx, session))
			_, err = f.insert(ctx, tx, false, 2, 2, 3, 4)
			require.Error(t, err)
			return err
		})
		require.NoError(t, err)
		require.Equal(t, 2, attempts)
		require.Equal(t, 1, f.inserted(t, 1))
		require.Zero(t, f.inserted(t, 2))
	})
}

func TestAFailoverIsSurvived(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		attempts := 0
		err := f.tx(t.Context(), nil, func(ctx context.Context, tx transaction) error {
			if attempts++; attempts == 1 {
				f.proxy.Refuse()
				f.proxy.Cut()
				time.AfterFunc(200*time.Millisecond, func() { f.proxy.Restore() })
			}
			_, err := f.insert(ctx, tx, false, 1, 2, 3, 4)
			return err
		})
		require.NoError(t, err)
		require.Equal(t, 2, attempts)
		require.Positive(t, f.count("not sent"), "BEGIN was refused: %v", f.seen)
		require.Equal(t, 1, f.inserted(t, 1))
	})
}

// next gives the next exchange a fault.
func (f *fixture) next(fault faultproxy.Fault) {
	fired := false
	f.proxy.SetPlan(func(int) faultproxy.Fault {
		if fired {
			return faultproxy.Pass()
		}
		fired = true
		return fault
	})
}

func TestACommitWithoutAnAnswer(t *testing.T) {
	for _, c := range []struct {
		name      string
		fault     faultproxy.Fault
		committed int
	}{
		{"that was made", faultproxy.DropAnswer(), 1},
		{"that was not", faultproxy.Reset(), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, f *fixture) {
				attempts := 0
				transfer := func(id int) func(context.Context, transaction) error {
					attempts = 0
					return func(ctx context.Context, tx transaction) error {
						attempts++
						_, err := f.insert(ctx, tx, attempts > 1, id, 2, 3, 4)
						if attempts == 1 {
							f.next(c.fault)
						}
						return err
					}
				}
				err := f.tx(t.Context(), nil, transfer(1))
				require.ErrorIs(t, err, backoffsql.ErrCommitUnknown, "%v", f.seen)
				require.Equal(t, 1, attempts)
				require.Eventually(t, func() bool { return f.inserted(t, 1) == c.committed }, time.Second, 10*time.Millisecond)

				require.NoError(t, f.tx(t.Context(), backoff.Idempotent, transfer(2)))
				require.Equal(t, 2, attempts)
				require.Equal(t, 1, f.inserted(t, 2))
			})
		})
	}
}

// When fn ignores the failure of a statement, PostgreSQL accepts the COMMIT and
// rolls back. Each driver says so in its own words.
func TestASwallowedErrorIsNoSuccess(t *testing.T) {
	pq := postgres
	pq.name, pq.driver = "lib/pq", "postgres"
	pq.dsn = func(addr string) string { return "postgres://postgres@" + addr + "/test?sslmode=disable" }
	for _, s := range []server{postgres, pgxNative, pq} {
		t.Run(s.name, func(t *testing.T) {
			f := setUp(t, s)
			attempts := 0
			err := f.tx(t.Context(), backoff.Idempotent, func(ctx context.Context, tx transaction) error {
				attempts++
				_, err := f.insert(ctx, tx, false, 1, 2, 3, 4)
				require.NoError(t, err)
				_, err = f.insert(ctx, tx, false, 1, 2, 3, 4)
				require.Error(t, err)
				return nil
			})
			require.Error(t, err)
			require.NotErrorIs(t, err, backoffsql.ErrCommitUnknown, "it was rolled back")
			require.Equal(t, 1, attempts, "nobody knows why the statement failed")
			require.Zero(t, f.inserted(t, 1))
		})
	}
}
