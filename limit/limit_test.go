package limit_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backofftest"
	"github.com/gobackoff/backoff/limit"
)

// Every limit passes the tests that backofftest has for Budgets.
func TestLimitsKeepTheContractOfABudget(t *testing.T) {
	for name, open := range map[string]func() backoff.Budget{
		"Rate":        func() backoff.Budget { return &limit.Rate{Limiter: rate.NewLimiter(10, 10)} },
		"Throttle":    func() backoff.Budget { return new(limit.Throttle) },
		"Concurrency": func() backoff.Budget { return new(limit.Concurrency) },
		"Sleeping":    func() backoff.Budget { return new(limit.Sleeping) },
	} {
		t.Run(name, func(t *testing.T) { backofftest.Budget(t, open) })
	}
}

// An invalid limit stays invalid: no loop around the call tries again.
func TestAnInvalidLimitIsAPermanentError(t *testing.T) {
	for _, b := range []backoff.Budget{
		new(limit.Rate), &limit.Throttle{K: -1},
	} {
		err := (&backoff.Policy{Budget: b}).Validate()
		require.Error(t, err)
		require.Equal(t, backoff.ClassPermanent, backoff.DefaultClassifier(err), "%v", err)
	}
}

// reserve asks a budget for n attempts, one after the other, at the present
// time.
func reserve(t *testing.T, b backoff.Budget, n int) (waits []time.Duration, tickets []backoff.Ticket) {
	t.Helper()
	for range n {
		ticket, wait, ok := b.Reserve(backoff.Attempt{Number: 1})
		require.True(t, ok)
		waits, tickets = append(waits, wait), append(tickets, ticket)
	}
	return waits, tickets
}

func seconds(all ...float64) []time.Duration {
	var d []time.Duration
	for _, s := range all {
		d = append(d, time.Duration(math.Round(s*1e9)))
	}
	return d
}

func giveBack(b backoff.Budget, tickets ...backoff.Ticket) {
	for _, ticket := range tickets {
		b.Done(ticket, backoff.Result{Outcome: backoff.OutcomeNotSent})
	}
}

// seeded draws the same numbers in every run.
func seeded(seed uint64) func() float64 {
	return rand.New(rand.NewPCG(seed, 1)).Float64
}

func fixed(u float64) func() float64 { return func() float64 { return u } }

var (
	errCut = errors.New("connection cut")

	firstAttempt = backoff.Attempt{Number: 1}
	aRetry       = backoff.Attempt{Number: 2}
)

func failing(context.Context) error { return errCut }

// hold waits for d, or for the end of ctx.
func hold(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
