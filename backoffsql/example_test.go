package backoffsql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffsql"
)

// A transfer that must be made exactly once. Its key is unique, so the
// transaction may be repeated even if the connection broke during the COMMIT.
func ExampleTx() {
	db := sql.OpenDB(&fake{exec: times(1, state("40001"))})
	defer db.Close()
	policy := backoff.Policy{Name: "transfer", MaxAttempts: 10, Idempotency: backoff.Keyed}

	err := backoffsql.Tx(context.Background(), db, policy, &sql.TxOptions{Isolation: sql.LevelDefault},
		func(ctx context.Context, tx *sql.Tx) error {
			key := backoff.IdempotencyKey(ctx)
			inserted, err := tx.ExecContext(ctx, "INSERT INTO transfers (id) VALUES ($1) ON CONFLICT DO NOTHING", key)
			if err != nil {
				return err
			}
			if n, err := inserted.RowsAffected(); n == 0 || err != nil {
				return err // nil if an earlier attempt has committed
			}
			_, err = tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - 10 WHERE id = 1")
			return err
		})
	fmt.Println(err)
	// Output: <nil>
}

// The MySQL driver keeps the number of an error in a field.
func ExampleMySQL() {
	policy := backoff.Policy{Classify: backoffsql.MySQL(func(err error) uint16 {
		var e numbered
		if errors.As(err, &e) { // *mysql.MySQLError
			return e.Number
		}
		return 0
	})}
	fmt.Println(policy.Retryable(numbered{1213}), policy.Retryable(numbered{1062}))
	// Output: true false
}

func ExampleClassify() {
	policy := backoff.Policy{Classify: backoffsql.Classify}
	fmt.Println(policy.Retryable(state("40001")), policy.Retryable(errors.New("syntax")))
	// Output: true false
}

// A connection of its own keeps what belongs to a session: an advisory lock, a
// temporary table.
func ExampleBeginner() {
	db := sql.OpenDB(&fake{})
	defer db.Close()
	session, err := db.Conn(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close()
	for _, from := range []backoffsql.Beginner{db, session} {
		err := backoffsql.Tx(context.Background(), from, backoff.Policy{}, nil, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "DELETE FROM drafts")
			return err
		})
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// <nil>
}
