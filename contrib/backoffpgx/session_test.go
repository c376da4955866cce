package backoffpgx_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/backoffpgx"
)

// startWrong starts a server whose first sessions refuse a statement for good, and
// a pool that holds n sessions.
func startWrong(t *testing.T, wrong int, at, says string, n int) (*fake, *pgxpool.Pool) {
	f := start(t, nil)
	f.wrong, f.at, f.says = wrong, at, says
	pool := f.pool(t, int32(n))
	conns := make([]*pgxpool.Conn, n)
	for i := range conns {
		var err error
		conns[i], err = pool.Acquire(t.Context())
		require.NoError(t, err)
	}
	for _, conn := range conns {
		conn.Release()
	}
	return f, pool
}

func TestTxLeavesASessionThatIsWrongForGood(t *testing.T) {
	for _, at := range []string{"begin", "work", "commit"} {
		for _, code := range []string{"25006", "26000"} {
			f, pool := startWrong(t, 1, at, code, 1)
			require.NoError(t, backoffpgx.Tx(t.Context(), pool, swift(backoff.NonIdempotent), pgx.TxOptions{}, work))
			require.Equal(t, []int{1, 2}, f.used, "%s at %s", code, at)
		}
	}
}

// It is emptied once a second at most. Sessions that are wrong then go one by one.
func TestAPoolFullOfSessionsThatAreWrongIsEmptied(t *testing.T) {
	f, pool := startWrong(t, 25, "work", "25006", 20)
	p := swift(backoff.NonIdempotent)
	p.MaxAttempts = 26
	require.NoError(t, backoffpgx.Tx(t.Context(), pool, p, pgx.TxOptions{}, work))
	require.Equal(t, 26, f.used[len(f.used)-1])
	for i, session := range f.used {
		require.NotContains(t, f.used[:i], session, "no session is asked twice")
	}
}

func TestASessionOfTheProgramsOwnIsKept(t *testing.T) {
	f := start(t, nil)
	f.wrong, f.at, f.says = 1, "work", "25006"
	conn := f.connect(t)
	require.Equal(t, "25006", state(backoffpgx.Tx(t.Context(), conn, swift(nil), pgx.TxOptions{}, work)))
	require.Equal(t, []int{1, 1, 1, 1}, f.used, "it may become right: a standby is promoted")
	require.False(t, conn.IsClosed())
}

func TestATransactionThatWasBegunReadOnlyIsNotRepeatedForThat(t *testing.T) {
	for name, c := range map[string]struct {
		opts pgx.TxOptions
		dsn  string
	}{
		"by its access mode": {pgx.TxOptions{AccessMode: pgx.ReadOnly}, ""},
		"by its BEGIN":       {pgx.TxOptions{BeginQuery: "begin READ ONLY"}, ""},
		"by its session":     {pgx.TxOptions{}, "&default_transaction_read_only=on"},
	} {
		f := start(t, nil)
		f.wrong, f.at, f.says = 9, "work", "25006"
		pool, err := pgxpool.New(t.Context(), f.url()+c.dsn)
		require.NoError(t, err)
		defer pool.Close()
		err = backoffpgx.Tx(t.Context(), pool, swift(nil), c.opts, work)
		require.Equal(t, "25006", state(err), name)
		require.False(t, backoff.Policy{}.Retryable(err), name)
		require.Len(t, f.used, 1, name)

		f.says = "40001"
		require.Error(t, backoffpgx.Tx(t.Context(), pool, swift(nil), c.opts, work))
		require.Len(t, f.used, 1+4, "%s: other errors are", name)
	}
}

// A mark of fn's own is kept.
func TestASessionIsKeptForAnErrorThatIsNotRetried(t *testing.T) {
	f, pool := startWrong(t, 9, "work", "25006", 1)
	err := backoffpgx.Tx(t.Context(), pool, swift(nil), pgx.TxOptions{}, func(ctx context.Context, tx pgx.Tx) error {
		return backoff.Permanent(errors.Join(work(ctx, tx)))
	})
	require.Equal(t, "25006", state(err))
	require.NoError(t, pool.Ping(t.Context()))
	require.Equal(t, int64(1), pool.Stat().NewConnsCount())
	require.Len(t, f.used, 1)
}
