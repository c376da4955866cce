package hedge_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/hedge"
)

const (
	milli  = time.Millisecond
	second = time.Second
)

var (
	errHedgeUnavailable = errors.New("UNAVAILABLE")
	errHedgeUnknown     = errors.New("UNKNOWN")
	errHedgeInvalid     = errors.New("INVALID_ARGUMENT")
	errHedgeNever       = errors.New("never")
)

// hedgeGRPC is the policy of the article: maxAttempts 3, hedgingDelay 0.5 s,
// nonFatalStatusCodes UNAVAILABLE and UNKNOWN. A6 knows no limit of extra load
// but throttling.
func hedgeGRPC() *hedge.Hedge {
	return &hedge.Hedge{
		Name:         "grpc",
		MaxAttempts:  3,
		Delay:        500 * milli,
		MaxExtraLoad: -1,
		Classify:     backoff.RetryIf(func(err error) bool { return err == errHedgeUnavailable || err == errHedgeUnknown }),
	}
}

// within returns a context that lasts so long.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// hedgeStep is what one attempt does.
type hedgeStep func(context.Context) (int, error)

// inTime returns v and err after d, or the cause that its context ended for.
func inTime(d time.Duration, v int, err error) hedgeStep {
	return func(ctx context.Context) (int, error) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return v, err
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// deaf is inTime, without regard to the context.
func deaf(d time.Duration, v int, err error) hedgeStep {
	return func(context.Context) (int, error) {
		time.Sleep(d)
		return v, err
	}
}

// hedgeScript is an operation whose attempts are written down, and which writes
// down in turn when they started and what they left.
type hedgeScript struct {
	steps []hedgeStep

	mu        sync.Mutex
	began     time.Time
	starts    []time.Duration
	results   map[int]error
	discarded []int
}

func script(steps ...hedgeStep) *hedgeScript {
	return &hedgeScript{steps: steps, began: time.Now(), results: map[int]error{}}
}

func (s *hedgeScript) op(ctx context.Context) (int, error) {
	n := hedge.Number(ctx)
	s.mu.Lock()
	s.starts = append(s.starts, time.Since(s.began))
	s.mu.Unlock()
	v, err := s.steps[n](ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results[n] = err
	return v, err
}

func (s *hedgeScript) discard(v int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.discarded = append(s.discarded, v)
}

// lost returns what was discarded so far.
func (s *hedgeScript) lost() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.discarded)
}

// run returns what the call gave, and when.
func (s *hedgeScript) run(ctx context.Context, h *hedge.Hedge) (v int, took time.Duration, err error) {
	v, err = hedge.Value(ctx, h, s.op, s.discard)
	took = time.Since(s.began)
	synctest.Wait()
	return v, took, err
}

// hedgeBudget grants what it is told to, and keeps books.
type hedgeBudget struct {
	backoff.BudgetDefaults

	grant  func(backoff.Attempt) (time.Duration, bool)
	depart func(number int) bool
	settle func(number uint64, o string)

	mu       sync.Mutex
	asked    []backoff.Attempt
	outcomes map[uint64][]string // by number of the attempt
}

func (b *hedgeBudget) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, a)
	wait, ok := time.Duration(0), true
	if b.grant != nil {
		wait, ok = b.grant(a)
	}
	return backoff.Ticket{Word: uint64(a.Number)}, wait, ok
}

func (b *hedgeBudget) Done(t backoff.Ticket, r backoff.Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.outcomes == nil {
		b.outcomes = map[uint64][]string{}
	}
	b.outcomes[t.Word] = append(b.outcomes[t.Word], r.String())
	if b.settle != nil {
		b.settle(t.Word, r.String())
	}
}

func (b *hedgeBudget) Confirm(t backoff.Ticket) bool {
	return b.depart == nil || b.depart(int(t.Word))
}

func hedgeWait(w time.Duration) func(backoff.Attempt) (time.Duration, bool) {
	return func(a backoff.Attempt) (time.Duration, bool) { return w * time.Duration(a.Number-1), true }
}

