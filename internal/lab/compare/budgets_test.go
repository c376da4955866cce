package compare

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	avast "github.com/avast/retry-go/v5"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/retrypolicy"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/limit/adaptive"
)

var budgets = table{
	name:      "budgets",
	libraries: []string{ours, "avast", "failsafe-go"},
	rows: []row{
		{"storm", "1000 calls, one every ms, all fail within 1 ms, 4 attempts are allowed, delays of 1 s: attempts per call",
			said(each(budgeted, attemptsInAStorm), map[string]string{"failsafe-go": "documented: it limits the retries under way at the same time"}), "TestRetryBudgetBoundsTheLoadOfAnOutage"},
		{"slow-storm", "the same, but each failure takes 5 s",
			each(budgeted, attemptsInASlowStorm), "TestAnOutageCostsNoMoreThanTwoPercent"},
		{"collapse", "a service can do 1000 calls a second, and each call that it refuses costs it 0.3 of a call; it gets 900 calls a second, and 1200 for 10 s: what it serves in the ten minutes that begin 30 s later",
			each(budgeted, servedAfterASpike), "TestFleetsOfAnySizeRecoverFromADip"},
		{"refused-when", "a retry is refused: how long the call had slept for it",
			each(budgeted, sleepBeforeARefusal), "TestRetryBudgetRefusesBeforeTheSleepAndKeepsTheError"},
		{"refused-error", "and whether its error matches the operation's failure",
			each(budgeted, errorOfARefusal), "TestRetryBudgetRefusesBeforeTheSleepAndKeepsTheError"},
		{"refill", "nothing has succeeded, and the budget is used up; 10 min later a lone call fails: attempts",
			each(budgeted, attemptsLongAfterAStorm), "TestRareCallersMayRetry"},
	},
}

// A budgetedLoop runs an operation up to 4 times with the given delays, under a
// budget that all calls of the loop share.
type budgetedLoop func(delay, longest time.Duration) (run func(context.Context, operation) error, refused error)

// The budgets are each library's default.
var budgeted = map[string]budgetedLoop{
	ours: func(delay, longest time.Duration) (func(context.Context, operation) error, error) {
		p := backoff.Policy{Budget: new(backoff.RetryBudget), Schedule: backoff.Exponential{Initial: delay, Max: longest},
			Jitter: backoff.UniformJitter(0.5, 1.5)}
		return p.Do, backoff.ErrBudget
	},
	"avast": func(delay, longest time.Duration) (func(context.Context, operation) error, error) {
		r := avast.New(avast.Attempts(4), avast.Delay(delay), avast.MaxDelay(longest),
			avast.WithFixedTokenBucketThrottle(avast.FixedTokenBucketThrottleConfig{}))
		return func(ctx context.Context, op operation) error {
			return r.Do(func() error { return op(ctx) })
		}, avast.ErrThrottled
	},
	"failsafe-go": func(delay, longest time.Duration) (func(context.Context, operation) error, error) {
		b := retrypolicy.NewBuilder[any]().WithMaxAttempts(4).WithDelay(delay).WithJitterFactor(0.5).WithBudget(budget.New())
		if longest > delay {
			b = b.WithBackoff(delay, longest)
		}
		executor := failsafe.With(b.Build())
		return func(ctx context.Context, op operation) error {
			return executor.Run(func() error { return op(ctx) })
		}, budget.ErrExceeded
	},
}

func attemptsInAStorm(t *testing.T, l budgetedLoop) string     { return storm(t, l, time.Millisecond) }
func attemptsInASlowStorm(t *testing.T, l budgetedLoop) string { return storm(t, l, 5*time.Second) }

func storm(t *testing.T, l budgetedLoop, latency time.Duration) string {
	run, _ := l(time.Second, time.Second)
	var attempts atomic.Int64
	together(1000, time.Millisecond, func(int) {
		_ = run(t.Context(), func(context.Context) error {
			attempts.Add(1)
			time.Sleep(latency)
			return errDown
		})
	})
	return fmt.Sprintf("%.1f", float64(attempts.Load())/1000)
}

// together makes calls, each on a goroutine and so long after the one before,
// and waits for all of them.
func together(n int, gap time.Duration, call func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { call(i) })
		time.Sleep(gap)
	}
	all.Wait()
}

// A strained service does 1000 calls a second. To turn one away costs it 0.3 of
// a call.
type strained struct {
	mu     sync.Mutex
	room   float64
	filled time.Time
}

func (s *strained) serve() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.room = min(20, s.room+1000*now.Sub(s.filled).Seconds())
	s.filled = now
	if s.room < 1 {
		s.room = max(0, s.room-0.3)
		return errDown
	}
	s.room--
	return nil
}

