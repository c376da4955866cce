package limit_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/limit"
)

// paced are the limits that space attempts, at 10 a second.
var paced = map[string]func() backoff.Budget{
	"Rate": func() backoff.Budget { return tenPerSecond() },
	"joined": func() backoff.Budget {
		return backoff.JoinBudgets(&limit.Sleeping{}, tenPerSecond(), &limit.Concurrency{})
	},
}

// eachPaced runs a test with each of paced, in virtual time.
func eachPaced(t *testing.T, test func(t *testing.T, b backoff.Budget)) {
	for name, open := range paced {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, open()) })
		})
	}
}

func tenPerSecond() *limit.Rate { return &limit.Rate{Limiter: rate.NewLimiter(10, 1)} }

// A service that is down tells everybody to come back at the same time. Their
// retries have waited for that, and not for the rate.
func TestCallsThatAreToldToComeBackAtTheSameTimeComeBackAtTheRate(t *testing.T) {
	eachPaced(t, func(t *testing.T, b backoff.Budget) {
		const calls = 100
		back := time.Now().Add(time.Minute)
		var mu sync.Mutex
		var arrived []time.Time // of the retries
		p := backoff.Policy{Budget: b, MaxAttempts: 2, Jitter: backoff.NoJitter}
		done := make(chan error, calls)
		for range calls {
			go func() {
				tries := 0
				done <- p.Do(t.Context(), func(context.Context) error {
					if tries++; tries == 1 {
						return backoff.RetryExactlyAfter(errCut, time.Until(back))
					}
					mu.Lock()
					arrived = append(arrived, time.Now())
					mu.Unlock()
					time.Sleep(time.Second) // the next ones come while it is under way
					return nil
				})
			}()
			time.Sleep(200 * time.Millisecond)
		}
		for range calls {
			require.NoError(t, <-done)
		}
		require.Len(t, arrived, calls)
		require.Equal(t, back, arrived[0])
		for i, at := range arrived[1:] {
			require.InDelta(t, 100*time.Millisecond, at.Sub(arrived[i]), float64(time.Microsecond))
		}
	})
}

// Nobody else waits for the token of a retry that waits for its own reasons.
func TestARetryTakesNoTokenBeforeItsBackoffIsOver(t *testing.T) {
	eachPaced(t, func(t *testing.T, b backoff.Budget) {
		var waiting []backoff.Ticket
		for range 100 {
			ticket, wait, ok := b.Reserve(backoff.Attempt{Number: 2, Wait: time.Minute})
			require.True(t, ok)
			require.Zero(t, wait)
			waiting = append(waiting, ticket)
		}
		got, _ := reserve(t, b, 2)
		require.Equal(t, seconds(0, 0.1), got)
		giveBack(b, waiting...)

		_, wait, _ := b.Reserve(backoff.Attempt{Number: 2, Wait: 200 * time.Millisecond})
		require.Equal(t, 200*time.Millisecond, wait, "in the line, as the line is as long as the backoff")
		got, _ = reserve(t, b, 1)
		require.Equal(t, seconds(0.3), got)
	})
}

func TestARetryThatThePaceWouldKeepTooLongEndsAtOnceAndGivesTheTokenBack(t *testing.T) {
	eachPaced(t, func(t *testing.T, b backoff.Budget) {
		p := backoff.Policy{Budget: b, Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter, MaxElapsed: 1500 * time.Millisecond}
		time.AfterFunc(time.Second-time.Nanosecond, func() { reserve(t, b, 9) }) // 0.9 s of line
		began := time.Now()
		err := p.Do(t.Context(), failing)
		var gave *backoff.Error
		require.ErrorAs(t, err, &gave)
		require.Equal(t, backoff.ReasonElapsed, gave.Reason)
		require.ErrorIs(t, err, errCut)
		require.Equal(t, time.Second, time.Since(began))
		got, _ := reserve(t, b, 1)
		require.InDelta(t, 900*time.Millisecond, got[0], 10)
	})
}

func TestARetryCancelledWhileItKeepsThePaceGivesTheTokenBack(t *testing.T) {
	eachPaced(t, func(t *testing.T, b backoff.Budget) {
		ctx, cancel := context.WithCancel(t.Context())
		p := backoff.Policy{Budget: b, Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter}
		time.AfterFunc(time.Second-time.Nanosecond, func() { reserve(t, b, 9) })
		time.AfterFunc(1500*time.Millisecond, cancel)
		require.ErrorIs(t, p.Do(ctx, failing), context.Canceled)
		got, _ := reserve(t, b, 1)
		require.InDelta(t, 400*time.Millisecond, got[0], 10)
	})
}

func TestARetryEndsWhereTheLimiterWasShutDuringItsBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := tenPerSecond()
		p := backoff.Policy{Budget: backoff.JoinBudgets(new(limit.Sleeping), b), Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter}
		time.AfterFunc(500*time.Millisecond, func() {
			b.Limiter.SetLimit(0)
			b.Limiter.Allow()
		})
		err := p.Do(t.Context(), failing)
		require.ErrorIs(t, err, backoff.ErrBudget)
		require.ErrorIs(t, err, errCut)
		b.Limiter.SetLimit(10)
		got, _ := reserve(t, b, 1)
		require.Equal(t, seconds(0.1), got, "and owes nothing")
	})
}

// A caller with a loop of its own may sleep itself, and never ask. Its retries
// are paid for when they have been made.
func TestARetryThatDidNotKeepThePaceIsPaidForAfterwards(t *testing.T) {
	eachPaced(t, func(t *testing.T, b backoff.Budget) {
		p := backoff.Policy{Budget: b, MaxAttempts: -1, Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter}
		for range 5 { // at the same time
			r := p.Start(t.Context())
			_, _ = r.Admit()
			_, ok := r.Retry(errCut)
			require.True(t, ok)
			defer r.Retry(nil)
			time.AfterFunc(time.Second, func() { r.Retry(errCut) })
		}
		time.Sleep(time.Second)
		synctest.Wait()
		got, _ := reserve(t, b, 1)
		require.Equal(t, seconds(0.5), got)
	})
}

func TestARetryThatDidNotKeepThePaceIsPaidForAtItsOwnCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for told, want := range map[int]time.Duration{0: 500 * time.Millisecond, 3: 500 * time.Millisecond, 7: 700 * time.Millisecond} {
			b := &limit.Rate{Limiter: rate.NewLimiter(10, 10)}
			ticket, _, ok := b.Reserve(backoff.Attempt{Number: 2, Cost: 5, Wait: time.Minute})
			require.True(t, ok)
			b.Limiter.AllowN(time.Now(), 9) // the tenth is for the last one in the line
			b.Done(ticket, backoff.Result{Cost: told})
			got, _ := reserve(t, b, 1)
			require.Equal(t, want, got[0], "a cost of 5, and of %d in the end", told)
		}
	})
}

func TestPaceAnswersHowMuchOfTheWaitForATokenIsLeft(t *testing.T) {
	eachPaced(t, func(t *testing.T, b backoff.Budget) {
		left := func(ticket backoff.Ticket) time.Duration {
			same, wait, ok := b.Pace(ticket)
			require.True(t, ok)
			require.Equal(t, ticket, same)
			return wait
		}
		_, tickets := reserve(t, b, 3)
		for _, ticket := range []backoff.Ticket{tickets[0], {}, {Word: 99}} {
			require.Zero(t, left(ticket), "it has its token, or needs none")
		}
		for _, want := range seconds(0.2, 0.15, 0.1, 0.05, 0, 0) {
			require.Equal(t, want, left(tickets[2]))
			time.Sleep(50 * time.Millisecond)
		}
	})
}
