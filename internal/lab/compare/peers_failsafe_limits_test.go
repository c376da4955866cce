package compare

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/hedge"
	"github.com/gobackoff/backoff/limit"
)

// Here a rate limit and a bulkhead are budgets.
var failsafeLimits = []promise{
	{test: "test/ratelimiter_test.go TestRateLimiter", name: "a call over the rate waits for its token", holds: underRate(time.Minute, 3*time.Second, true)},
	{test: "test/ratelimiter_test.go TestRateLimiter", name: "a call with less time than its token takes ends at once", holds: underRate(2*time.Second, 0, false)},
	{test: "test/ratelimiter_test.go TestRateLimiter", name: "a call without a deadline waits for its token as long as that takes", holds: underRate(0, 3*time.Second, true),
		theirs: "a call that would have to wait is refused, unless it says for how long it may", why: "the deadline of the call says it"},
	{test: "test/cancellation_test.go TestRateLimit_Cancellation", name: "a call that waits for its token ends with its caller, and makes no attempt", holds: cancelledAtALimit(oneToken)},
	{test: "test/policy_composition_test.go TestRetryPolicy_Composition", name: "retries take tokens of the rate like first attempts", holds: func(t *testing.T) {
		policy, n, began := steady(6), 0, time.Now()
		policy.Schedule, policy.Budget = backoff.Constant(0), &limit.Rate{Limiter: rate.NewLimiter(rate.Every(3*time.Second), 2)}
		_ = policy.Do(t.Context(), failing(&n))
		require.Equal(t, 6, n)
		require.Equal(t, 12*time.Second, time.Since(began))
	}, theirs: "an attempt without a token fails, and counts", why: "an attempt that was not made tells the call nothing"},
	{test: "test/bulkhead_test.go TestBulkHead", name: "a call finds a free place", holds: atABulkhead(1, 0, nil, true)},
	{test: "test/bulkhead_test.go TestBulkHead", name: "a call that finds no place is refused at once", holds: atABulkhead(2, 0, backoff.ErrBudget, false)},
	{test: "test/bulkhead_test.go TestBulkHead", name: "a place is free again after a call that fails", holds: func(t *testing.T) {
		places, policy := &limit.Concurrency{Max: 1}, steady(1)
		policy.Budget = places
		_ = policy.Do(t.Context(), func(context.Context) error {
			require.Equal(t, 1, places.Load())
			return errDown
		})
		require.Zero(t, places.Load())
	}},
	{test: "test/bulkhead_test.go TestBulkHead", name: "in a Service a call waits for a place", holds: atAService(time.Minute, nil)},
	{test: "test/bulkhead_test.go TestBulkHead", name: "in a Service a call waits for a place until its deadline, and no longer", holds: atAService(5*time.Second, backoff.ErrBudget)},
	{test: "test/cancellation_test.go TestBulkhead_Cancellation", name: "a call that waits for a place ends with its caller, and makes no attempt", holds: cancelledAtAService},
	{test: "test/policy_composition_test.go TestRetryPolicy_Composition", name: "a call that finds no place makes no attempt, and is not tried again", holds: atABulkhead(2, time.Second, backoff.ErrBudget, false),
		theirs: "it is tried again, with all its attempts", why: "a bulkhead is to say no at once; in a `guard.Service` the call waits"},
	{test: "failsafehttp/client_test.go TestClientBulkhead", name: "a client whose bulkhead is full sends nothing", holds: func(t *testing.T) {
		s, places := serve(t, hangs, says(200, "")), &limit.Concurrency{Max: 1}
		client := s.client(func(tr *backoffhttp.Transport) { tr.Policy.Budget, tr.FailFast = places, true })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := client.Do(request(ctx, "GET", nil))
			done <- err
		}()
		synctest.Wait()
		_, err := client.Do(request(t.Context(), "GET", nil))
		require.ErrorIs(t, err, backoff.ErrBudget)
		require.Len(t, s.requests(), 1)
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		require.Zero(t, places.Load())
	}},
}

// oneToken returns a rate of one attempt in 3 s whose token has been taken.
func oneToken() backoff.Budget {
	limiter := rate.NewLimiter(rate.Every(3*time.Second), 1)
	limiter.Allow()
	return &limit.Rate{Limiter: limiter}
}

// underRate makes a call with so much time, which ends after so long.
func underRate(left, took time.Duration, made bool) func(*testing.T) {
	return func(t *testing.T) {
		ctx := t.Context()
		if left > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, left)
			defer cancel()
		}
		policy, n, began := steady(1), 0, time.Now()
		policy.Budget = oneToken()
		err := policy.Do(ctx, func(context.Context) error { n++; return nil })
		require.Equal(t, made, err == nil)
		require.Equal(t, made, n == 1)
		require.Equal(t, took, time.Since(began))
	}
}

// cancelledAtALimit cancels a call that waits, before its first attempt.
func cancelledAtALimit(budget func() backoff.Budget) func(*testing.T) {
	return func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		policy, n, began := steady(4), 0, time.Now()
		policy.Budget = budget()
		err := policy.Do(ctx, failing(&n))
		require.ErrorIs(t, err, context.Canceled)
		require.Zero(t, n)
		require.Equal(t, time.Second, time.Since(began))
	}
}

