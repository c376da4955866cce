package backoffpgx_test

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/backoffpgx"
)

// A transfer that must be made exactly once. Its key is unique, so the
// transaction may be repeated even if the connection broke during the COMMIT.
func ExampleTx() {
	ctx := context.Background()
	var pool backoffpgx.Beginner = mock{} // a *pgxpool.Pool
	policy := backoff.Policy{
		Name:        "transfer",
		MaxAttempts: -1,                                    // until ctx ends: many want the same row
		Schedule:    backoff.Exponential{Max: time.Second}, // and not 30 s
		Idempotency: backoff.Keyed,                         // one key for all attempts
	}

	err := backoffpgx.Tx(ctx, pool, policy, pgx.TxOptions{IsoLevel: pgx.Serializable}, func(ctx context.Context, tx pgx.Tx) error {
		inserted, err := tx.Exec(ctx, "INSERT INTO transfers (id) VALUES ($1) ON CONFLICT DO NOTHING", backoff.IdempotencyKey(ctx))
		if err != nil || inserted.RowsAffected() == 0 {
			return err // nil if an earlier attempt has committed
		}
		_, err = tx.Exec(ctx, "UPDATE accounts SET balance = balance - 10 WHERE id = 1")
		return err
	})
	fmt.Println(err)
	// Output: <nil>
}
