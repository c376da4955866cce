//go:build integration

package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffsql"
	"github.com/gobackoff/backoff/backofftest/fault"
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
func (f *fixture) next(planned fault.Fault) {
	fired := false
	f.proxy.SetPlan(func(fault.Attempt) fault.Fault {
		if fired {
			return fault.OK()
		}
		fired = true
		return planned
	})
}

func TestACommitWithoutAnAnswer(t *testing.T) {
	for _, c := range []struct {
		name      string
		fault     fault.Fault
		committed int
	}{
		{"that was made", fault.Lost(), 1},
		{"that was not", fault.Reset(), 0},
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

const (
	transfers = 2000
	workers   = 16
	pace      = 20 // transfers to a mishap
)

// Transfers move money between accounts while sessions are terminated,
// connections are cut, answers to commits are lost, and the server goes away.
// Afterwards all the money is there, no transfer was lost, and none was made
// twice.
//
// Every second transfer is declared idempotent and may find that it was made
// already. For the others such an INSERT fails the test. If the outcome of one
// of them is unknown, it is made again as an idempotent one.
func TestTransfersUnderFaults(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		f.fill(t, f.width)
		f.proxy.SetPlan(fault.Randomly(t, 0.006, fault.Lost(), fault.Lost(), fault.Reset()))
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute) // it takes seconds, but not on a busy machine
		defer cancel()
		b := &bank{fixture: f}
		quiet := b.disturb(ctx, t)
		began := time.Now()
		err := b.work(ctx)
		quiet()
		t.Logf("%v: %d of unknown state, of which %d were made, retried %v",
			time.Since(began).Round(time.Millisecond), b.unknown.Load(), b.made.Load(), f.seen)
		require.NoError(t, err)
		b.audit(t)
		require.Positive(t, f.count(f.conflict), "no conflicts were had")
		require.Positive(t, f.count("unknown, declared")+int(b.unknown.Load()), "no commit was lost")
	})
}

type bank struct {
	*fixture
	next     atomic.Int64
	unknown  atomic.Int64 // transfers whose COMMIT was not answered, and that were not declared
	made     atomic.Int64 // those of them that were made
	sessions [workers]atomic.Int64
}

// work makes all transfers.
func (b *bank) work(ctx context.Context) error {
	var tasks sync.WaitGroup
	errs := make([]error, workers)
	for w := range workers {
		tasks.Go(func() {
			for id := b.next.Add(1); id <= transfers && errs[w] == nil; id = b.next.Add(1) {
				errs[w] = b.transfer(ctx, w, int(id))
			}
		})
	}
	tasks.Wait()
	return errors.Join(errs...)
}

// transfer makes one transfer.
func (b *bank) transfer(ctx context.Context, worker, id int) error {
	src := rand.IntN(b.width)
	dst := (src + 1 + rand.IntN(b.width-1)) % b.width
	move := func(bear bool) func(context.Context, transaction) error {
		return func(ctx context.Context, tx transaction) error {
			_, err := b.move(ctx, tx, worker, bear, id, src, dst)
			return err
		}
	}
	if id%2 == 0 {
		return b.tx(ctx, backoff.Idempotent, move(true))
	}
	err := b.tx(ctx, nil, move(false))
	if errors.Is(err, backoffsql.ErrCommitUnknown) {
		b.unknown.Add(1)
		fresh := false
		err = b.tx(ctx, backoff.Idempotent, func(ctx context.Context, tx transaction) (err error) {
			fresh, err = b.move(ctx, tx, worker, true, id, src, dst)
			return err
		})
		if !fresh {
			b.made.Add(1)
		}
	}
	return err
}

// move moves the money, unless the transfer is recorded already.
func (b *bank) move(ctx context.Context, tx transaction, worker int, bear bool, id, src, dst int) (fresh bool, err error) {
	session, err := b.sessionOf(ctx, tx)
	if err != nil {
		return false, err
	}
	b.sessions[worker].Store(session)
	defer b.sessions[worker].Store(0)
	amount := id%7 + 1
	if fresh, err = b.insert(ctx, tx, bear, id, src, dst, amount); err != nil || !fresh {
		return fresh, err
	}
	if err := b.add(ctx, tx, src, -amount); err != nil {
		return true, err
	}
	return true, b.add(ctx, tx, dst, amount)
}

// disturb causes faults until the function that it returns is called.
func (b *bank) disturb(ctx context.Context, t *testing.T) (quiet func()) {
	ctx, cancel := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	tasks.Go(func() {
		for n := 1; ctx.Err() == nil; {
			time.Sleep(5 * time.Millisecond)
			if b.next.Load() >= int64(n*pace) {
				b.mishap(ctx, n)
				n++
			}
		}
	})
	tasks.Go(func() { b.hold(ctx) })
	return func() {
		cancel()
		tasks.Wait()
		require.NoError(t, b.proxy.Restore())
	}
}

func (b *bank) mishap(ctx context.Context, n int) {
	switch {
	case n%40 == 0: // the server goes away
		b.proxy.Refuse()
		b.proxy.Cut()
		time.Sleep(60 * time.Millisecond)
		b.proxy.Restore()
	case n%15 == 0:
		b.proxy.Cut()
	default:
		if session := b.sessions[rand.IntN(workers)].Load(); session != 0 {
			b.end(ctx, session)
		}
	}
}

// hold keeps a row locked for longer than MariaDB waits for it.
func (b *bank) hold(ctx context.Context) {
	for range 2 {
		tx, err := b.direct.BeginTx(ctx, nil)
		if err != nil {
			return
		}
		if b.increase(ctx, sqlTx{tx}, rand.IntN(b.width)) == nil {
			select {
			case <-ctx.Done():
			case <-time.After(1100 * time.Millisecond):
			}
		}
		tx.Rollback()
	}
}

// audit checks the balances and the recorded transfers.
func (b *bank) audit(t *testing.T) {
	require.Equal(t, b.width*1000, b.sum(t, "balance", b.accounts), "money is conserved")
	require.Equal(t, transfers, b.sum(t, "1", b.transfers), "no transfer is lost, none is there twice")
	for id := range b.width {
		want := 1000 + b.sum(t, "amount", fmt.Sprintf("%s WHERE dst = %d", b.transfers, id)) -
			b.sum(t, "amount", fmt.Sprintf("%s WHERE src = %d", b.transfers, id))
		require.Equal(t, want, b.balance(t, id), "account %d got every transfer once", id)
	}
}

func (b *bank) sum(t *testing.T, what, from string) (sum int) {
	require.NoError(t, b.direct.QueryRowContext(t.Context(), fmt.Sprintf("SELECT COALESCE(SUM(%s), 0) FROM %s", what, from)).Scan(&sum))
	return sum
}
