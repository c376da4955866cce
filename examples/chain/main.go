// Command chain has a client call a service, which calls a second one, which calls a third
// one, with four attempts each. When the last one is down, one call of the client becomes
// 64 calls there, unless the services tell each other that they have tried already.
package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	for _, show := range []func(context.Context, io.Writer) error{naive, signalled, outage, flaky} {
		if err := show(ctx, out); err != nil {
			return err
		}
	}
	return nil
}

// Each service answers 503 when its own four attempts have failed. To its caller that is as
// good a reason to try again as any.
func naive(ctx context.Context, out io.Writer) error {
	c, err := startChain(retrying, down, func(w http.ResponseWriter, _ *http.Request, _ error) {
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	if err != nil {
		return err
	}
	defer c.Close()
	c.call(ctx, 1)
	return c.print(out, "without a word", 1)
}

// WriteError says "do not retry" with the answer, and the client's transport obeys.
func signalled(ctx context.Context, out io.Writer) error {
	c, err := startChain(retrying, down, backoffhttp.WriteError)
	if err != nil {
		return err
	}
	defer c.Close()
	c.call(ctx, 1)
	return c.print(out, "with WriteError", 1)
}

// A budget lets a client retry in proportion to its success. In an outage there is none.
func outage(ctx context.Context, out io.Writer) error {
	c, err := startChain(budgeted, up, backoffhttp.WriteError)
	if err != nil {
		return err
	}
	defer c.Close()
	c.call(ctx, 200)
	c.reset(down)
	c.call(ctx, 200)
	return c.print(out, "budgets, outage", 200)
}

// One error in ten is within the budget: it costs a tenth, and hardly any call fails.
func flaky(ctx context.Context, out io.Writer) error {
	c, err := startChain(budgeted, up, backoffhttp.WriteError)
	if err != nil {
		return err
	}
	defer c.Close()
	c.call(ctx, 200)
	random := rand.New(rand.NewPCG(1, 1))
	c.reset(func(w http.ResponseWriter, r *http.Request) { // one request at a time
		if random.Float64() < 0.1 {
			down(w, r)
		}
	})
	c.call(ctx, 1000)
	return c.print(out, "budgets, 10 % errors", 1000)
}

var policy = backoff.Policy{Name: "next service", Schedule: backoff.Exponential{Initial: time.Millisecond}}

// retrying is unguarded, to show what the attempts alone do. A Transport's zero value has a
// budget and a breaker for each host.
func retrying() *backoffhttp.Transport {
	return &backoffhttp.Transport{Base: new(http.Transport), Policy: policy, Unguarded: true}
}

func budgeted() *backoffhttp.Transport {
	t := retrying()
	t.Policy.Budget = new(backoff.RetryBudget)
	return t
}
