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
	"syscall"
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

// tenth is a hedge that is sent after a tenth of a second.
func tenth() *hedge.Hedge { return &hedge.Hedge{Delay: 100 * milli} }

// within returns a context that lasts so long.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// canceled returns a context that is cancelled for a cause after d.
func canceled(t testing.TB, d time.Duration, cause error) context.Context {
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(d, func() { cancel(cause) })
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

// made returns the values of the attempts that succeeded, if they are 1, 2 and so on.
func (s *hedgeScript) made() (values []int) { return s.ended(nil, 1) }

// ended returns the numbers, from first, of the attempts that ended with err.
func (s *hedgeScript) ended(err error, first int) (attempts []int) {
	for n, result := range s.results {
		if result == err {
			attempts = append(attempts, n+first)
		}
	}
	return attempts
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
	took     time.Duration // by all attempts
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
	b.took += r.Took
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

// succeed makes n calls whose attempts all take step, and succeed.
func succeed(t *testing.T, h *hedge.Hedge, n int, step hedgeStep) {
	t.Helper()
	for range n {
		_, err := hedge.Value(t.Context(), h, step, nil)
		require.NoError(t, err)
	}
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
	runAll(t, tenth, map[string]hedgeRun{
		"the hedge wins": {
			steps:  []hedgeStep{inTime(second, 1, nil), inTime(10*milli, 2, nil)},
			starts: msec(100), took: 110 * milli, value: 2, beaten: []int{0},
		},
		"the first attempt wins": {
			steps:  []hedgeStep{inTime(150*milli, 1, nil), inTime(second, 2, nil)},
			starts: msec(100), took: 150 * milli, value: 1, beaten: []int{1},
		},
		"none is needed": {
			steps: []hedgeStep{inTime(100*milli-1, 1, nil)},
			took:  100*milli - 1, value: 1,
		},
	})
}

// lognormal is a service whose p95 is 23.8 ms: one call in a hundred takes 20
// times as long as it should.
func lognormal(random *rand.Rand, slowdown float64) hedgeStep {
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
			succeed(t, &h, 10_000, lognormal(rand.New(rand.NewPCG(3, 4)), 1))
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
			succeed(t, &h, calls, inTime(each, 0, nil))
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
	for share, most := range map[float64]uint64{0: 10 + 50, .01: 10 + 10} {
		hedgeTest(t, fmt.Sprint(share), func(t *testing.T) {
			h := hedge.Hedge{MaxExtraLoad: share}
			random := rand.New(rand.NewPCG(5, 6))
			succeed(t, &h, 2000, lognormal(random, 1))
			synctest.Wait()
			before := h.Stats()
			succeed(t, &h, 1000, lognormal(random, 10))
			synctest.Wait()
			after := h.Stats()
			require.Greater(t, after.Refused, before.Refused)
			require.LessOrEqual(t, after.Hedges-before.Hedges, most)
		})
	}
}

// The bound holds for a fixed delay, for all at once, and under any
// concurrency: at most ten hedges, and one for every twenty calls that succeed.
func TestHedgeBoundOfExtraLoadIsExact(t *testing.T) {
	for share, percent := range map[float64]int{0: 5, .05: 5, .01: 1, .29: 29, 1: 100} {
		hedgeTest(t, fmt.Sprint("one after the other, ", share), func(t *testing.T) {
			h := hedge.Hedge{Delay: milli, MaxExtraLoad: share}
			for n := range 1000 {
				succeed(t, &h, 1, inTime(2*milli, 0, nil))
				require.EqualValues(t, min(n+1, 10+n*percent/100), h.Stats().Hedges)
			}
		})
	}
	t.Run("together", func(t *testing.T) {
		h := hedge.Hedge{Delay: -1, MaxAttempts: 3}
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() { succeed(t, &h, 500, inTime(0, 0, nil)) })
		}
		wg.Wait()
		require.EqualValues(t, 8000, h.Stats().Calls)
		require.LessOrEqual(t, h.Stats().Hedges, uint64(10+8000/20))
		require.Greater(t, h.Stats().Hedges, uint64(8000/20-20))
	})
	hedgeTest(t, "failures earn nothing, nor do calls that are not started", func(t *testing.T) {
		b := new(hedgeBudget)
		h := hedge.Hedge{Delay: milli, Budget: b}
		for range 100 {
			b.depart = nil
			_, err := hedge.Value(t.Context(), &h, inTime(5*milli, 0, errHedgeUnknown), nil)
			require.ErrorIs(t, err, errHedgeUnknown)
			b.depart = func(int) bool { return false }
			_, err = hedge.Value(t.Context(), &h, inTime(0, 0, nil), nil)
			require.ErrorIs(t, err, backoff.ErrBudget)
		}
		require.Equal(t, hedge.Stats{Hedges: 10, Refused: 90, Delay: milli}, h.Stats())
	})
}