func servedAfterASpike(t *testing.T, l budgetedLoop) string {
	run, _ := l(50*time.Millisecond, 200*time.Millisecond)
	service := &strained{filled: time.Now()}
	var all sync.WaitGroup
	var served, asked atomic.Int64
	began := time.Now()
	for time.Since(began) < 650*time.Second {
		at := time.Since(began)
		rate := 900.0
		if at > 10*time.Second && at < 20*time.Second {
			rate = 1200
		}
		time.Sleep(time.Duration(rand.ExpFloat64() / rate * float64(time.Second)))
		all.Go(func() {
			err := run(t.Context(), func(context.Context) error { return service.serve() })
			if at > 50*time.Second {
				asked.Add(1)
				if err == nil {
					served.Add(1)
				}
			}
		})
	}
	all.Wait()
	share := float64(served.Load()) / float64(asked.Load())
	t.Logf("%.3f", share)
	switch {
	case share > 0.997:
		return "more than 99.7 % of the calls"
	case share > 0.95:
		return "more than 95 %"
	}
	return "less than 95 %"
}

// A refusal is what became of a call that its budget did not let retry.
type refusal struct {
	slept time.Duration
	err   error
}

// refusals come of 200 calls at the same time, of which each attempt takes a
// second and fails.
func refusals(t *testing.T, l budgetedLoop) []refusal {
	run, refused := l(time.Second, time.Second)
	var mu sync.Mutex
	var all []refusal
	together(200, 0, func(int) {
		var ended time.Time
		err := run(t.Context(), func(context.Context) error {
			time.Sleep(time.Second)
			ended = time.Now()
			return errDown
		})
		if errors.Is(err, refused) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, refusal{time.Since(ended), err})
		}
	})
	if len(all) == 0 {
		t.Error("nothing was refused")
	}
	return all
}

func sleepBeforeARefusal(t *testing.T, l budgetedLoop) string {
	for _, r := range refusals(t, l) {
		if r.slept > 0 {
			return "the whole delay"
		}
	}
	return "not at all"
}

func errorOfARefusal(t *testing.T, l budgetedLoop) string {
	for _, r := range refusals(t, l) {
		if !errors.Is(r.err, errDown) {
			return "no"
		}
	}
	return "yes"
}

func attemptsLongAfterAStorm(t *testing.T, l budgetedLoop) string {
	run, _ := l(time.Second, time.Second)
	together(200, 0, func(int) { _ = run(t.Context(), failing(new(int))) })
	time.Sleep(10 * time.Minute)
	calls := 0
	_ = run(t.Context(), failing(&calls))
	return fmt.Sprint(calls)
}

var limits = table{
	name:      "limits",
	libraries: []string{ours, "failsafe-go"},
	rows: []row{
		{"slow-overload", "a service does 1000 calls a second, ten at a time; it gets 500, each with a second, and after half a minute 1500; it refuses none, and its queue has no limit: of what it could do then, it does in time",
			each(limiters, servedBySlots), "TestAnAdaptiveLimitServesMoreOfADip"},
	},
}

// A limiter runs calls under the limit of concurrency that a library has without a
// number to set. There are no retries.
type limiter func() func(context.Context, operation) error

var limiters = map[string]limiter{
	ours: func() func(context.Context, operation) error {
		p := backoff.Policy{MaxAttempts: 1, Budget: new(adaptive.Limit)}
		return p.Do
	},
	"failsafe-go": func() func(context.Context, operation) error {
		executor := failsafe.With(adaptivelimiter.NewWithDefaults[any]())
		return func(ctx context.Context, op operation) error {
			return executor.Run(func() error { return op(ctx) })
		}
	},
}

// slots work on ten calls at a time, in the order in which they come. They also
// work for a caller who has gone.
type slots struct {
	mu   sync.Mutex
	free []time.Time // when each is
}

func (s *slots) serve(ctx context.Context) error {
	s.mu.Lock()
	first := 0
	for i := range s.free {
		if s.free[i].Before(s.free[first]) {
			first = i
		}
	}
	now := time.Now()
	if s.free[first].Before(now) {
		s.free[first] = now
	}
	s.free[first] = s.free[first].Add(10 * time.Millisecond)
	wait := s.free[first].Sub(now)
	s.mu.Unlock()
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func servedBySlots(t *testing.T, l limiter) string {
	do, service := l(), slots{free: make([]time.Time, 10)}
	began := time.Now()
	var served atomic.Int64
	var all sync.WaitGroup
	for time.Since(began) < 90*time.Second {
		rate := 1500.0
		if time.Since(began) < 30*time.Second {
			rate = 500
		}
		time.Sleep(time.Duration(rand.ExpFloat64() / rate * float64(time.Second)))
		counts := time.Since(began) > time.Minute
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if do(ctx, service.serve) == nil && counts {
				served.Add(1)
			}
		})
	}
	all.Wait()
	share := float64(served.Load()) / 30_000
	t.Logf("%.3f", share)
	switch {
	case share > 0.85:
		return "at least 85 %"
	case share > 0.5:
		return "most"
	}
	return "under half"
}
