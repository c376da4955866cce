//go:build integration

package sqlstoretest

import (
	"database/sql"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	"github.com/gobackoff/backoff/idempotency/sqlstore"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
)

func TestPostgreSQLKeepsTheContract(t *testing.T) {
	contract(t, server(t, sqlstore.PostgreSQL, "pgx", "postgres://postgres@127.0.0.1:5432/test"))
}

func TestMariaDBKeepsTheContract(t *testing.T) {
	contract(t, server(t, sqlstore.MariaDB, "mysql", "root@tcp(127.0.0.1:3306)/test"))
}

// Under clientFoundRows an UPDATE counts the rows it found, and not those it
// changed.
func TestMariaDBKeepsTheContractIfFoundRowsCount(t *testing.T) {
	contract(t, server(t, sqlstore.MariaDB, "mysql", "root@tcp(127.0.0.1:3306)/test?clientFoundRows=true"))
}

func server(t *testing.T, d sqlstore.Dialect, driver, source string) database {
	t.Helper()
	db, err := sql.Open(driver, source)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	require.NoError(t, db.PingContext(t.Context()), "it needs the servers of compose.yaml")
	return database{db, d}
}
