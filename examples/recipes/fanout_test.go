package recipes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backofftest"
)

var shards = backoff.Policy{Name: "shard", Budget: &backoff.RetryBudget{}, Schedule: backoff.Constant(time.Millisecond)}

// An allowance is how many retries one request has for all of its shards.
type allowance struct {
	backoff.BudgetDefaults
	left atomic.Int64
}

func (l *allowance) Reserve(a backoff.Attempt) (t backoff.Ticket, wait time.Duration, ok bool) {
	return t, 0, a.First() && !a.Hedge || l.left.Add(-1) >= 0
}

func search(ctx context.Context, shard []func(context.Context) error) {
	retries := new(allowance)
	retries.left.Store(8)
	policy := shards // a copy, for this request
	policy.Budget = backoff.JoinBudgets(shards.Budget, retries)

	var all sync.WaitGroup
	for _, query := range shard {
		all.Go(func() { policy.Do(ctx, query) })
	}
	all.Wait()
}

// The budget of the shards has been paid by a thousand good calls. Then all
// shards of one request fail. It makes 8 retries, and not 96.
func Example_fanOut() {
	ctx := context.Background()
	for range 1000 {
		shards.Do(ctx, func(context.Context) error { return nil })
	}
	var calls atomic.Int64
	down := func(context.Context) error {
		calls.Add(1)
		return errors.New("down")
	}
	request := make([]func(context.Context) error, 32)
	for i := range request {
		request[i] = down
	}

	search(ctx, request)

	fmt.Println(calls.Load()-32, "retries")
	// Output: 8 retries
}

func TestAnAllowanceIsABudget(t *testing.T) {
	backofftest.Budget(t, func() backoff.Budget {
		a := new(allowance)
		a.left.Store(8)
		return a
	})
}
