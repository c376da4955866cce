//go:build integration

package fleet_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/contrib/fleet"
	"github.com/gobackoff/backoff/contrib/fleet/postgresstore"
)

func TestPostgresIsAStore(t *testing.T) {
	connect := func(t testing.TB) *pgxpool.Pool {
		pool, err := pgxpool.New(t.Context(), "postgres://postgres@127.0.0.1:5432/test")
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		return pool
	}
	require.NoError(t, postgresstore.Migrate(t.Context(), connect(t)), "compose.yaml starts the server")
	testStore(t, func(t testing.TB) fleet.Store {
		s, err := postgresstore.New(connect(t))
		require.NoError(t, err)
		return s
	})
}
