// Command baredo is bare under a policy.
package main

import (
	"context"
	"os"

	"github.com/gobackoff/backoff"
)

var policy = backoff.Policy{Name: "work"}

func main() {
	if policy.Do(context.Background(), work) != nil {
		os.Exit(1)
	}
}

func work(ctx context.Context) error { return ctx.Err() }
