// Command chain shows how retries multiply. A client calls a service, which
// calls a second service, which calls a third, with four attempts each. When
// the last service is down, one call of the client becomes 64 calls there,
// unless the services tell each other that they have already retried.
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

// naive runs a chain whose services answer 503 when their four attempts have
// failed. Their callers retry that.
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

// signalled runs a chain whose services answer with WriteError. It adds "do not
// retry" to the answer, and the caller's transport obeys.
func signalled(ctx context.Context, out io.Writer) error {
	c, err := startChain(retrying, down, backoffhttp.WriteError)
	if err != nil {
		return err
	}
	defer c.Close()
	c.call(ctx, 1)
	return c.print(out, "with WriteError", 1)
}

// outage runs a chain with budgets. A budget allows retries in proportion to
// successes, and in an outage there are none.
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

// flaky runs a chain with budgets and one error in ten. The budgets allow the
// retries, which cost a tenth, and hardly any call fails.
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

// retrying returns a transport without guards, to show the effect of retries
// alone. A zero Transport has a budget and a breaker for each host.
func retrying() *backoffhttp.Transport {
	return &backoffhttp.Transport{Base: new(http.Transport), Policy: policy, Unguarded: true}
}

// budgeted returns a transport with a budget and no breaker.
func budgeted() *backoffhttp.Transport {
	t := retrying()
	t.Policy.Budget = new(backoff.RetryBudget)
	return t
}
