//go:build integration

package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

// A pair is a primary of PostgreSQL and its standby.
type pair struct {
	*place
	a, b *daemon
}

// startPair makes a cluster and a copy of it, and starts the copy as the standby
// of the first one. A COMMIT is answered once the standby has it, too.
func startPair(t *testing.T) *pair {
	p := &pair{place: newPlace(t)}
	portA, portB := freePort(t), freePort(t)
	p.run(t, binary(t, "initdb"), "-D", "a", "-U", "postgres", "-A", "trust", "--no-sync")
	p.run(t, "cp", "-r", "a", "b")
	start := func(dir, port, primary string) *daemon {
		return newDaemon(t, "127.0.0.1:"+port, func() *exec.Cmd {
			return p.command(context.Background(), binary(t, "postgres"), "-D", dir, "-p", port, "-h", "127.0.0.1", "-k", "",
				"-c", "fsync=off", "-c", "primary_conninfo=host=127.0.0.1 user=postgres port="+primary,
				"-c", "wal_retrieve_retry_interval=100", "-c", "log_min_messages=fatal")
		})
	}
	p.a = start("a", portA, portB)
	p.standby(t, "b")
	p.b = start("b", portB, portA)
	return p
}

// standby has a cluster start as a standby.
func (p *pair) standby(t *testing.T, dir string) {
	p.run(t, "touch", filepath.Join(dir, "standby.signal"))
}

// ask runs statements on a server, once it takes them.
func ask(t *testing.T, addr string, statements ...string) {
	db, err := sql.Open("pgx", "postgres://postgres@"+addr+"/postgres?sslmode=disable")
	require.NoError(t, err)
	defer db.Close()
	for _, s := range statements {
		require.Eventually(t, func() bool { _, err = db.ExecContext(t.Context(), s); return err == nil }, 20*time.Second, 20*time.Millisecond, "%s: %v", s, err)
	}
}

