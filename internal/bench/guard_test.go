package bench

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/hedgepolicy"
	"github.com/sony/gobreaker/v2"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/fleet"
)

// local is a counter of the processor's own: the least that a success can write where
// many processors count.
type local struct {
	cells []paddedCount
	pool  sync.Pool
}

type paddedCount struct {
	n atomic.Int64
	_ [56]byte
}

func newLocal() *local {
	l := &local{cells: make([]paddedCount, runtime.GOMAXPROCS(0))}
	var next atomic.Int64
	l.pool.New = func() any { return &l.cells[int(next.Add(1))%len(l.cells)] }
	return l
}

func (l *local) add() {
	c := l.pool.Get().(*paddedCount)
	c.n.Add(1)
	l.pool.Put(c)
}

// BenchmarkBudgetSuccess is what a success costs its budget: minimal adds to a counter
// of the processor's own.
func BenchmarkBudgetSuccess(b *testing.B) {
	b.Run("minimal", func(b *testing.B) {
		b.ReportAllocs()
		l := newLocal()
		for b.Loop() {
			l.add()
		}
	})
	b.Run("backoff", func(b *testing.B) {
		b.ReportAllocs()
		var budget backoff.RetryBudget
		for b.Loop() {
			t, _, _ := budget.Reserve(backoff.Attempt{Number: 1})
			budget.Done(t, backoff.OutcomeSuccess)
		}
	})
}

// BenchmarkBudgetSuccessParallel is the same on all processors at once.
func BenchmarkBudgetSuccessParallel(b *testing.B) {
	b.Run("minimal", func(b *testing.B) {
		b.ReportAllocs()
		l := newLocal()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				l.add()
			}
		})
	})
	b.Run("backoff", func(b *testing.B) {
		b.ReportAllocs()
		var budget backoff.RetryBudget
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				t, _, _ := budget.Reserve(backoff.Attempt{Number: 1})
				budget.Done(t, backoff.OutcomeSuccess)
			}
		})
	})
}

// twoSided is a budget with a lock per side, and a window of one bucket.
type twoSided struct {
	mu     sync.Mutex
	tokens int
}

func (s *twoSided) deposit() {
	s.mu.Lock()
	s.tokens = min(s.tokens+2, 1000)
	s.mu.Unlock()
}

func (s *twoSided) withdraw(time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tokens < 1 {
		return false
	}
	s.tokens--
	return true
}

// BenchmarkBudgetBothSides is a success and a retry that it pays for.
func BenchmarkBudgetBothSides(b *testing.B) {
	now := time.Now()
	retry := backoff.Attempt{Number: 2, Kind: backoff.KindRetry, Now: now}
	b.Run("minimal", func(b *testing.B) {
		b.ReportAllocs()
		var s twoSided
		for b.Loop() {
			s.deposit()
			if !s.withdraw(now) {
				b.Fatal("refused")
			}
		}
	})
	b.Run("backoff", func(b *testing.B) {
		b.ReportAllocs()
		budget := &backoff.RetryBudget{Ratio: 2}
		for b.Loop() {
			budget.Done(backoff.Ticket{}, backoff.OutcomeSuccess)
			if _, _, ok := budget.Reserve(retry); !ok {
				b.Fatal("refused")
			}
		}
	})
}

// BenchmarkBudgetBothSidesParallel is the same on all processors at once.
func BenchmarkBudgetBothSidesParallel(b *testing.B) {
	now := time.Now()
	retry := backoff.Attempt{Number: 2, Kind: backoff.KindRetry, Now: now}
	b.Run("minimal", func(b *testing.B) {
		b.ReportAllocs()
		var s twoSided
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				s.deposit()
				s.withdraw(now)
			}
		})
	})
	b.Run("backoff", func(b *testing.B) {
		b.ReportAllocs()
		budget := &backoff.RetryBudget{Ratio: 2}
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				budget.Done(backoff.Ticket{}, backoff.OutcomeSuccess)
				budget.Reserve(retry)
			}
		})
	})
}

