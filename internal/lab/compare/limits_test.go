package compare

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/adaptivelimiter"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/limit"
)

var limits = table{
	name:      "limits",
	libraries: []string{ours, "failsafe-go"},
	rows: []row{
		{"slow-overload", "a service does 1000 calls a second, ten at a time, and gets 1500, each with a second; it refuses none, and its queue has no limit: of what it could do, it does in time",
			with(each(limiters, servedBySlots), map[string]observation{
				ours: or(virtual(servedUnder(limiters[ours])), virtual(servedUnder(withConcurrency)), "limit.Concurrency{Max: 20}"),
			}), "TestConcurrencyLetsAtMostMaxAttemptsBeUnderWay"},
	},
}

// A limiter runs calls under what a library has against too many of them.
type limiter func() func(context.Context, operation) error

var limiters = map[string]limiter{
	ours: func() func(context.Context, operation) error {
		return new(guard.Service).With(backoff.Policy{}).Do
	},
	"failsafe-go": func() func(context.Context, operation) error {
		executor := failsafe.With(adaptivelimiter.NewWithDefaults[any]())
		return func(ctx context.Context, op operation) error {
			return executor.Run(func() error { return op(ctx) })
		}
	},
}

// withConcurrency has a limit that somebody has to know.
func withConcurrency() func(context.Context, operation) error {
	return new(guard.Service).With(backoff.Policy{Budget: &limit.Concurrency{Max: 20}}).Do
}

func servedUnder(l limiter) observation {
	return func(t *testing.T) string { return servedBySlots(t, l) }
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
	for time.Since(began) < time.Minute {
		time.Sleep(time.Duration(rand.ExpFloat64() / 1500 * float64(time.Second)))
		counts := time.Since(began) > 30*time.Second
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if do(ctx, service.serve) == nil && counts {
				served.Add(1)
			}
		})
	}
	all.Wait()
	switch share := float64(served.Load()) / 30_000; {
	case share > 0.9:
		return "nearly all"
	case share > 0.5:
		return "most"
	}
	return "under half"
}