// The primary becomes read-only, ends, and comes back as the standby of the other
// server, which is promoted. Its name still leads to it for a while, so that pools
// fill with sessions that may not write, and stay full of them when the name leads
// to the new primary.
func TestAStandbyIsPromotedUnderPools(t *testing.T) {
	p := startPair(t)
	ask(t, p.a.addr, "CREATE TABLE transfers (id INT PRIMARY KEY)", "CREATE TABLE accounts (id INT PRIMARY KEY, balance INT NOT NULL)",
		"INSERT INTO accounts SELECT id, 0 FROM generate_series(0, 19) AS id",
		"ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
	ask(t, p.b.addr, "SELECT 1 / COUNT(*) FROM pg_stat_wal_receiver WHERE status = 'streaming'")
	name := newName(t, p.a.addr)
	pools := poolsOf(t, name.Addr().String(), p.a.addr, p.b.addr)
	w := &work{pools: pools, stop: make(chan struct{})}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	done := w.begin(ctx)

	w.await(t, "begun", func() bool { return w.done.Load() > 200 })
	ask(t, p.a.addr, "ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
	w.await(t, "refused", func() bool { return pools[0].count("25006") > 0 }) // lib/pq begins READ WRITE
	p.a.down(syscall.SIGINT)
	p.standby(t, "a")
	ask(t, p.b.addr, "SELECT pg_promote()")
	p.a.up()
	w.await(t, "standby", func() bool { return pools[0].count("0A000") > 0 && pools[1].count("0A000") > 0 })
	name.target.Store(&p.b.addr)
	before := w.done.Load()
	w.await(t, "new", func() bool { return w.done.Load() > before+200 })
	close(w.stop)
	require.NoError(t, <-done)

	f := pools[3] // with the new primary
	require.Equal(t, int(w.done.Load()), f.sumOf(t, "SELECT COUNT(*) FROM transfers"), "each was made")
	require.Equal(t, int(w.done.Load()), f.sumOf(t, "SELECT SUM(balance) FROM accounts"), "and none twice")
	for _, f := range pools {
		t.Logf("%s: %v", f.server.name, f.seen)
	}
}

func (f *fixture) sumOf(t *testing.T, query string) (sum int) {
	require.NoError(t, f.db.QueryRowContext(t.Context(), query).Scan(&sum))
	return sum
}

// poolsOf returns pools that reach the primary by its name, pgx's own one with
// serializable transactions, and pools that look for it at both addresses.
func poolsOf(t *testing.T, name, a, b string) []*fixture {
	both := fmt.Sprintf("host=127.0.0.1,127.0.0.1 port=%s,%s user=postgres dbname=postgres sslmode=disable target_session_attrs=read-write",
		strings.TrimPrefix(a, "127.0.0.1:"), strings.TrimPrefix(b, "127.0.0.1:"))
	var pools []*fixture
	for i, dsn := range []string{"postgres://postgres@" + name + "/postgres?sslmode=disable", "postgres://postgres@" + name + "/postgres?sslmode=disable", both, both} {
		f := &fixture{server: server{name: dsn, driver: []string{"", "postgres", "postgres", "pgx"}[i], native: i == 0}, seen: map[string]int{}}
		f.policy = backoff.Policy{
			MaxAttempts: -1,
			Schedule:    backoff.Exponential{Initial: 5 * time.Millisecond, Max: 200 * time.Millisecond},
			Observer:    f.observe,
		}
		var err error
		if f.native {
			f.level = sql.LevelSerializable
			f.pool, err = pgxpool.New(t.Context(), dsn+"&pool_max_conns=5")
			require.NoError(t, err)
			t.Cleanup(f.pool.Close)
		} else {
			f.db, err = sql.Open(f.driver, dsn)
			require.NoError(t, err)
			t.Cleanup(func() { f.db.Close() })
			f.db.SetMaxIdleConns(5)
		}
		pools = append(pools, f)
	}
	return pools
}

// work is transactions of 20 workers, five for each pool.
type work struct {
	pools []*fixture
	stop  chan struct{}
	next  atomic.Int64
	done  atomic.Int64

	failed atomic.Value // an error of a transaction
}

// begin begins the work. Each transaction has to succeed in half a minute.
func (w *work) begin(ctx context.Context) <-chan error {
	var workers sync.WaitGroup
	errs := make([]error, 20)
	for i := range errs {
		workers.Go(func() {
			for errs[i] == nil {
				select {
				case <-w.stop:
					return
				default:
					if errs[i] = w.transfer(ctx, w.pools[i%len(w.pools)], i); errs[i] != nil {
						w.failed.Store(fmt.Sprintf("%s: %v", w.pools[i%len(w.pools)].server.name, errs[i]))
					}
				}
			}
		})
	}
	done := make(chan error)
	go func() {
		workers.Wait()
		done <- errors.Join(errs...)
	}()
	return done
}

func (w *work) transfer(ctx context.Context, f *fixture, account int) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	id := w.next.Add(1)
	err := f.tx(ctx, backoff.Idempotent, func(ctx context.Context, tx transaction) error {
		n, err := tx.exec(ctx, fmt.Sprintf("INSERT INTO transfers VALUES (%d) ON CONFLICT DO NOTHING", id))
		if err != nil || n == 0 {
			return err
		}
		_, err = tx.exec(ctx, fmt.Sprintf("UPDATE accounts SET balance = balance + 1 WHERE id = %d", account))
		return err
	})
	if err == nil {
		w.done.Add(1)
	}
	return err
}

// await waits until something is so.
func (w *work) await(t *testing.T, what string, so func() bool) {
	for began := time.Now(); !so(); time.Sleep(time.Millisecond) {
		if time.Since(began) < 30*time.Second && w.failed.Load() == nil {
			continue
		}
		for _, f := range w.pools {
			t.Logf("%s: %v", f.server.name, f.seen)
		}
		t.Fatalf("not %s in time: %v", what, w.failed.Load())
	}
}