// A call that asks for a hedge when there is nothing to pay with asks again, after
// 2, 6 and 14 ms, and gets it when others have succeeded.
func TestAHedgeThatIsNotPaidYetIsSentWhenItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hedge.Hedge{Delay: 2 * milli}
		succeed(t, &h, 10, inTime(3*milli, 0, nil)) // which are free
		go func() {
			time.Sleep(7 * milli)
			succeed(t, &h, 20, inTime(0, 0, nil)) // which pay for one
		}()
		s := script(inTime(time.Second, 0, nil), inTime(0, 0, nil))
		_, _, err := s.run(t.Context(), &h)
		require.NoError(t, err)
		require.Equal(t, []time.Duration{0, 14 * milli}, s.starts)
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
	beaten []int // attempts that ended for ErrLost
	lost   []int // values discarded in the end
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
			rest(2 * time.Hour)
			require.Equal(t, append([]time.Duration{0}, want.starts...), s.starts)
			require.ElementsMatch(t, want.lost, s.discarded)
			require.ElementsMatch(t, want.beaten, s.ended(hedge.ErrLost, 0))
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
			starts: msec(500, 1000), took: 10 * second, value: 1, beaten: []int{1, 2},
		},
		"the next at once after a status": {
			steps:  []hedgeStep{inTime(100*milli, 0, errHedgeUnavailable), slow, inTime(milli, 3, nil)},
			starts: msec(100, 600), took: 601 * milli, value: 3, beaten: []int{1},
		},
		"the same of a hedge": {
			steps:  []hedgeStep{slow, inTime(100*milli, 0, errHedgeUnknown), inTime(milli, 3, nil)},
			starts: msec(500, 600), took: 601 * milli, value: 3, beaten: []int{0},
		},
		"the last failure if all fail": {
			steps:  []hedgeStep{inTime(milli, 0, errHedgeUnavailable), inTime(milli, 0, errHedgeUnknown), inTime(milli, 7, errHedgeUnavailable)},
			starts: msec(1, 2), took: 3 * milli, value: 7, err: "backoff: grpc: gave up after 3 attempts: UNAVAILABLE",
		},
		"all at once": {
			adjust: func(h *hedge.Hedge) { h.Delay = -1 },
			steps:  []hedgeStep{inTime(3*second, 1, nil), inTime(2*second, 2, nil), inTime(second, 3, nil)},
			starts: msec(0, 0), took: second, value: 3, beaten: []int{0, 1},
		},
		"a failure needs no measured delay": {
			adjust: func(h *hedge.Hedge) { h.Delay = 0 },
			steps:  []hedgeStep{inTime(5*milli, 0, errHedgeUnknown), inTime(time.Hour, 2, nil)}, starts: msec(5), took: time.Hour + 5*milli, value: 2,
		},
	})
}