// rest lets everything happen that will within d.
func rest(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// hedgeTest runs f in virtual time. That the bubble ends says that no goroutine
// is left.
func hedgeTest(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

func TestHedgeSendsADuplicateFirstSuccessWinsLosersAreCancelled(t *testing.T) {
	hedgeTest(t, "the hedge wins", func(t *testing.T) {
		s := script(inTime(time.Second, 1, nil), inTime(10*milli, 2, nil))
		v, took, err := s.run(t.Context(), &hedge.Hedge{Delay: 100 * milli})
		require.NoError(t, err)
		require.Equal(t, 2, v)
		require.Equal(t, 110*milli, took)
		require.Equal(t, []time.Duration{0, 100 * milli}, s.starts)
		require.Equal(t, map[int]error{0: hedge.ErrLost, 1: nil}, s.results)
	})
	hedgeTest(t, "the first attempt wins", func(t *testing.T) {
		s := script(inTime(150*milli, 1, nil), inTime(time.Second, 2, nil))
		v, took, err := s.run(t.Context(), &hedge.Hedge{Delay: 100 * milli})
		require.NoError(t, err)
		require.Equal(t, 1, v)
		require.Equal(t, 150*milli, took)
		synctest.Wait()
		require.Equal(t, map[int]error{0: nil, 1: hedge.ErrLost}, s.results)
	})
	hedgeTest(t, "none is needed", func(t *testing.T) {
		s := script(inTime(100*milli-1, 1, nil))
		v, _, err := s.run(t.Context(), &hedge.Hedge{Delay: 100 * milli})
		require.NoError(t, err)
		require.Equal(t, 1, v)
		rest(time.Minute)
		require.Len(t, s.starts, 1)
	})
}

// lognormal is a service whose p95 is 23.8 ms: one call in a hundred takes 20
// times as long as it should.
func lognormal(random *rand.Rand, slowdown float64) func(context.Context) (int, error) {
	var mu sync.Mutex
	return func(ctx context.Context) (int, error) {
		mu.Lock()
		d := 10e6 * slowdown * math.Exp(.5*random.NormFloat64())
		if random.IntN(100) == 0 {
			d *= 20
		}
		mu.Unlock()
		return inTime(time.Duration(d), 0, nil)(ctx)
	}
}

// Every first attempt is measured once, so the share is right whatever it is.
func TestHedgeKeepsToItsShareOfExtraLoad(t *testing.T) {
	t.Parallel()
	for share, want := range map[float64]float64{0: .05, .01: .01, .1: .1, .25: .25} {
		hedgeTest(t, fmt.Sprint(share), func(t *testing.T) {
			h := hedge.Hedge{MaxExtraLoad: share}
			service := lognormal(rand.New(rand.NewPCG(3, 4)), 1)
			for range 10_000 {
				_, err := hedge.Value(t.Context(), &h, service, nil)
				require.NoError(t, err)
			}
			stats := h.Stats()
			require.EqualValues(t, 10_000, stats.Calls)
			require.InEpsilon(t, want, float64(stats.Hedges)/10_000, .2)
			require.Greater(t, stats.Wins, stats.Hedges/5)
			if share == 0 {
				require.InEpsilon(t, 23.8e6, float64(stats.Delay), .1)
			}
		})
	}
}

func TestHedgeLooksAtItsDelayAfterEvery50Calls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h hedge.Hedge
		delayAfter := func(calls int, each time.Duration) time.Duration {
			for range calls {
				_, err := hedge.Value(t.Context(), &h, inTime(each, 0, nil), nil)
				require.NoError(t, err)
			}
			return h.Stats().Delay
		}
		require.Zero(t, delayAfter(99, 10*milli))
		first := delayAfter(1, 10*milli)
		require.InEpsilon(t, 10*milli, first, .1)
		require.Equal(t, first, delayAfter(49, 100*milli))
		require.InEpsilon(t, 100*milli, delayAfter(1, 100*milli), .1)
	})
}

// A service that gets ten times slower as a whole is not sent everything twice.
func TestHedgeBudgetBoundsALatencyShift(t *testing.T) {
	shift := func(t *testing.T, share float64) (hedges uint64) {
		h := hedge.Hedge{MaxExtraLoad: share}
		random := rand.New(rand.NewPCG(5, 6))
		call := func(n int, slowdown float64) {
			service := lognormal(random, slowdown)
			for range n {
				_, err := hedge.Value(t.Context(), &h, service, nil)
				require.NoError(t, err)
			}
			synctest.Wait()
		}
		call(2000, 1)
		before := h.Stats()
		call(1000, 10)
		after := h.Stats()
		require.Greater(t, after.Refused, before.Refused)
		return after.Hedges - before.Hedges
	}
	hedgeTest(t, "bounded", func(t *testing.T) {
		require.LessOrEqual(t, shift(t, 0), uint64(10+50))
	})
	hedgeTest(t, "at one percent", func(t *testing.T) {
		require.LessOrEqual(t, shift(t, .01), uint64(10+10))
	})
}

// The bound holds for a fixed delay, for all at once, and under any
// concurrency: at most ten hedges, and one for every twenty calls that succeed.
func TestHedgeBoundOfExtraLoadIsExact(t *testing.T) {
	for share, percent := range map[float64]int{0: 5, .05: 5, .01: 1, .29: 29, 1: 100} {
		hedgeTest(t, fmt.Sprint("one after the other, ", share), func(t *testing.T) {
			h := hedge.Hedge{Delay: milli, MaxExtraLoad: share}
			for n := range 1000 {
				_, err := hedge.Value(t.Context(), &h, inTime(2*milli, 0, nil), nil)
				require.NoError(t, err)
				require.EqualValues(t, min(n+1, 10+n*percent/100), h.Stats().Hedges)
			}
		})
	}
	t.Run("together", func(t *testing.T) {
		h := hedge.Hedge{Delay: -1, MaxAttempts: 3}
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for range 500 {
					_, _ = hedge.Value(t.Context(), &h, inTime(0, 0, nil), nil)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 8000, h.Stats().Calls)
		require.LessOrEqual(t, h.Stats().Hedges, uint64(10+8000/20))
		require.Greater(t, h.Stats().Hedges, uint64(8000/20-20))
	})
	hedgeTest(t, "failures earn nothing", func(t *testing.T) {
		h := hedge.Hedge{Delay: milli}
		for range 100 {
			_, err := hedge.Value(t.Context(), &h, inTime(5*milli, 0, errHedgeUnknown), nil)
			require.ErrorIs(t, err, errHedgeUnknown)
		}
		require.EqualValues(t, 10, h.Stats().Hedges)
		require.EqualValues(t, 90, h.Stats().Refused)
		require.Zero(t, h.Stats().Calls)
	})
}

// A call that asks for a hedge when there is nothing to pay with asks again, and
// gets it when others have succeeded.
func TestAHedgeThatIsNotPaidYetIsSentWhenItIs(t *testing.T) {
	hedgeTest(t, "after 2 and 6 ms", func(t *testing.T) {
		h := hedge.Hedge{Delay: 2 * milli}
		for range 10 { // which are free
			_, err := hedge.Value(t.Context(), &h, inTime(3*milli, 0, nil), nil)
			require.NoError(t, err)
		}
		go func() {
			time.Sleep(5 * milli)
			for range 20 { // which pay for one
				hedge.Value(t.Context(), &h, inTime(0, 0, nil), nil)
			}
		}()
		var starts []time.Duration
		began := time.Now()
		_, err := hedge.Value(t.Context(), &h, func(ctx context.Context) (int, error) {
			starts = append(starts, time.Since(began))
			if hedge.Number(ctx) == 0 {
				return inTime(time.Second, 0, nil)(ctx)
			}
			return 0, nil
		}, nil)
		require.NoError(t, err)
		require.Equal(t, []time.Duration{0, 6 * milli}, starts)
		require.EqualValues(t, 11, h.Stats().Hedges)
		require.Zero(t, h.Stats().Refused)
	})
}