// counted is the minimal breaker: a word to look at, and one to add to.
type counted struct {
	open atomic.Bool
	good atomic.Int64
}

var errOpen = errors.New("open")

//go:noinline
func (c *counted) do(ctx context.Context, op func(context.Context) error) error {
	if c.open.Load() {
		return errOpen
	}
	err := op(ctx)
	if err == nil {
		c.good.Add(1)
	}
	return err
}

// BenchmarkBreakerClosed is a success through a closed breaker.
func BenchmarkBreakerClosed(b *testing.B) {
	b.Run("minimal", func(b *testing.B) {
		ctx := start(b)
		var c counted
		for b.Loop() {
			must(b, c.do(ctx, succeed))
		}
		expect(b, calls, 1)
	})
	b.Run("backoff", func(b *testing.B) {
		ctx := start(b)
		var breaker backoff.Breaker
		for b.Loop() {
			must(b, breaker.Do(ctx, succeed))
		}
		expect(b, calls, 1)
	})
	b.Run("gobreaker", func(b *testing.B) {
		ctx := start(b)
		breaker := gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{})
		for b.Loop() {
			_, err := breaker.Execute(func() (struct{}, error) { return struct{}{}, succeed(ctx) })
			must(b, err)
		}
		expect(b, calls, 1)
	})
	b.Run("failsafe", func(b *testing.B) {
		ctx := start(b)
		executor := failsafe.With(circuitbreaker.NewWithDefaults[any]())
		for b.Loop() {
			must(b, executor.Run(func() error { return succeed(ctx) }))
		}
		expect(b, calls, 1)
	})
}

// BenchmarkBreakerClosedParallel counts by operations that share nothing; minimal adds
// to a counter of the processor's own.
func BenchmarkBreakerClosedParallel(b *testing.B) {
	quiet := func(context.Context) error { return nil }
	b.Run("minimal", func(b *testing.B) {
		ctx := start(b)
		l := newLocal()
		var open atomic.Bool
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if !open.Load() && quiet(ctx) == nil {
					l.add()
				}
			}
		})
	})
	b.Run("backoff", func(b *testing.B) {
		ctx := start(b)
		var breaker backoff.Breaker
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if breaker.Do(ctx, quiet) != nil {
					b.Error("failed")
				}
			}
		})
	})
	b.Run("gobreaker", func(b *testing.B) {
		ctx := start(b)
		breaker := gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{})
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := breaker.Execute(func() (struct{}, error) { return struct{}{}, quiet(ctx) }); err != nil {
					b.Error(err)
				}
			}
		})
	})
}

// BenchmarkBreakerOpen is a refusal.
func BenchmarkBreakerOpen(b *testing.B) {
	b.Run("minimal", func(b *testing.B) {
		ctx := start(b)
		var c counted
		c.open.Store(true)
		for b.Loop() {
			mustNot(b, c.do(ctx, succeed))
		}
		expect(b, calls, 0)
	})
	b.Run("backoff", func(b *testing.B) {
		ctx := start(b)
		var breaker backoff.Breaker
		breaker.Force(backoff.ModeForcedOpen)
		for b.Loop() {
			mustNot(b, breaker.Do(ctx, succeed))
		}
		expect(b, calls, 0)
	})
	b.Run("gobreaker", func(b *testing.B) {
		ctx := start(b)
		breaker := gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{ReadyToTrip: func(gobreaker.Counts) bool { return true }})
		_, _ = breaker.Execute(func() (struct{}, error) { return struct{}{}, errDown })
		for b.Loop() {
			_, err := breaker.Execute(func() (struct{}, error) { return struct{}{}, succeed(ctx) })
			mustNot(b, err)
		}
		expect(b, calls, 0)
	})
}

// all is the minimal stack: a breaker that counts, a look at the context, a budget
// that has a look at itself.
type all struct {
	breaker counted
	tokens  atomic.Int64
}

