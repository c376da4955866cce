//go:build integration

package redisstore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/fleet"
	"github.com/gobackoff/backoff/contrib/fleet/redisstore"
)

// This breaker hears what other processes find out.
func ExampleNew() {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", ContextTimeoutEnabled: true})
	defer client.Close()
	store, err := redisstore.New(client, "example")
	if err != nil {
		panic(err)
	}
	hub := &fleet.Client{Store: store}
	breaker := backoff.Breaker{Name: "search", Shared: hub}

	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err = breaker.Do(ctx, func(context.Context) error { return nil })
	fmt.Println(err, hub.Close(ctx))
	// Output: <nil> <nil>
}