func TestHedgeAsGRPCEndsAtAFatalStatus(t *testing.T) {
	for fatal := range 3 {
		hedgeTest(t, fmt.Sprintf("in attempt %d", fatal+1), func(t *testing.T) {
			s := script(inTime(time.Minute, 1, nil), inTime(time.Minute, 2, nil), inTime(time.Minute, 3, nil))
			s.steps[fatal] = inTime(time.Second, 9, errHedgeInvalid)
			v, took, err := s.run(t.Context(), hedgeGRPC())
			require.ErrorIs(t, err, errHedgeInvalid)
			require.EqualError(t, err, errHedgeInvalid.Error(), "as it is")
			require.False(t, new(backoff.Policy).Retryable(err))
			require.Equal(t, 9, v, "with the value beside it")
			require.Equal(t, time.Duration(fatal)*500*milli+time.Second, took)
			require.Len(t, s.ended(hedge.ErrLost, 0), len(s.results)-1)
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
			var gave *backoff.Error
			require.ErrorAs(t, err, &gave)
			require.Equal(t, backoff.ClassRetryable, gave.Class(), "as Classify says")
			require.Len(t, s.starts, want)
		}
	})
}

func TestHedgeFailureDoesNotBeatAGoodFirstAttempt(t *testing.T) {
	runAll(t, tenth, map[string]hedgeRun{"a hedge fails": {
		steps:  []hedgeStep{inTime(200*milli, 1, nil), inTime(milli, 0, errHedgeUnknown)},
		starts: msec(100), took: 200 * milli, value: 1,
	}})
}