// A hedgeRun is a call, and what becomes of it.
type hedgeRun struct {
	adjust func(*hedge.Hedge)
	limit  time.Duration // of the call; 0 is none
	steps  []hedgeStep

	starts []time.Duration // of the hedges
	took   time.Duration
	value  int
	err    string
}

// runAll makes each of the calls under a hedge of its own.
func runAll(t *testing.T, made func() *hedge.Hedge, runs map[string]hedgeRun) {
	for name, want := range runs {
		hedgeTest(t, name, func(t *testing.T) {
			ctx, cancel := t.Context(), context.CancelFunc(func() {})
			if want.limit > 0 {
				ctx, cancel = context.WithTimeout(ctx, want.limit)
			}
			defer cancel()
			h := made()
			if want.adjust != nil {
				want.adjust(h)
			}
			s := script(want.steps...)
			value, took, err := s.run(ctx, h)
			if want.err == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, want.err)
			}
			require.Equal(t, want.value, value)
			require.Equal(t, want.took, took)
			require.Equal(t, append([]time.Duration{0}, want.starts...), s.starts)
		})
	}
}

func msec(ms ...int) (times []time.Duration) {
	for _, n := range ms {
		times = append(times, time.Duration(n)*milli)
	}
	return times
}

func TestHedgeAsGRPC(t *testing.T) {
	slow := inTime(time.Minute, 0, nil)
	runAll(t, hedgeGRPC, map[string]hedgeRun{
		"one at each delay": {
			steps:  []hedgeStep{inTime(10*second, 1, nil), slow, slow},
			starts: msec(500, 1000), took: 10 * second, value: 1,
		},
		"the next at once after a status": {
			steps:  []hedgeStep{inTime(100*milli, 0, errHedgeUnavailable), slow, inTime(milli, 3, nil)},
			starts: msec(100, 600), took: 601 * milli, value: 3,
		},
		"the same of a hedge": {
			steps:  []hedgeStep{slow, inTime(100*milli, 0, errHedgeUnknown), inTime(milli, 3, nil)},
			starts: msec(500, 600), took: 601 * milli, value: 3,
		},
		"the last failure if all fail": {
			steps:  []hedgeStep{inTime(milli, 0, errHedgeUnavailable), inTime(milli, 0, errHedgeUnknown), inTime(milli, 7, errHedgeUnavailable)},
			starts: msec(1, 2), took: 3 * milli, value: 7, err: "backoff: grpc: gave up after 3 attempts: UNAVAILABLE",
		},
		"all at once": {
			adjust: func(h *hedge.Hedge) { h.Delay = -1 },
			steps:  []hedgeStep{inTime(3*second, 1, nil), inTime(2*second, 2, nil), inTime(second, 3, nil)},
			starts: msec(0, 0), took: second, value: 3,
		},
		"a failure needs no measured delay": {
			adjust: func(h *hedge.Hedge) { h.Delay = 0 },
			steps:  []hedgeStep{inTime(5*milli, 0, errHedgeUnknown), inTime(time.Hour, 2, nil)}, starts: msec(5), took: time.Hour + 5*milli, value: 2,
		},
	})
}

func TestHedgeAsGRPCEndsAtAFatalStatus(t *testing.T) {
	for _, fatal := range []int{0, 1, 2} {
		hedgeTest(t, fmt.Sprintf("hedge-fatal in attempt %d", fatal+1), func(t *testing.T) {
			s := script(inTime(time.Minute, 1, nil), inTime(time.Minute, 2, nil), inTime(time.Minute, 3, nil))
			s.steps[fatal] = inTime(time.Second, 9, errHedgeInvalid)
			v, took, err := s.run(t.Context(), hedgeGRPC())
			require.ErrorIs(t, err, errHedgeInvalid)
			require.EqualError(t, err, errHedgeInvalid.Error(), "as it is")
			require.False(t, new(backoff.Policy).Retryable(err))
			require.Equal(t, 9, v, "with the value beside it")
			require.Equal(t, time.Duration(fatal)*500*milli+time.Second, took)
			synctest.Wait()
			for n, result := range s.results {
				if n != fatal {
					require.Equal(t, hedge.ErrLost, result)
				}
			}
		})
	}
}

func TestHedgeAsGRPCTakesMoreThanFiveAttemptsForFive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for attempts, want := range map[int]int{0: 2, 1: 1, 2: 2, 5: 5, 6: 5, -1: 5} {
			h := hedgeGRPC()
			h.MaxAttempts = attempts
			fail := inTime(0, 0, errHedgeUnknown)
			s := script(fail, fail, fail, fail, fail, fail)
			_, _, err := s.run(t.Context(), h)
			require.ErrorIs(t, err, backoff.ErrExhausted)
			require.Len(t, s.starts, want)
		}
	})
}

func TestHedgeFailureDoesNotBeatAGoodFirstAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script(inTime(200*milli, 1, nil), inTime(milli, 0, errHedgeUnknown))
		v, took, err := s.run(t.Context(), &hedge.Hedge{Delay: 100 * milli})
		require.NoError(t, err)
		require.Equal(t, 1, v)
		require.Equal(t, 200*milli, took)
	})
}

