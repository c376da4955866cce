//go:build integration

package sqltest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

// startPooler starts pgbouncer between a fixture and its server, which keeps one
// session of the server for each transaction only.
func startPooler(t *testing.T, settings string) *daemon {
	p, port := newPlace(t), freePort(t)
	path := filepath.Join(p.dir, "pgbouncer.ini")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, `[databases]
test = host=127.0.0.1 port=5432 dbname=test user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %s
unix_socket_dir =
auth_type = any
pool_mode = transaction
%s
`, port, settings), 0o644))
	return newDaemon(t, "127.0.0.1:"+port, func() *exec.Cmd { return p.command(context.Background(), binary(t, "pgbouncer"), path) })
}

// through gives a fixture another pool, with its own way of sending statements.
func (f *fixture) through(t *testing.T, addr, mode string, conns int) *fixture {
	pool, err := pgxpool.New(t.Context(), fmt.Sprintf("postgres://postgres@%s/test?sslmode=disable&pool_max_conns=%d&default_query_exec_mode=%s", addr, conns, mode))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	f.pool = pool
	return f
}

// enter makes the transfer id once, whatever happens, by statements with
// arguments, which pgx prepares.
func (f *fixture) enter(ctx context.Context, id int, happens func()) error {
	return f.tx(ctx, backoff.Idempotent, func(ctx context.Context, tx transaction) error {
		native := tx.(pgxTx)
		tag, err := native.Exec(ctx, "INSERT INTO "+f.transfers+" VALUES ($1, 0, 0, 1) ON CONFLICT DO NOTHING", id)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		happens()
		_, err = native.Exec(ctx, "UPDATE "+f.accounts+" SET balance = balance + 1 WHERE id = $1", id%f.width)
		return err
	})
}

// enterAll makes n transfers by 20 workers, and checks that each was made once.
// The first one calls happens, once.
func (f *fixture) enterAll(t *testing.T, n int, happens func()) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var workers sync.WaitGroup
	var once sync.Once
	errs := make([]error, n)
	for w := range 20 {
		workers.Go(func() {
			for id := w; id < n; id += 20 {
				errs[id] = f.enter(ctx, id, func() {
					if id == n/2 {
						once.Do(happens)
					}
				})
			}
		})
	}
	workers.Wait()
	for id, err := range errs {
		require.NoError(t, err, "transfer %d", id)
	}
	b := &bank{fixture: f}
	require.Equal(t, n, b.sum(t, "1", f.transfers))
	require.Equal(t, n+f.width*1000, b.sum(t, "balance", f.accounts))
}

// setUpNative sets a fixture up with accounts on PostgreSQL, for pgx's own pool.
func setUpNative(t *testing.T) *fixture {
	f := setUp(t, pgxNative)
	f.level, f.width = 0, 20
	f.fill(t, f.width)
	return f
}

func TestARestartOfThePoolerIsSurvived(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{"at once": syscall.SIGTERM, "when all transactions are done": syscall.SIGINT} {
		t.Run(name, func(t *testing.T) {
			pooler := startPooler(t, "default_pool_size = 3")
			f := setUpNative(t).through(t, pooler.addr, "exec", 20)
			var restart sync.WaitGroup
			f.enterAll(t, 200, func() { restart.Go(func() { pooler.down(signal); pooler.up() }) })
			restart.Wait()
		})
	}
}

// pgbouncer says 08P01 of a client too many, and of one that has waited for too
// long.
func TestAPoolerThatIsFullIsAskedAgain(t *testing.T) {
	pooler := startPooler(t, "default_pool_size = 1\nmax_client_conn = 8\nquery_wait_timeout = 2")
	f := setUpNative(t).through(t, pooler.addr, "exec", 20)
	f.enterAll(t, 100, func() {})
	require.Positive(t, f.count("08P01"), "%v", f.seen)
}

func TestAStatementThatThePoolerLostIsPreparedAgain(t *testing.T) {
	pooler := startPooler(t, "default_pool_size = 2")
	f, other := setUpNative(t).through(t, pooler.addr, "cache_statement", 1), setUpNative(t).through(t, pooler.addr, "exec", 1)
	nothing := func() {}
	require.NoError(t, f.enter(t.Context(), 1, nothing)) // makes a session of the server, and prepares there
	require.NoError(t, other.enter(t.Context(), 1, func() {
		require.NoError(t, f.enter(t.Context(), 2, nothing), "%v", f.seen) // has a new one, since the other is in use
	}))
	require.Equal(t, 1, f.count("26000"), "%v", f.seen)
	require.Equal(t, 1, f.inserted(t, 2))
}

// A session of the server in which another client has prepared the statement stays
// as it is. Without prepared statements there is no such failure.
func TestAStatementThatThePoolerHasAlreadyIsFinal(t *testing.T) {
	pooler := startPooler(t, "default_pool_size = 1")
	f := setUpNative(t).through(t, pooler.addr, "cache_statement", 1)
	require.NoError(t, f.enter(t.Context(), 1, func() {}))
	require.Equal(t, "42P05", code(f.through(t, pooler.addr, "cache_statement", 1).enter(t.Context(), 2, func() {})))
	require.Empty(t, f.seen)
	require.NoError(t, f.through(t, pooler.addr, "exec", 1).enter(t.Context(), 2, func() {}))
}
