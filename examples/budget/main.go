// Command budget shows why retries need a budget. Watch the columns answered:
// two equal servers slow down for two seconds, and only the one whose clients
// have a RetryBudget recovers. At the other one, four attempts per call go on.
//
// The clients of both retry up to three times, with exponential backoff and
// full jitter.
//
//	go run -C examples ./budget
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/gobackoff/backoff"
)

const (
	load     = 60  // calls per second
	healthy  = 120 // calls per second that a server can serve
	slow     = 15  // the same, during the dip
	dipFrom  = 2 * time.Second
	dipTo    = 4 * time.Second
	duration = 10 * time.Second
	timeout  = 500 * time.Millisecond // of an attempt
)

func main() {
	if _, _, err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run returns the client without a budget and the one with a budget.
func run(ctx context.Context, out io.Writer) (without, with *client, err error) {
	policy := backoff.Policy{Name: "fetch", AttemptTimeout: timeout}
	if without, err = newClient(policy); err != nil {
		return nil, nil, err
	}
	defer without.close()
	policy.Budget = new(backoff.RetryBudget)
	if with, err = newClient(policy); err != nil {
		return nil, nil, err
	}
	defer with.close()

	fmt.Fprintf(out, "%d calls a second, to servers that can do %d; for two seconds, only %d.\n", load, healthy, slow)
	fmt.Fprintf(out, "A server does the work of clients that have given up, too.\n\n")
	fmt.Fprintf(out, "             without a budget             with a RetryBudget\n")
	fmt.Fprintf(out, " second   answered   attempts/call     answered   attempts/call\n")

	ctx, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	var clients sync.WaitGroup
	clients.Go(func() { without.run(ctx) })
	clients.Go(func() { with.run(ctx) })
	for second := range int(duration / time.Second) {
		select {
		case <-time.After(time.Until(without.began.Add(time.Duration(second+1) * time.Second))):
		case <-ctx.Done():
		}
		a, b := without.second(second), with.second(second)
		note := ""
		if at := time.Duration(second) * time.Second; at >= dipFrom && at < dipTo {
			note = "   the dip"
		}
		fmt.Fprintf(out, "%7d %10d %15.2f %12d %15.2f%s\n", second+1, a.answered, a.perCall(), b.answered, b.perCall(), note)
	}
	clients.Wait()
	fmt.Fprintf(out, "\n9 of 10 calls are answered again: %s without a budget, %s with it.\n", without.recovery(), with.recovery())
	return without, with, nil
}
