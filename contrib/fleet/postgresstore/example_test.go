//go:build integration

package postgresstore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/fleet"
	"github.com/gobackoff/backoff/contrib/fleet/postgresstore"
)

// This breaker hears what other processes find out.
func ExampleNew() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	pool, err := pgxpool.New(ctx, "postgres://postgres@127.0.0.1:5432/test?pool_max_conns=2")
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	if err := postgresstore.Migrate(ctx, pool); err != nil {
		panic(err)
	}
	store, err := postgresstore.New(pool)
	if err != nil {
		panic(err)
	}
	hub := &fleet.Client{Store: store}
	breaker := backoff.Breaker{Name: "search", Shared: hub}

	err = breaker.Do(ctx, func(context.Context) error { return nil })
	fmt.Println(err, hub.Close(ctx))
	// Output: <nil> <nil>
}
