package sqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"time"

	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/idempotency"
	"github.com/gobackoff/backoff/idempotency/sqlstore"
)

func account(r *http.Request) (string, error) { return r.Header.Get("X-Account"), nil }

// The charge and its record are committed together: no crash can come between
// them.
func Example() {
	serve := func(db *sql.DB) (http.Handler, error) {
		store, err := sqlstore.New(db, sqlstore.PostgreSQL, sqlstore.Options{})
		if err != nil {
			return nil, err
		}
		once := idempotency.Middleware(account, idempotency.Options{Store: store})
		return once(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			response := idempotency.Record{Status: http.StatusCreated, Body: []byte("charged\n")}
			if err := charge(r.Context(), db, store, response); err != nil {
				backoffhttp.WriteError(w, r, err)
				return
			}
			response.Send(w)
		})), nil
	}
	_ = serve
	// Output:
}

func charge(ctx context.Context, db *sql.DB, store *sqlstore.Store, response idempotency.Record) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "INSERT INTO charges (amount) VALUES (10)"); err != nil {
		return err
	}
	if err := store.Record(ctx, tx, response); err != nil {
		return err
	}
	return tx.Commit()
}

// The statements are for a migration.
func ExampleDialect_Schema() {
	statements, err := sqlstore.SQLite.Schema("keys")
	fmt.Println(len(statements), err)
	fmt.Println(statements[1])
	// Output:
	// 2 <nil>
	// CREATE INDEX IF NOT EXISTS keys_expires ON keys (expires)
}

// A job that removes expired keys.
func ExampleStore_Sweep() {
	sweep := func(ctx context.Context, store *sqlstore.Store) error {
		for {
			n, err := store.Sweep(ctx, 1000)
			if n < 1000 || err != nil {
				return err
			}
		}
	}
	_ = sweep
	// Output:
}

// An invalid name of a table is refused before it gets into a statement.
func ExampleOptions() {
	_, err := sqlstore.New(nil, sqlstore.MariaDB, sqlstore.Options{Table: "billing.keys", TTL: 72 * time.Hour})
	fmt.Println(err)
	_, err = sqlstore.New(nil, sqlstore.MariaDB, sqlstore.Options{Table: "keys; DROP TABLE charges"})
	fmt.Println(err)
	// Output:
	// <nil>
	// sqlstore: table "keys; DROP TABLE charges", want letters, digits and underscores
}