// Neither is a Doer, and a loop around a hedge, or a hedge around a loop, does
// not multiply what it gave up on.
func TestHedgeOrRetryNotBoth(t *testing.T) {
	_, doer := any(new(hedge.Hedge)).(backoff.Doer)
	require.False(t, doer, "it would fit into a Doer")

	hedgeTest(t, "a policy around does not repeat it", func(t *testing.T) {
		s := script(inTime(milli, 0, errHedgeUnavailable), inTime(milli, 0, errHedgeUnavailable), inTime(milli, 0, errHedgeUnavailable))
		_, err := backoff.DoValue(t.Context(), &backoff.Policy{}, func(ctx context.Context) (int, error) {
			return hedge.Value(ctx, hedgeGRPC(), s.op, nil)
		})
		require.ErrorIs(t, err, errHedgeUnavailable)
		require.Len(t, s.starts, 3)
		var gaveUp interface{ RetryableError() bool }
		require.ErrorAs(t, err, &gaveUp)
		require.False(t, gaveUp.RetryableError())
	})
	hedgeTest(t, "unless it was for others to repeat", func(t *testing.T) {
		s := script(inTime(milli, 0, errHedgeUnavailable))
		_, err := backoff.DoValue(t.Context(), &backoff.Policy{MaxAttempts: 3}, func(ctx context.Context) (int, error) {
			return hedge.Value(ctx, &hedge.Hedge{MaxAttempts: 1}, s.op, nil)
		})
		require.ErrorIs(t, err, errHedgeUnavailable)
		require.Len(t, s.starts, 3)
	})
	hedgeTest(t, "nor what was definitive", func(t *testing.T) {
		s := script(inTime(milli, 0, errHedgeInvalid))
		_, err := backoff.DoValue(t.Context(), &backoff.Policy{}, func(ctx context.Context) (int, error) {
			return hedge.Value(ctx, hedgeGRPC(), s.op, nil)
		})
		require.EqualError(t, err, errHedgeInvalid.Error())
		require.Len(t, s.starts, 1)
	})
	hedgeTest(t, "what a policy inside gave up on is final", func(t *testing.T) {
		s := script(inTime(0, 0, errHedgeUnavailable))
		_, err := hedge.Value(t.Context(), &hedge.Hedge{Delay: time.Hour}, func(ctx context.Context) (int, error) {
			return backoff.DoValue(ctx, &backoff.Policy{MaxAttempts: 2}, s.op)
		}, nil)
		require.ErrorIs(t, err, errHedgeUnavailable)
		require.Len(t, s.starts, 2, "of the policy; none of the hedge")
	})
}

func TestHedgeOfAFastCallStartsNoGoroutine(t *testing.T) {
	for name, h := range map[string]*hedge.Hedge{
		"measuring": {},
		"fixed":     {Delay: time.Minute},
		"off":       {MaxAttempts: 1},
	} {
		hedgeTest(t, name, func(t *testing.T) { // where a call takes no time, however busy the machine is
			more := math.MaxInt
			for range 100 { // others may come and go
				before, during := runtime.NumGoroutine(), 0
				_, err := hedge.Value(t.Context(), h, func(context.Context) (int, error) {
					during = runtime.NumGoroutine()
					return 0, nil
				}, nil)
				require.NoError(t, err)
				more = min(more, during-before)
			}
			require.LessOrEqual(t, more, 0)
		})
	}
}

func TestHedgeOfAFastCallAllocatesOnce(t *testing.T) {
	op := func(context.Context) (int, error) { return 0, nil }
	for name, h := range map[string]*hedge.Hedge{
		"measuring": {},
		"fixed":     {Delay: time.Minute},
		"budget":    {Delay: time.Minute, Budget: new(backoff.RetryBudget)},
	} {
		t.Run(name, func(t *testing.T) {
			call := func() { _, _ = hedge.Value(t.Context(), h, op, nil) }
			least := testing.AllocsPerRun(1, call)
			for range 100 { // the race detector, and the collector, make a sync.Pool forget
				least = min(least, testing.AllocsPerRun(1, call))
			}
			require.Equal(t, 1., least)
		})
	}
}

func TestHedgeDetach(t *testing.T) {
	hedgeTest(t, "without it, a first attempt that ignores its context holds up the winner", func(t *testing.T) {
		s := script(deaf(time.Hour, 1, nil), inTime(milli, 2, nil))
		v, took, err := s.run(t.Context(), &hedge.Hedge{Delay: 100 * milli})
		require.NoError(t, err)
		require.Equal(t, 2, v, "but does not become it")
		require.Equal(t, time.Hour, took)
		require.Equal(t, []int{1}, s.lost())
	})
	hedgeTest(t, "with it, not", func(t *testing.T) {
		s := script(deaf(time.Hour, 1, nil), inTime(milli, 2, nil))
		v, took, err := s.run(t.Context(), &hedge.Hedge{Delay: 100 * milli, Detach: true})
		require.NoError(t, err)
		require.Equal(t, 2, v)
		require.Equal(t, 101*milli, took)
		require.Empty(t, s.lost())
		rest(2 * time.Hour)
		require.Equal(t, []int{1}, s.lost())
	})
	hedgeTest(t, "everything else is the same", func(t *testing.T) {
		s := script(inTime(20*milli, 1, nil))
		v, took, err := s.run(t.Context(), &hedge.Hedge{Delay: 100 * milli, Detach: true})
		require.NoError(t, err)
		require.Equal(t, 1, v)
		require.Equal(t, 20*milli, took)
	})
	hedgeTest(t, "the end of the context is not waited for, either", func(t *testing.T) {
		ctx := within(t, second)
		s := script(deaf(time.Hour, 1, nil), deaf(time.Hour, 2, nil))
		_, took, err := s.run(ctx, &hedge.Hedge{Name: "slow", Delay: 100 * milli, Detach: true})
		require.EqualError(t, err, "backoff: slow: gave up after 2 attempts: context deadline exceeded")
		require.Equal(t, time.Second, took)
		rest(2 * time.Hour)
		require.ElementsMatch(t, []int{1, 2}, s.lost())
	})
}

