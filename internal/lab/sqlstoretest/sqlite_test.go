//go:build nightly

package sqlstoretest

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/gobackoff/backoff/idempotency/sqlstore"
)

func TestSQLiteKeepsTheContract(t *testing.T) {
	contract(t, sqlite(t))
}

func sqlite(t *testing.T) database {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys.db")
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_txlock=immediate")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return database{db, sqlstore.SQLite}
}
