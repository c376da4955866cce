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
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backofftest"
	"github.com/gobackoff/backoff/hedge"
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
					b.Done(ticket, backoff.Result{Failed: true, Class: backoff.ClassThrottled})
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
		"limit.Rate.Limiter is nil":              new(limit.Rate),
		"limit.Throttle.K is -1, want 1 or more": &limit.Throttle{K: -1},
	} {
		for _, b := range []backoff.Budget{b, backoff.JoinBudgets(new(backoff.RetryBudget), b)} {
			err := backoff.Policy{Budget: b}.Do(t.Context(), func(context.Context) error { panic("called") })
			require.ErrorContains(t, err, want)
			require.Equal(t, backoff.ClassPermanent, backoff.DefaultClassifier(err), "%v", err)
		}
	}
}

func TestANilLimitIsRefused(t *testing.T) {
	for _, b := range []backoff.Budget{(*limit.Rate)(nil), (*limit.Throttle)(nil), (*limit.Concurrency)(nil)} {
		require.ErrorContains(t, b.Validate(), " is nil")
		require.False(t, b.GrantsFirst())
		for _, b := range []backoff.Budget{b, backoff.JoinBudgets(new(backoff.RetryBudget), b)} {
			err := backoff.Policy{Budget: b}.Do(t.Context(), func(context.Context) error { panic("called") })
			require.ErrorContains(t, err, "Budget holds a nil pointer")
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
		b.Done(ticket, backoff.Result{NotSent: true})
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

// faulty is an error whose methods fault, as far as the test says.
type faulty struct{ in map[string]func() }

func (e faulty) call(method string) {
	if fault := e.in[method]; fault != nil {
		fault()
	}
}

func (e faulty) Error() string                       { return "faulty" }
func (e faulty) Is(error) bool                       { e.call("Is"); return false }
func (e faulty) Unwrap() error                       { e.call("Unwrap"); return nil }
func (e faulty) Timeout() bool                       { e.call("Timeout"); return false }
func (e faulty) Temporary() bool                     { e.call("Temporary"); return true }
func (e faulty) RetryAfter() time.Duration           { e.call("RetryAfter"); return 0 }
func (e faulty) ResponseHeader() map[string][]string { e.call("ResponseHeader"); return nil }
func (e faulty) SQLState() string                    { e.call("SQLState"); return "" }

// A function of the user that panics, or that ends its goroutine, keeps no place
// of a limit, wherever it is called.
func TestAFaultInAFunctionKeepsNoPlace(t *testing.T) {
	faults := map[string]func(){"panic": func() { panic("bug") }, "Goexit": runtime.Goexit}
	places := []string{"", "op", "Classify", "Schedule", "Jitter", "Rand", "Idempotency", "AttemptTimeoutSchedule", "Observer", "Budget", "context",
		"Is", "Unwrap", "Timeout", "Temporary", "RetryAfter", "ResponseHeader", "SQLState"}
	for how, fault := range faults {
		for _, place := range places {
			var reached atomic.Bool
			for way, run := range waysToRun {
				name := how + " in " + place + ", by " + way
				concurrency := new(limit.Concurrency)
				in := map[string]func(){place: func() { reached.Store(true); fault() }}
				call := func(where string) {
					if fault := in[where]; fault != nil {
						fault()
					}
				}
				policy := backoff.Policy{
					MaxAttempts:            3,
					Budget:                 backoff.JoinBudgets(concurrency, &faultyBudget{call: call}),
					Classify:               func(error) backoff.Class { call("Classify"); return backoff.ClassUnknown },
					Schedule:               backoff.ScheduleFunc(func(int) time.Duration { call("Schedule"); return time.Microsecond }),
					Jitter:                 func(d, _ time.Duration, _ float64) time.Duration { call("Jitter"); return d },
					Rand:                   func() float64 { call("Rand"); return 0.5 },
					Idempotency:            faultyIdempotency(call),
					AttemptTimeoutSchedule: backoff.ScheduleFunc(func(int) time.Duration { call("AttemptTimeoutSchedule"); return time.Microsecond }),
					Observer:               func(context.Context, backoff.Event) { call("Observer") },
				}
				synctest.Test(t, func(t *testing.T) {
					go func() {
						defer func() { _ = recover() }()
						run(faultyContext{t.Context(), call}, policy, func(ctx context.Context) error {
							if _, ok := ctx.Deadline(); ok && way != "Supervise" {
								<-ctx.Done() // so that the error is asked whether it is a timeout
							}
							call("op")
							return faulty{in}
						})
					}()
					time.Sleep(time.Hour) // a hedged call leaves attempts behind
					require.Zero(t, concurrency.Load(), name)
				})
			}
			require.Equal(t, place != "", reached.Load(), "%s is never called", place)
		}
	}
}

// waysToRun are the ways of running a call that fails.
var waysToRun = map[string]func(context.Context, backoff.Policy, func(context.Context) error){
	"Do": func(ctx context.Context, p backoff.Policy, op func(context.Context) error) { _ = p.Do(ctx, op) },
	"range": func(ctx context.Context, p backoff.Policy, op func(context.Context) error) {
		r := p.Start(ctx)
		for ctx := range r.Attempts() {
			r.Fail(op(ctx))
		}
	},
	"range left by break": func(ctx context.Context, p backoff.Policy, op func(context.Context) error) {
		r := p.Start(ctx)
		for ctx := range r.Attempts() {
			if r.Fail(op(ctx)); r.Attempt() == 2 {
				break
			}
		}
	},
	"Begin and Retry": func(ctx context.Context, p backoff.Policy, op func(context.Context) error) {
		r := p.Start(ctx)
		attempt, ok := r.Begin(0)
		for ok {
			var wait time.Duration
			if wait, ok = r.Retry(callIn(attempt, r, op)); ok {
				attempt, ok = r.Begin(wait)
			}
		}
	},
	"Supervise": func(ctx context.Context, p backoff.Policy, op func(context.Context) error) {
		_ = backoff.Supervisor{Policy: p}.Run(ctx, op)
	},
	"hedge.Value": func(ctx context.Context, p backoff.Policy, op func(context.Context) error) {
		h := hedge.Hedge{Delay: time.Nanosecond, MaxAttempts: 2, Budget: p.Budget, Classify: p.Classify, Observer: p.Observer}
		_, _ = hedge.Value(ctx, &h, func(ctx context.Context) (int, error) { return 0, op(ctx) }, nil)
	},
}

// callIn makes an attempt in the caller's own loop, which gives the place back
// if the attempt does not return.
func callIn(ctx context.Context, r *backoff.Run, op func(context.Context) error) error {
	returned := false
	defer func() {
		if !returned {
			r.Reset()
		}
	}()
	err := op(ctx)
	returned = true
	return err
}

// faultyBudget grants everything, until it faults.
type faultyBudget struct {
	backoff.BudgetDefaults

	call func(string)
}

func (b *faultyBudget) Reserve(backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	return backoff.Ticket{}, 0, true
}

func (b *faultyBudget) Pace(t backoff.Ticket) (backoff.Ticket, time.Duration, bool) {
	b.call("Budget")
	return t, 0, true
}

// faultyIdempotency permits everything, until it faults.
type faultyIdempotency func(string)

func (f faultyIdempotency) Repeatable(context.Context, backoff.Class) bool {
	f("Idempotency")
	return true
}

// faultyContext faults when it is asked for a value.
type faultyContext struct {
	context.Context
	call func(string)
}

func (c faultyContext) Value(key any) any {
	c.call("context")
	return c.Context.Value(key)
}