// Neither is a Doer, and a loop around a hedge, or a hedge around a loop, does
// not multiply what it gave up on.
func TestHedgeOrRetryNotBoth(t *testing.T) {
	_, doer := any(new(hedge.Hedge)).(backoff.Doer)
	require.False(t, doer, "it would fit into a Doer")

	unavailable := inTime(milli, 0, errHedgeUnavailable)
	for name, row := range map[string]struct {
		policy backoff.Policy
		hedge  *hedge.Hedge
		step   hedgeStep
		starts int
	}{
		"a policy around does not repeat it":    {backoff.Policy{}, hedgeGRPC(), unavailable, 3},
		"unless it was for others to repeat":    {backoff.Policy{MaxAttempts: 3}, &hedge.Hedge{MaxAttempts: 1}, unavailable, 3},
		"nor does it repeat what was permanent": {backoff.Policy{}, hedgeGRPC(), inTime(milli, 0, errHedgeInvalid), 1},
	} {
		hedgeTest(t, name, func(t *testing.T) {
			s := script(row.step, row.step, row.step)
			_, err := backoff.DoValue(t.Context(), row.policy, func(ctx context.Context) (int, error) {
				return hedge.Value(ctx, row.hedge, s.op, nil)
			})
			require.ErrorIs(t, err, s.results[0])
			require.Len(t, s.starts, row.starts)
			var gaveUp interface{ RetryableError() bool }
			require.Equal(t, row.starts == 3, errors.As(err, &gaveUp))
			require.True(t, gaveUp == nil || !gaveUp.RetryableError())
		})
	}
	hedgeTest(t, "what a policy inside gave up on is permanent", func(t *testing.T) {
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
	detach := func(h *hedge.Hedge) { h.Detach, h.Name = true, "slow" }
	beaten := []hedgeStep{deaf(time.Hour, 1, nil), inTime(milli, 2, nil)}
	runAll(t, tenth, map[string]hedgeRun{
		"without it, a first attempt that ignores its context holds up the winner, but does not become it": {
			steps: beaten, starts: msec(100), took: time.Hour, value: 2, lost: []int{1},
		},
		"with it, not": {
			adjust: detach,
			steps:  beaten, starts: msec(100), took: 101 * milli, value: 2, lost: []int{1},
		},
		"everything else is the same": {
			adjust: detach,
			steps:  []hedgeStep{inTime(20*milli, 1, nil)}, took: 20 * milli, value: 1,
		},
		"the end of the context is not waited for, either": {
			adjust: detach, limit: second,
			steps:  []hedgeStep{deaf(time.Hour, 1, nil), deaf(time.Hour, 2, nil)},
			starts: msec(100), took: second, lost: []int{1, 2},
			err: "backoff: slow: gave up after 2 attempts: context deadline exceeded",
		},
	})
}

func TestHedgeDiscardsEachLosingValueOnce(t *testing.T) {
	soon := func() *hedge.Hedge {
		h := hedgeGRPC()
		h.Delay, h.Detach = 100*milli, true
		return h
	}
	runAll(t, soon, map[string]hedgeRun{
		"late ones": {
			steps:  []hedgeStep{inTime(250*milli, 1, nil), deaf(time.Hour, 2, nil), deaf(time.Hour, 3, nil)},
			starts: msec(100, 200), took: 250 * milli, value: 1, lost: []int{2, 3},
		},
		"not those beside an error": {
			steps:  []hedgeStep{inTime(milli, 1, errHedgeUnknown), inTime(10*milli, 2, nil)},
			starts: msec(1), took: 11 * milli, value: 2,
		},
		"also after a permanent error": {
			steps:  []hedgeStep{deaf(second, 1, nil), inTime(milli, 0, errHedgeInvalid)},
			starts: msec(100), took: 101 * milli, lost: []int{1}, err: errHedgeInvalid.Error(),
		},
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

			got := s.lost()
			if err == nil {
				got = append(got, v)
			}
			require.ElementsMatch(t, s.made(), got)
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
					require.NotEmpty(t, s.made())
					require.ElementsMatch(t, s.made(), got)
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
	for name, row := range map[string]struct {
		steps []hedgeStep
		bang  int // the attempt that panics
		took  time.Duration
	}{
		"of a hedge":           {[]hedgeStep{inTime(time.Hour, 1, nil), bang(milli, "bang")}, 1, 101 * milli},
		"of the first attempt": {[]hedgeStep{bang(150*milli, "bang"), inTime(time.Hour, 2, nil)}, 0, 150 * milli},
	} {
		for _, detach := range []bool{false, true} {
			hedgeTest(t, fmt.Sprintf("%s, detach %v", name, detach), func(t *testing.T) {
				b := new(hedgeBudget)
				s := script(row.steps...)
				h := &hedge.Hedge{Delay: 100 * milli, Detach: detach, Budget: b}
				require.PanicsWithValue(t, "bang", func() { _, _, _ = s.run(t.Context(), h) })
				require.Equal(t, row.took, time.Since(s.began))
				synctest.Wait()
				require.Equal(t, map[int]error{1 - row.bang: hedge.ErrLost}, s.results)
				require.Equal(t, map[uint64][]string{uint64(row.bang + 1): {"failed"}, uint64(2 - row.bang): {"canceled"}}, b.outcomes)
			})
		}
	}
}

func TestHedgeCountsPanicsThatNobodyCouldRecoverAnyMore(t *testing.T) {
	for name, late := range map[string]hedgeStep{"of an attempt": bang(second, "bang"), "of a discard": deaf(second, 2, nil)} {
		hedgeTest(t, name, func(t *testing.T) {
			b := new(hedgeBudget)
			h := &hedge.Hedge{Delay: 100 * milli, Budget: b}
			v, err := hedge.Value(t.Context(), h, script(inTime(150*milli, 1, nil), late).op, func(int) { panic("discard") })
			require.NoError(t, err)
			require.Equal(t, 1, v)
			rest(time.Minute)
			require.EqualValues(t, 1, h.Stats().Panics)
			require.Equal(t, []string{"canceled"}, b.outcomes[2], "the budget hears of it once")
		})
	}
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
				var caller sync.WaitGroup
				caller.Go(func() {
					_, _, _ = s.run(t.Context(), &hedge.Hedge{Delay: 100 * milli, Detach: detach})
					returned = true
				})
				caller.Wait()
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
	h := &hedge.Hedge{Idempotency: backoff.NonIdempotent}
	const want = "backoff: Hedge.Idempotency is NonIdempotent, but a hedge sends the operation twice"
	require.EqualError(t, h.Validate(), want)
	_, err := hedge.Value(t.Context(), h, inTime(0, 0, errHedgeNever), nil)
	require.EqualError(t, err, want)
	require.False(t, new(backoff.Policy).Retryable(err))
	hedgeTest(t, "all attempts have the same key", func(t *testing.T) {
		var keys [2][2]string // of each call, by attempt
		for call := range keys {
			_, err := hedge.Value(t.Context(), &hedge.Hedge{Delay: milli, Idempotency: backoff.Keyed}, func(ctx context.Context) (int, error) {
				keys[call][hedge.Number(ctx)] = backoff.IdempotencyKey(ctx)
				return inTime(second, 0, nil)(ctx)
			}, nil)
			require.NoError(t, err)
			synctest.Wait()
			require.NotEmpty(t, keys[call][0])
			require.Equal(t, keys[call][0], keys[call][1])
		}
		require.NotEqual(t, keys[0], keys[1], "another call has another key")
	})
	hedgeTest(t, "the caller's own key is kept", func(t *testing.T) {
		_, err := hedge.Value(backoff.WithIdempotencyKey(t.Context(), "mine"), &hedge.Hedge{Idempotency: backoff.Keyed}, func(ctx context.Context) (int, error) {
			require.Equal(t, "mine", backoff.IdempotencyKey(ctx))
			return 0, nil
		}, nil)
		require.NoError(t, err)
	})
}

func TestAHedgeMayFollowOnlyWhatWasNotSent(t *testing.T) {
	careful := func() *hedge.Hedge {
		return &hedge.Hedge{Delay: second, MaxAttempts: 3, MaxExtraLoad: -1, Idempotency: ifNotSent{}}
	}
	refused := syscall.ECONNREFUSED
	runAll(t, careful, map[string]hedgeRun{
		"none runs beside an attempt that may have been sent": {
			steps: []hedgeStep{inTime(time.Minute, 1, nil)},
			took:  time.Minute, value: 1,
		},
		"nor follows it": {
			steps: []hedgeStep{inTime(milli, 0, errHedgeUnknown)}, took: milli,
			err: "backoff: gave up after 1 attempt: not idempotent (Idempotency): UNKNOWN",
		},
		"nor runs beside a hedge that may have been sent": {
			steps:  []hedgeStep{inTime(0, 0, refused), inTime(time.Minute, 2, nil)},
			starts: msec(0), took: time.Minute, value: 2,
		},
		"it follows when all were not sent, and another was due meanwhile": {
			steps:  []hedgeStep{inTime(0, 0, refused), inTime(1500*milli, 0, refused), inTime(0, 3, nil)},
			starts: msec(0, 1500), took: 1500 * milli, value: 3,
		},
		"it follows what says so": {
			steps:  []hedgeStep{inTime(0, 0, backoff.OfClass(errHedgeUnknown, backoff.ClassNotSent)), inTime(0, 2, nil)},
			starts: msec(0), value: 2,
		},
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
	for name, row := range map[string]struct {
		refuse   bool
		limit    time.Duration // of the call
		took     time.Duration
		err      error
		outcomes map[uint64][]string
	}{
		"it waits again":                       {false, time.Hour, 3 * second, nil, map[uint64][]string{99: {"success"}}}, // with the newest ticket
		"it is refused":                        {true, time.Hour, second, backoff.ErrBudget, map[uint64][]string{1: {"not sent"}}},
		"there is no time for the second wait": {false, 2 * second, second, context.DeadlineExceeded, map[uint64][]string{1: {"not sent"}}},
	} {
		hedgeTest(t, name, func(t *testing.T) {
			b := &askingBudget{refuse: row.refuse}
			b.grant = func(backoff.Attempt) (time.Duration, bool) { return second, true }
			began := time.Now()
			_, err := hedge.Value(within(t, row.limit), &hedge.Hedge{Delay: time.Minute, Budget: b}, inTime(0, 1, nil), nil)
			require.ErrorIs(t, err, row.err)
			require.Equal(t, row.took, time.Since(began))
			require.Equal(t, row.outcomes, b.outcomes)
		})
	}
}

// What another attempt hears later, while it is still under way, changes nothing.
func TestTheRetryAfterThatEndedTheHedgingIsThatOfTheError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script(
			inTime(15*milli, 0, backoff.RetryAfter(errors.New("quota"), 10*time.Minute)),
			inTime(30*milli, 0, backoff.RetryAfter(errors.New("busy"), time.Second)))
		_, _, err := s.run(t.Context(), &hedge.Hedge{Delay: 10 * milli, MaxAttempts: 3, MaxExtraLoad: -1, Detach: true})
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
