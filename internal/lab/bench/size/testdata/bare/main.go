// Command bare does as good as nothing.
package main

import (
	"context"
	"os"
)

func main() {
	if work(context.Background()) != nil {
		os.Exit(1)
	}
}

func work(ctx context.Context) error { return ctx.Err() }
