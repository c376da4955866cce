package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/examples/internal/traffic"
)

const (
	callers   = 10
	perSecond = 5 // calls of each caller
	healthy   = 1 // the seconds in which the server works
	calling   = 6 // the seconds in which the callers call
	seconds   = 7 // of the picture, in which the last calls end
)

// byHand is the loop that one finds everywhere: four attempts, and waits that
// double.
func byHand(ctx context.Context, op func(context.Context) error) error {
	wait := 100 * time.Millisecond
	for attempt := 1; ; attempt++ {
		err := op(ctx)
		if err == nil || attempt == 4 {
			return err
		}
		time.Sleep(wait)
		wait *= 2
	}
}

// guarded makes four attempts, too. Its retries are paid for by successes, and
// its calls end at once while the circuit is open.
func guarded() backoff.Doer {
	return backoff.Stack(
		&backoff.Breaker{Name: "server"},
		backoff.Policy{Name: "get", Budget: new(backoff.RetryBudget)},
	)
}

// outage makes the same calls by hand and guarded. It calls down after a
// second. Then op should fail. It prints a picture of both, a line each second.
func outage(ctx context.Context, out io.Writer, op func(context.Context) error, down func()) error {
	loop, library := lane{do: byHand}, lane{do: guarded().Do}
	fmt.Fprintf(out, "Ten callers make %d calls a second in all, each of them twice: with a loop of\n", callers*perSecond)
	fmt.Fprintf(out, "4 attempts, and with a Policy that has a RetryBudget, inside a Breaker.\nAttempts per second:\n\n")
	fmt.Fprintln(out, heading)

	began := time.Now()
	var all sync.WaitGroup
	defer all.Wait()
	until, cancel := context.WithDeadline(ctx, began.Add(sampled(calling)))
	defer cancel()
	all.Go(func() {
		traffic.Steady(until, callers*perSecond, func() {
			all.Go(func() { loop.call(ctx, op) })
			library.call(ctx, op)
		})
	})
	var before [2]counts
	for second := 1; second <= seconds; second++ {
		select {
		case <-time.After(time.Until(began.Add(sampled(second)))):
		case <-ctx.Done():
			return ctx.Err()
		}
		now := [2]counts{loop.counts(), library.counts()}
		fmt.Fprintln(out, row{second, now[0].minus(before[0]), now[1].minus(before[1])}.line())
		before = now
		if second == healthy {
			down()
			fmt.Fprintln(out, "      the server goes down for good: every response is a 503")
		}
	}
	all.Wait()
	_, err := fmt.Fprintf(out, "\n%s", summary(loop.counts(), library.counts()))
	return err
}

// sampled is when the picture looks, between two calls.
func sampled(second int) time.Duration {
	return time.Duration(second)*time.Second + time.Second/(2*callers*perSecond)
}

// A lane is one way to make calls. It counts what becomes of them.
type lane struct {
	do func(context.Context, func(context.Context) error) error

	calls, attempts, successes, noBudget, open atomic.Int64
}

func (l *lane) call(ctx context.Context, op func(context.Context) error) {
	l.calls.Add(1)
	err := l.do(ctx, func(ctx context.Context) error {
		l.attempts.Add(1)
		return op(ctx)
	})
	switch {
	case err == nil:
		l.successes.Add(1)
	case errors.Is(err, backoff.ErrBudget):
		l.noBudget.Add(1)
	case errors.Is(err, backoff.ErrOpen):
		l.open.Add(1)
	}
}

func (l *lane) counts() counts {
	return counts{
		calls:     int(l.calls.Load()),
		attempts:  int(l.attempts.Load()),
		successes: int(l.successes.Load()),
		noBudget:  int(l.noBudget.Load()),
		open:      int(l.open.Load()),
	}
}

// counts are the calls and attempts of a lane: how many succeeded, how many
// ended because the budget refused a retry, and how many the breaker refused.
type counts struct{ calls, attempts, successes, noBudget, open int }

func (c counts) minus(o counts) counts {
	return counts{c.calls - o.calls, c.attempts - o.attempts, c.successes - o.successes, c.noBudget - o.noBudget, c.open - o.open}
}