//go:noinline
func (s *all) do(ctx context.Context, op func(context.Context) error) error {
	if s.breaker.open.Load() {
		return errOpen
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	err := op(ctx)
	if err == nil {
		s.breaker.good.Add(1)
		if s.tokens.Load() < 0 {
			s.tokens.Add(1)
		}
	}
	return err
}

// BenchmarkStack is a success through breaker, budget and policy.
func BenchmarkStack(b *testing.B) {
	b.Run("minimal", func(b *testing.B) {
		ctx := start(b)
		var s all
		for b.Loop() {
			must(b, s.do(ctx, succeed))
		}
		expect(b, calls, 1)
	})
	b.Run("backoff", func(b *testing.B) {
		ctx := start(b)
		s := backoff.Stack(&backoff.Breaker{}, &backoff.Policy{Budget: &backoff.RetryBudget{}})
		for b.Loop() {
			must(b, s.Do(ctx, succeed))
		}
		expect(b, calls, 1)
	})
}

// BenchmarkHedge is a fast call that is not hedged.
func BenchmarkHedge(b *testing.B) {
	value := func(ctx context.Context) (int, error) { return 1, succeed(ctx) }
	b.Run("minimal", func(b *testing.B) {
		ctx := start(b)
		for b.Loop() {
			_, err := hedgeByHand(ctx, value)
			must(b, err)
		}
		expect(b, calls, 1)
	})
	b.Run("backoff", func(b *testing.B) {
		ctx := start(b)
		hedge := &backoff.Hedge{Delay: time.Second}
		for b.Loop() {
			_, err := backoff.HedgeValue(ctx, hedge, value, nil)
			must(b, err)
		}
		expect(b, calls, 1)
	})
	b.Run("failsafe", func(b *testing.B) {
		ctx := start(b)
		executor := failsafe.With(hedgepolicy.NewWithDelay[int](time.Second))
		for b.Loop() {
			_, err := executor.GetWithExecution(func(failsafe.Execution[int]) (int, error) { return value(ctx) })
			must(b, err)
		}
		expect(b, calls, 1)
	})
}

// hedgeByHand makes the first attempt on the caller's goroutine, and arms a timer that
// would start another one.
func hedgeByHand(ctx context.Context, op func(context.Context) (int, error)) (int, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	results := make(chan int, 1)
	timer := time.AfterFunc(time.Second, func() {
		if v, err := op(ctx); err == nil {
			results <- v
			cancel(errDown)
		}
	})
	v, err := op(ctx)
	if timer.Stop() || err == nil {
		return v, err
	}
	return <-results, nil
}

// BenchmarkBreakerShared is a success through a closed breaker that has heard nothing bad of
// late from its fleet: minimal is the same without a fleet.
func BenchmarkBreakerShared(b *testing.B) {
	b.Run("minimal", func(b *testing.B) {
		ctx := start(b)
		var breaker backoff.Breaker
		for b.Loop() {
			must(b, breaker.Do(ctx, succeed))
		}
		expect(b, calls, 1)
	})
	b.Run("backoff", func(b *testing.B) {
		ctx := start(b)
		breaker := backoff.Breaker{Name: "db", Shared: &fleet.Client{Store: new(fleet.Memory)}}
		must(b, breaker.Do(ctx, func(context.Context) error { return nil }))
		for b.Loop() {
			must(b, breaker.Do(ctx, succeed))
		}
		expect(b, calls, 1)
	})
}

// BenchmarkBreakerSharedOpen is a refusal of a circuit that others have opened.
func BenchmarkBreakerSharedOpen(b *testing.B) {
	ctx := start(b)
	store := new(fleet.Memory)
	for _, by := range []string{"x", "y"} {
		_, err := store.Trip(ctx, "db", fleet.Trip{By: by, Voter: by, Open: time.Hour, Quorum: 2})
		must(b, err)
	}
	breaker := backoff.Breaker{Name: "db", Shared: &fleet.Client{Store: store, Wait: time.Second, Trust: -1}, MaxHint: -1}
	mustNot(b, breaker.Do(ctx, succeed))
	for b.Loop() {
		mustNot(b, breaker.Do(ctx, succeed))
	}
	expect(b, calls, 0)
}