func TestHedgeDiscardsEachLosingValueOnce(t *testing.T) {
	hedgeTest(t, "late ones", func(t *testing.T) {
		s := script(inTime(250*milli, 1, nil), deaf(time.Hour, 2, nil), deaf(time.Hour, 3, nil))
		h := hedgeGRPC()
		h.Delay = 100 * milli
		v, took, err := s.run(t.Context(), h)
		require.NoError(t, err)
		require.Equal(t, 1, v)
		require.Equal(t, 250*milli, took)
		rest(2 * time.Hour)
		require.ElementsMatch(t, []int{2, 3}, s.lost())
	})
	hedgeTest(t, "not those beside an error", func(t *testing.T) {
		s := script(inTime(milli, 1, errHedgeUnknown), inTime(10*milli, 2, nil))
		v, _, err := s.run(t.Context(), &hedge.Hedge{})
		require.NoError(t, err)
		require.Equal(t, 2, v)
		require.Empty(t, s.lost())
	})
	hedgeTest(t, "also after a definitive error", func(t *testing.T) {
		s := script(deaf(second, 1, nil), inTime(milli, 0, errHedgeInvalid))
		h := hedgeGRPC()
		h.Detach = true
		_, _, err := s.run(t.Context(), h)
		require.ErrorIs(t, err, errHedgeInvalid)
		rest(time.Minute)
		require.Equal(t, []int{1}, s.lost())
	})
	hedgeTest(t, "if anybody wants them", func(t *testing.T) {
		s := script(deaf(second, 1, nil), inTime(milli, 2, nil))
		v, err := hedge.Value(t.Context(), &hedge.Hedge{Delay: milli}, s.op, nil)
		require.NoError(t, err)
		require.Equal(t, 2, v)
	})
}

// Whatever happens, every value made is returned or discarded, exactly once,
// and every attempt that a budget granted is settled, exactly once.
func TestHedgeLosesAndDoublesNothing(t *testing.T) {
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			d := func() time.Duration { return time.Duration(random.IntN(8)) * 50 * milli }
			step := func(n int) hedgeStep {
				errs := []error{nil, nil, nil, errHedgeUnknown, errHedgeInvalid,
					backoff.Pushback(errHedgeUnknown, d()), backoff.Pushback(errHedgeUnknown, -1), backoff.RetryAfter(errHedgeUnknown, d())}
				make := inTime
				if random.IntN(2) == 0 {
					make = deaf
				}
				return make(d(), n, errs[random.IntN(len(errs))])
			}
			s := script(step(1), step(2), step(3), step(4), step(5))
			budget := new(hedgeBudget)
			if random.IntN(3) == 0 {
				budget.grant = hedgeWait(d())
			}
			h := hedgeGRPC()
			h.MaxAttempts, h.Delay, h.Budget, h.Detach = 1+random.IntN(5), max(milli, d()), budget, random.IntN(2) == 0
			if random.IntN(4) == 0 {
				h.Delay = -1
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if random.IntN(2) == 0 {
				time.AfterFunc(d(), cancel)
			}
			v, _, err := s.run(ctx, h)
			rest(2 * time.Minute)
			cancel()

			var made, got []int
			for n, err := range s.results {
				if err == nil {
					made = append(made, n+1)
				}
			}
			if got = s.lost(); err == nil {
				got = append(got, v)
			}
			require.ElementsMatch(t, made, got)
			for _, a := range budget.asked {
				require.Len(t, budget.outcomes[uint64(a.Number)], 1, "attempt %d", a.Number)
			}
			require.Len(t, budget.outcomes, len(budget.asked))
			notSent := 0
			for _, outcomes := range budget.outcomes {
				if outcomes[0] == "not sent" {
					notSent++
				}
			}
			require.Len(t, s.starts, len(budget.asked)-notSent)
		})
	}
}

