// A program that makes one call has its client where it makes the call.
package main

import (
	"context"
	"log"
	"os"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

func main() {
	client := backoffhttp.Client(backoff.Policy{})
	resp, err := client.Get(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	resp.Body.Close()
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
	for range 10 {
		_ = often(context.Background())
	}
}

func run(ctx context.Context) error {
	policy := backoff.Policy{Budget: &backoff.RetryBudget{}}
	return policy.Do(ctx, ping)
}

func ping(ctx context.Context) error { return ctx.Err() }

func often(ctx context.Context) error {
	policy := backoff.Policy{Budget: &backoff.RetryBudget{}} // want `this RetryBudget`
	return policy.Do(ctx, ping)
}