// atABulkhead makes a call to a bulkhead of two places, of which some are taken.
func atABulkhead(taken int, delay time.Duration, want error, made bool) func(*testing.T) {
	return func(t *testing.T) {
		policy, n := steady(4), 0
		policy.Schedule, policy.Budget = backoff.Constant(delay), &limit.Concurrency{Max: 2}
		for range taken {
			go func() {
				_ = policy.Do(t.Context(), func(context.Context) error { time.Sleep(time.Minute); return nil })
			}()
		}
		synctest.Wait()
		began := time.Now()
		require.ErrorIs(t, policy.Do(t.Context(), func(context.Context) error { n++; return nil }), want)
		require.Equal(t, made, n == 1)
		require.Zero(t, time.Since(began))
		time.Sleep(time.Hour)
	}
}

// fullService returns a service whose only place is taken for half a minute.
func fullService(t *testing.T) *guard.Service {
	s := &guard.Service{Budget: &limit.Concurrency{Max: 1}}
	go func() {
		_ = s.Do(t.Context(), steady(1), func(context.Context) error { time.Sleep(30 * time.Second); return nil })
	}()
	synctest.Wait()
	return s
}

func atAService(left time.Duration, want error) func(*testing.T) {
	return func(t *testing.T) {
		s := fullService(t)
		ctx, cancel := context.WithTimeout(t.Context(), left)
		defer cancel()
		began := time.Now()
		require.ErrorIs(t, s.Do(ctx, steady(4), func(context.Context) error { return nil }), want)
		require.LessOrEqual(t, time.Since(began), min(left, 32*time.Second))
		time.Sleep(time.Hour)
	}
}

func cancelledAtAService(t *testing.T) {
	s, n := fullService(t), 0
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Second, cancel)
	began := time.Now()
	require.ErrorIs(t, s.Do(ctx, steady(4), failing(&n)), context.Canceled)
	require.Equal(t, time.Second, time.Since(began))
	require.Zero(t, n)
	time.Sleep(time.Hour)
}

// Hedges of a function.
var failsafeHedged = []promise{
	{test: "test/hedgepolicy_test.go TestHedgePolicy", name: "a call that is quick enough is sent once", holds: hedgedCall(1, 5*time.Second, 1, 0, time.Second)},
	{test: "test/hedgepolicy_test.go TestHedgePolicy", name: "a slow call is sent again, as often as the hedge says", holds: hedgedCall(3, time.Second, 3, 0, 10*time.Second, time.Minute)},
	{test: "test/hedgepolicy_test.go TestHedgePolicy", name: "the first result counts, whichever attempt has it", holds: hedgedCall(3, time.Second, 3, 2, time.Minute, time.Minute, time.Second)},
	{test: "test/hedgepolicy_test.go TestHedgePolicy", name: "all attempts may be sent at once", holds: hedgedCall(3, -1, 3, 1, time.Minute, time.Second, time.Minute)},
	{test: "test/hedgepolicy_test.go TestHedgePolicy", name: "no hedge is sent before the usual latency is known", holds: measured(20, false)},
	{test: "test/hedgepolicy_test.go TestHedgePolicy", name: "a call slower than usual is hedged", holds: measured(200, true)},
	{test: "test/hedgepolicy_test.go TestHedgePolicy", name: "a failure does not end a call whose other attempt may succeed", holds: func(t *testing.T) {
		h := &hedge.Hedge{Delay: time.Second, MaxAttempts: 2, MaxExtraLoad: -1}
		n, err := hedge.Value(t.Context(), h, func(ctx context.Context) (int, error) {
			if hedge.Number(ctx) == 1 {
				return 0, errDown
			}
			time.Sleep(5 * time.Second)
			return 7, nil
		}, nil)
		require.NoError(t, err)
		require.Equal(t, 7, n)
	}, theirs: "the first result ends the call, also if it is an error, unless a condition says otherwise", why: "a hedge is sent to have a success sooner"},
}

// hedgedCall makes a call whose attempts take so long, the last time again and
// again, and holds if so many are sent and that one wins.
func hedgedCall(most int, delay time.Duration, attempts, winner int, takes ...time.Duration) func(*testing.T) {
	return func(t *testing.T) {
		h := &hedge.Hedge{Delay: delay, MaxAttempts: most, MaxExtraLoad: -1}
		sent := make(chan int, 9)
		won, err := hedge.Value(t.Context(), h, func(ctx context.Context) (int, error) {
			n := hedge.Number(ctx)
			sent <- n
			return n, ignoreDown(asleep(ctx, takes[min(n, len(takes)-1)]))
		}, nil)
		require.NoError(t, err)
		require.Equal(t, winner, won)
		require.Len(t, sent, attempts)
		time.Sleep(time.Hour)
	}
}

// ignoreDown is for an operation that only takes its time.
func ignoreDown(err error) error {
	if err == errDown {
		return nil
	}
	return err
}

// measured makes quick calls, and then a slow one, which is hedged or not.
func measured(calls int, hedged bool) func(*testing.T) {
	return func(t *testing.T) {
		h, seen := new(hedge.Hedge), 0
		call := func(d time.Duration) {
			_, err := hedge.Value(t.Context(), h, func(ctx context.Context) (int, error) {
				if hedge.Number(ctx) > 0 {
					seen++
					return 1, nil
				}
				return 0, ignoreDown(asleep(ctx, d))
			}, nil)
			require.NoError(t, err)
		}
		for range calls {
			call(5 * time.Millisecond)
		}
		require.Zero(t, seen)
		call(time.Second)
		require.Equal(t, hedged, seen == 1)
	}
}
