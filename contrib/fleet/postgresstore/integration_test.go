//go:build integration

package postgresstore

import (
	"crypto/rand"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/contrib/fleet"
)

const server = "postgres://postgres@127.0.0.1:5432/test"

func connect(t testing.TB) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), server)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	require.NoError(t, pool.Ping(t.Context()), "compose.yaml starts the server")
	return pool
}

func TestManyProcessesMayMigrateAtOnce(t *testing.T) {
	var group sync.WaitGroup
	errs := make(chan error, 5)
	for range cap(errs) {
		pool := connect(t)
		group.Go(func() { errs <- Migrate(t.Context(), pool) })
	}
	group.Wait()
	for range cap(errs) {
		require.NoError(t, <-errs)
	}
}

// Rows that nobody uses any more are deleted.
func TestRowsWhoseTimeIsOverAreDropped(t *testing.T) {
	pool := connect(t)
	ctx := t.Context()
	require.NoError(t, Migrate(ctx, pool))
	_, err := pool.Exec(ctx, `
		insert into backoff_circuit (key, forget) select 'old ' || i, now() - interval '1000 years' from generate_series(1, 15) i
			on conflict (key) do update set forget = excluded.forget`)
	require.NoError(t, err)
	_, err = pool.Exec(ctx, `
		insert into backoff_block select 'old', i, 1, now() - interval '1000 years' from generate_series(1, 15) i on conflict do nothing`)
	require.NoError(t, err)
	s, err := New(pool)
	require.NoError(t, err)
	for range 4 {
		_, err = s.Trip(ctx, "new", fleet.Trip{By: "a", Voter: "a", Open: 1, Quorum: 2})
		require.NoError(t, err)
	}
	var left int
	require.NoError(t, pool.QueryRow(ctx, `select (select count(*) from backoff_circuit where key like 'old %')
		+ (select count(*) from backoff_block where key = 'old')`).Scan(&left))
	require.Zero(t, left)
}

// What was stored before the server's clock was set back by an hour ends an hour
// too late by that clock.
func TestTokensReturnThoughTheClockWasSetBack(t *testing.T) {
	pool := connect(t)
	require.NoError(t, Migrate(t.Context(), pool))
	s, err := New(pool)
	require.NoError(t, err)
	key := rand.Text()
	take := func(block string) int {
		n, err := s.Take(t.Context(), key, fleet.Claim{Block: block, Tokens: 10, Allowance: 10, Window: 100 * time.Millisecond})
		require.NoError(t, err)
		return n
	}
	require.Equal(t, 10, take("a"))
	_, err = pool.Exec(t.Context(), "update backoff_block set until = until + interval '1 hour' where key = $1", key)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return take("b") == 10 }, 10*time.Second, 10*time.Millisecond)
}

// BenchmarkStore measures what a server can bear, on as many connections as a
// pool opens.
func BenchmarkStore(b *testing.B) {
	pool := connect(b)
	if err := Migrate(b.Context(), pool); err != nil {
		b.Fatal(err)
	}
	s, err := New(pool)
	if err != nil {
		b.Fatal(err)
	}
	run := time.Now().String()
	var n atomic.Int64
	for name, call := range map[string]func(key string) error{
		"load": func(string) error { _, err := s.Load(b.Context(), "0"); return err },
		"trip": func(key string) error {
			_, err := s.Trip(b.Context(), key, fleet.Trip{By: key, Voter: key, Open: time.Second})
			return err
		},
		"take": func(key string) error {
			_, err := s.Take(b.Context(), run, fleet.Claim{Block: key, Tokens: 10, Allowance: 10_000, Window: 10 * time.Second})
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := call(strconv.Itoa(int(n.Add(1)))); err != nil {
						b.Error(err)
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
		})
	}
}
