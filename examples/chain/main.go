// Command chain shows how retries multiply from service to service. Watch the
// last column: when the third service is down, one call of the client makes 64
// requests there, or 4 if the services say that they have already retried.
//
//	go run -C examples ./chain
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
	fmt.Fprint(out, "A client calls service 1, which calls 2, which calls 3. Each makes up to 4 attempts.\n\n")
	fmt.Fprintf(out, "%-54s %5s %6s %17s %9s\n", "", "", "", "requests at", "at 3,")
	fmt.Fprintf(out, "%-54s %5s %6s %5s %5s %5s %9s\n", "", "calls", "failed", "1", "2", "3", "per call")
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
	return c.print(out, "3 is down, nobody says so", 1)
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
	return c.print(out, "3 is down, WriteError says: do not retry", 1)
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
	return c.print(out, "3 is down, WriteError, and a budget in each", 200)
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
	return c.print(out, "3 fails one request in ten, WriteError, and budgets", 1000)
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