// Whatever of the user's panics or leaves its goroutine, the caller gets to know
// it, and every value made is discarded, once.
func TestAHedgedCallThatPanicsLosesNoValue(t *testing.T) {
	for how, end := range map[string]func(){"panic": func() { panic("bang") }, "Goexit": runtime.Goexit} {
		endsAt := func(outcome string) *hedgeBudget {
			return &hedgeBudget{settle: func(_ uint64, o string) {
				if o == outcome {
					end()
				}
			}}
		}
		third := &hedgeBudget{grant: func(a backoff.Attempt) (time.Duration, bool) {
			if a.Number == 3 {
				end()
			}
			return 0, true
		}}
		beaten := []hedgeStep{deaf(second, 1, nil), inTime(milli, 2, nil)}
		unused := endsAt("not sent")
		unused.grant = hedgeWait(second)
		for name, row := range map[string]struct {
			hedge *hedge.Hedge
			steps []hedgeStep
			fails bool // the discard ends so
		}{
			"the first attempt, after a hedge has won": {
				&hedge.Hedge{},
				[]hedgeStep{func(context.Context) (int, error) { time.Sleep(second); end(); return 0, nil }, inTime(milli, 2, nil)}, false,
			},
			"the discard of the first attempt": {&hedge.Hedge{}, beaten, true},
			"the classifier of the first attempt's late error": {
				&hedge.Hedge{Classify: func(error) backoff.Class { end(); return 0 }},
				[]hedgeStep{deaf(second, 1, errHedgeUnknown), inTime(milli, 2, nil)}, false,
			},
			"the budget, when it hears of the success":        {&hedge.Hedge{Budget: endsAt("success")}, beaten, false},
			"the budget, when it hears of the loser":          {&hedge.Hedge{Budget: endsAt("canceled")}, beaten, false},
			"the budget, when it gets back what was not used": {&hedge.Hedge{Delay: -1, Budget: unused}, []hedgeStep{deaf(milli, 1, nil)}, false},
			"the budget, asked for the third of three attempts at once": {
				&hedge.Hedge{Delay: -1, MaxAttempts: 3, Budget: third},
				[]hedgeStep{deaf(0, 1, nil), deaf(milli, 2, nil), deaf(milli, 3, nil)}, false,
			},
		} {
			for _, detach := range []bool{false, true} {
				hedgeTest(t, fmt.Sprintf("%s, %s, detach %v", name, how, detach), func(t *testing.T) {
					s := script(row.steps...)
					h := row.hedge
					h.Delay, h.MaxExtraLoad, h.Detach = cmp.Or(h.Delay, 100*milli), -1, detach
					discard := s.discard
					if row.fails {
						discard = func(v int) { s.discard(v); end() }
					}
					returned := false
					var value int
					var seen any
					var group sync.WaitGroup
					group.Go(func() {
						defer func() { seen = recover() }()
						value, _ = hedge.Value(t.Context(), h, s.op, discard)
						returned = true
					})
					group.Wait()
					rest(time.Minute)
					got := s.lost()
					if returned { // the panic was of an attempt that had lost
						require.True(t, detach)
						got = append(got, value)
					} else if how == "panic" {
						require.Equal(t, "bang", seen)
					}
					var made []int
					for n, err := range s.results {
						if err == nil {
							made = append(made, n+1)
						}
					}
					require.NotEmpty(t, made)
					require.ElementsMatch(t, made, got)
				})
			}
		}
	}
}

func TestAnObserverThatLeavesTheGoroutineLosesNoValueOfAHedgedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script(inTime(milli, 1, nil))
		h := &hedge.Hedge{Observer: func(context.Context, backoff.Event) { runtime.Goexit() }}
		var group sync.WaitGroup
		group.Go(func() { _, _, _ = s.run(t.Context(), h) })
		group.Wait()
		require.Equal(t, []int{1}, s.lost())
	})
}

// bang panics with v after d, without regard to the context.
func bang(d time.Duration, v any) hedgeStep {
	return func(context.Context) (int, error) {
		time.Sleep(d)
		panic(v)
	}
}

func TestHedgeCarriesPanicsToTheCaller(t *testing.T) {
	for _, detach := range []bool{false, true} {
		hedgeTest(t, fmt.Sprintf("of a hedge, detach %v", detach), func(t *testing.T) {
			b := new(hedgeBudget)
			s := script(inTime(time.Hour, 1, nil), bang(milli, "bang"))
			h := &hedge.Hedge{Delay: 100 * milli, Detach: detach, Budget: b}
			require.PanicsWithValue(t, "bang", func() { _, _, _ = s.run(t.Context(), h) })
			require.Equal(t, 101*milli, time.Since(s.began))
			synctest.Wait()
			require.Equal(t, hedge.ErrLost, s.results[0])
			require.Equal(t, []string{"failed"}, b.outcomes[2])
			require.Equal(t, []string{"canceled"}, b.outcomes[1])
		})
		hedgeTest(t, fmt.Sprintf("of the first attempt, detach %v", detach), func(t *testing.T) {
			b := new(hedgeBudget)
			s := script(bang(150*milli, "bang"), inTime(time.Hour, 2, nil))
			h := &hedge.Hedge{Delay: 100 * milli, Detach: detach, Budget: b}
			require.PanicsWithValue(t, "bang", func() { _, _, _ = s.run(t.Context(), h) })
			synctest.Wait()
			require.Equal(t, hedge.ErrLost, s.results[1])
			require.Equal(t, []string{"failed"}, b.outcomes[1])
			require.Equal(t, []string{"canceled"}, b.outcomes[2])
		})
	}
}

func TestHedgeCountsPanicsThatNobodyCouldRecoverAnyMore(t *testing.T) {
	hedgeTest(t, "those that come too late", func(t *testing.T) {
		s := script(inTime(150*milli, 1, nil), bang(second, "bang"))
		b := new(hedgeBudget)
		h := &hedge.Hedge{Delay: 100 * milli, Budget: b}
		v, _, err := s.run(t.Context(), h)
		require.NoError(t, err)
		require.Equal(t, 1, v)
		rest(time.Minute)
		require.EqualValues(t, 1, h.Stats().Panics)
		require.Equal(t, []string{"canceled"}, b.outcomes[2])
	})
	hedgeTest(t, "those of a discard", func(t *testing.T) {
		b := new(hedgeBudget)
		h := &hedge.Hedge{Delay: 100 * milli, Budget: b}
		s := script(inTime(150*milli, 1, nil), deaf(second, 2, nil))
		_, err := hedge.Value(t.Context(), h, s.op, func(int) { panic("discard") })
		require.NoError(t, err)
		rest(time.Minute)
		require.EqualValues(t, 1, h.Stats().Panics)
		require.Equal(t, []string{"canceled"}, b.outcomes[2], "the budget hears of it once")
	})
}

