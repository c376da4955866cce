package limit_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
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
	} {
		t.Run(name, func(t *testing.T) { backofftest.Budget(t, open) })
	}
}

// together makes attempts on 64 goroutines, of which one in four is not sent
// and the others are throttled. It returns how many the budget let go and how
// many it refused.
func together(b backoff.Budget) (sent, refused uint64) {
	var counts [2]atomic.Uint64
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for i := range 200 {
				ticket, _, ok := b.Reserve(firstAttempt)
				switch {
				case !ok:
					counts[1].Add(1)
				case i%4 == 0:
					giveBack(b, ticket, ticket) // which counts once
				default:
					counts[0].Add(1)
					b.Done(ticket, backoff.Result{Outcome: backoff.OutcomeThrottled})
				}
			}
		})
	}
	all.Wait()
	return counts[0].Load(), counts[1].Load()
}

func TestLimitsKeepTheirCountOnManyGoroutines(t *testing.T) {
	const burst = 20_000
	limiter := rate.NewLimiter(1e-9, burst)
	sent, refused := together(&limit.Rate{Limiter: limiter})
	require.Zero(t, refused)
	require.InDelta(t, burst-float64(sent), limiter.Tokens(), 1e-3)

	throttle := new(limit.Throttle)
	sent, refused = together(throttle)
	require.NotZero(t, refused)
	require.Equal(t, sent+refused, throttle.Stats().Requests)
}

// An invalid limit stays invalid: no loop around the call tries again.
func TestAnInvalidLimitIsAPermanentErrorBeforeAnyAttempt(t *testing.T) {
	for want, b := range map[string]backoff.Budget{
		"Rate.Limiter is nil":              new(limit.Rate),
		"Throttle.K is -1, want 1 or more": &limit.Throttle{K: -1},
		"Rate is nil":                      (*limit.Rate)(nil),
		"Throttle is nil":                  (*limit.Throttle)(nil),
		"Concurrency is nil":               (*limit.Concurrency)(nil),
	} {
		for _, b := range []backoff.Budget{b, backoff.JoinBudgets(new(backoff.RetryBudget), b)} {
			err := backoff.Policy{Budget: b}.Do(t.Context(), func(context.Context) error { panic("called") })
			require.EqualError(t, err, "backoff: limit."+want)
			require.Equal(t, backoff.ClassPermanent, backoff.DefaultClassifier(err), "%v", err)
		}
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

func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
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