func TestHedgeCarriesGoexitToTheCaller(t *testing.T) {
	leave := func(d time.Duration) hedgeStep {
		return func(context.Context) (int, error) {
			time.Sleep(d)
			runtime.Goexit()
			return 0, nil
		}
	}
	for name, steps := range map[string][]hedgeStep{
		"of a hedge":           {inTime(time.Hour, 1, nil), leave(milli)},
		"of the first attempt": {leave(150 * milli), inTime(time.Hour, 1, nil)},
	} {
		for _, detach := range []bool{false, true} {
			hedgeTest(t, fmt.Sprintf("%s, detach %v", name, detach), func(t *testing.T) {
				s := script(steps...)
				returned := false
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					_, _, _ = s.run(t.Context(), &hedge.Hedge{Delay: 100 * milli, Detach: detach})
					returned = true
				}()
				<-ended
				require.False(t, returned)
				require.Less(t, time.Since(s.began), time.Second, "it does not hang")
			})
		}
	}
	hedgeTest(t, "unless it is late", func(t *testing.T) {
		s := script(inTime(150*milli, 1, nil), leave(second))
		h := &hedge.Hedge{Delay: 100 * milli}
		_, _, err := s.run(t.Context(), h)
		require.NoError(t, err)
		rest(time.Minute)
		require.Zero(t, h.Stats().Panics)
	})
}

func TestHedgeIdempotency(t *testing.T) {
	for _, i := range []backoff.Idempotency{backoff.NonIdempotent} {
		h := &hedge.Hedge{Idempotency: i}
		want := fmt.Sprintf("backoff: Hedge.Idempotency is %v, but a hedge sends the operation twice", i)
		require.EqualError(t, h.Validate(), want)
		_, err := hedge.Value(t.Context(), h, inTime(0, 0, errHedgeNever), nil)
		require.EqualError(t, err, want)
		require.False(t, new(backoff.Policy).Retryable(err))
	}
	hedgeTest(t, "all attempts have the same key", func(t *testing.T) {
		var keys sync.Map
		for range 2 {
			_, err := hedge.Value(t.Context(), &hedge.Hedge{Delay: milli, Idempotency: backoff.Keyed}, func(ctx context.Context) (int, error) {
				count, _ := keys.LoadOrStore(backoff.IdempotencyKey(ctx), new(atomic.Int32))
				count.(*atomic.Int32).Add(1)
				return inTime(second, 0, nil)(ctx)
			}, nil)
			require.NoError(t, err)
		}
		calls := 0
		keys.Range(func(key, count any) bool {
			require.NotEmpty(t, key)
			require.EqualValues(t, 2, count.(*atomic.Int32).Load())
			calls++
			return true
		})
		require.Equal(t, 2, calls)
	})
	hedgeTest(t, "the caller's own key is kept", func(t *testing.T) {
		_, err := hedge.Value(backoff.WithIdempotencyKey(t.Context(), "mine"), &hedge.Hedge{Idempotency: backoff.Keyed}, func(ctx context.Context) (int, error) {
			require.Equal(t, "mine", backoff.IdempotencyKey(ctx))
			return 0, nil
		}, nil)
		require.NoError(t, err)
	})
	never := ifNotSent{}
	hedgeTest(t, "a condition that does not hold", func(t *testing.T) {
		s := script(inTime(second, 1, nil))
		_, _, err := s.run(t.Context(), &hedge.Hedge{Delay: 100 * milli, Idempotency: never})
		require.NoError(t, err)
		require.Len(t, s.starts, 1)

		s = script(inTime(0, 1, errHedgeUnknown))
		_, _, err = s.run(t.Context(), &hedge.Hedge{Delay: 100 * milli, Idempotency: never})
		require.EqualError(t, err, "backoff: gave up after 1 attempt: not idempotent (Idempotency): UNKNOWN")
	})
	hedgeTest(t, "but what was not sent may be sent", func(t *testing.T) {
		s := script(inTime(0, 1, backoff.OfClass(errHedgeUnknown, backoff.ClassNotSent)), inTime(0, 2, nil))
		v, _, err := s.run(t.Context(), &hedge.Hedge{Delay: 100 * milli, Idempotency: never})
		require.NoError(t, err)
		require.Equal(t, 2, v)
	})
}

func TestHedgeValidate(t *testing.T) {
	for _, h := range []*hedge.Hedge{
		{}, {MaxExtraLoad: -1}, {MaxExtraLoad: 1}, {MaxAttempts: 100}, {Delay: -1}, {Idempotency: backoff.Keyed},
		{Idempotency: backoff.Idempotent}, {Budget: new(backoff.RetryBudget)},
	} {
		require.NoError(t, h.Validate())
	}
	require.EqualError(t, (&hedge.Hedge{MaxExtraLoad: 5}).Validate(),
		"backoff: Hedge.MaxExtraLoad is 5, want a share of at most 1, or a negative number for no limit")
	require.ErrorContains(t, (&hedge.Hedge{MaxExtraLoad: 1.5e21}).Validate(), "Hedge.MaxExtraLoad is 1.5e+21")
	require.ErrorContains(t, (&hedge.Hedge{MaxExtraLoad: math.NaN()}).Validate(), "Hedge.MaxExtraLoad is NaN")
	require.ErrorContains(t, (&hedge.Hedge{Budget: &backoff.RetryBudget{Ratio: -1}}).Validate(), "RetryBudget.Ratio")
}

func TestHedgeStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hedge.Hedge{Delay: 100 * milli}
		require.Equal(t, hedge.Stats{Delay: 100 * milli}, h.Stats())
		for _, steps := range [][]hedgeStep{
			{inTime(0, 0, nil)},
			{inTime(second, 0, nil), inTime(0, 0, nil)},
			{inTime(second, 0, nil), inTime(0, 0, errHedgeUnknown)},
			{inTime(0, 0, backoff.Permanent(errHedgeInvalid))},
		} {
			_, _, _ = script(steps...).run(t.Context(), h)
		}
		require.Equal(t, hedge.Stats{Calls: 3, Hedges: 2, Wins: 1, Delay: 100 * milli}, h.Stats())
	})
}

// An attempt that ends at the very moment its hedge is due: whoever comes
// second finds out.
func TestHedgeDueAtTheLastMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hedgeGRPC()
		for n := range 500 {
			err := []error{nil, errHedgeUnknown, errHedgeUnavailable}[n%3]
			s := script(inTime(h.Delay, 1, err), inTime(h.Delay, 2, nil), inTime(h.Delay, 3, nil))
			_, _, err = s.run(t.Context(), h)
			require.NoError(t, err)
			require.LessOrEqual(t, len(s.starts), 3)
		}
	})
}

// In earnest, as timers are used again only outside of bubbles.
func TestHedgeIsSentByATimerThatIsUsedAgain(t *testing.T) {
	ctx := within(t, 5*time.Second)
	h := &hedge.Hedge{Delay: milli, MaxExtraLoad: -1}
	for range 10 {
		_, err := hedge.Value(ctx, h, func(context.Context) (int, error) { return 0, nil }, nil)
		require.NoError(t, err, "its timer did not go off")
		_, err = hedge.Value(ctx, h, func(ctx context.Context) (int, error) {
			if hedge.Number(ctx) == 0 {
				<-ctx.Done()
			}
			return 0, ctx.Err()
		}, nil)
		require.NoError(t, err)
	}
}

// In earnest: many callers, and timers that are used again.
func TestHedgeUnderLoad(t *testing.T) {
	t.Parallel()
	h := &hedge.Hedge{Delay: 50 * time.Microsecond, MaxAttempts: 3, MaxExtraLoad: -1}
	var open atomic.Int64
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(9, uint64(worker)))
			for range 500 {
				d := time.Duration(random.IntN(150)) * time.Microsecond
				v, err := hedge.Value(t.Context(), h, func(ctx context.Context) (int, error) {
					v, err := inTime(d, 1, nil)(ctx)
					if err == nil {
						open.Add(1)
					}
					return v, err
				}, func(int) { open.Add(-1) })
				if v != 1 || err != nil {
					t.Errorf("got %v, %v", v, err)
				}
				open.Add(-1)
			}
		})
	}
	wg.Wait()
	require.Eventually(t, func() bool { return open.Load() == 0 }, 5*time.Second, milli)
	require.EqualValues(t, 4000, h.Stats().Calls)
}

// askingBudget makes a first attempt wait until it has been asked three times.
type askingBudget struct {
	hedgeBudget
	asked  int
	refuse bool
}

func (b *askingBudget) Pace(t backoff.Ticket) (backoff.Ticket, time.Duration, bool) {
	if b.asked++; b.asked < 3 {
		return t, time.Second, !b.refuse
	}
	return backoff.Ticket{Word: 99}, 0, true
}

func TestAHedgedCallAsksForThePaceWhenItsWaitIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		grant := func(backoff.Attempt) (time.Duration, bool) { return time.Second, true }
		b := &askingBudget{hedgeBudget: hedgeBudget{grant: grant}}
		began := time.Now()
		_, err := hedge.Value(t.Context(), &hedge.Hedge{Delay: time.Hour, Budget: b}, func(context.Context) (int, error) { return 1, nil }, nil)
		require.NoError(t, err)
		require.Equal(t, 3*time.Second, time.Since(began))
		require.Equal(t, map[uint64][]string{99: {"success"}}, b.outcomes, "with the newest ticket")

		b = &askingBudget{hedgeBudget: hedgeBudget{grant: grant}, refuse: true}
		_, err = hedge.Value(t.Context(), &hedge.Hedge{Delay: time.Hour, Budget: b}, func(context.Context) (int, error) { return 1, nil }, nil)
		require.ErrorIs(t, err, backoff.ErrBudget)
		require.Equal(t, map[uint64][]string{1: {"not sent"}}, b.outcomes)

		ctx := within(t, 2*time.Second)
		b = &askingBudget{hedgeBudget: hedgeBudget{grant: grant}}
		began = time.Now()
		_, err = hedge.Value(ctx, &hedge.Hedge{Delay: time.Hour, Budget: b}, func(context.Context) (int, error) { return 1, nil }, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(began), "there was no time for the second wait")
	})
}

// What another attempt hears later, while it is still under way, changes nothing.
func TestTheRetryAfterThatEndedTheHedgingIsThatOfTheError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hedge.Hedge{Delay: 10 * time.Millisecond, MaxAttempts: 3, MaxExtraLoad: -1, Detach: true}
		_, err := hedge.Value(t.Context(), h, func(ctx context.Context) (int, error) {
			if hedge.Number(ctx) == 0 {
				time.Sleep(15 * time.Millisecond)
				return 0, backoff.RetryAfter(errors.New("quota"), 10*time.Minute)
			}
			time.Sleep(30 * time.Millisecond)
			return 0, backoff.RetryAfter(errors.New("busy"), time.Second)
		}, nil)
		var gave *backoff.Error
		require.ErrorAs(t, err, &gave)
		require.Equal(t, backoff.ReasonRetryAfter, gave.Reason)
		require.Equal(t, 10*time.Minute, gave.RetryAfter())
	})
}

var errBoom = errors.New("boom")

// answered is an error that comes with a response.
type answered struct{ id string }

func (answered) Error() string { return "503" }
func (a answered) ResponseHeader() map[string][]string {
	return map[string][]string{"X-Amzn-Requestid": {a.id}}
}

// refusesHedges is a budget that grants first attempts only.
func refusesHedges() *hedgeBudget {
	return &hedgeBudget{grant: func(a backoff.Attempt) (time.Duration, bool) { return 0, a.First() }}
}

// ifNotSent allows to send again what was not sent.
type ifNotSent struct{}

func (ifNotSent) Repeatable(_ context.Context, c backoff.Class) bool {
	return c == backoff.ClassNotSent
}

// badRequest is an error that a classifier finds permanent.
type badRequest struct{}

func (badRequest) Error() string       { return "status 400" }
func (badRequest) HTTPStatusCode() int { return 400 }
