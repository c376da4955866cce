package backoff_test

import (
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

	"github.com/gobackoff/backoff"
	"github.com/stretchr/testify/require"
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
// nonFatalStatusCodes UNAVAILABLE and UNKNOWN. A6 knows no limit of extra load but throttling.
func hedgeGRPC() *backoff.Hedge {
	return &backoff.Hedge{
		Name:         "grpc",
		MaxAttempts:  3,
		Delay:        500 * milli,
		MaxExtraLoad: -1,
		Classify:     backoff.OnCode(func(err error) error { return err }, errHedgeUnavailable, errHedgeUnknown),
	}
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

// hedgeScript is an operation whose attempts are written down, and which writes down in turn
// when they started and what they left.
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
	n := backoff.HedgeNumber(ctx)
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
func (s *hedgeScript) run(ctx context.Context, h *backoff.Hedge) (v int, took time.Duration, err error) {
	v, err = backoff.HedgeValue(ctx, h, s.op, s.discard)
	took = time.Since(s.began)
	synctest.Wait()
	return v, took, err
}

// hedgeBudget grants what it is told to, and keeps books.
type hedgeBudget struct {
	grant  func(backoff.Attempt) (time.Duration, bool)
	depart func(number int) bool

	mu       sync.Mutex
	asked    []backoff.Attempt
	outcomes map[uint64][]backoff.Outcome // by number of the attempt
}

func (b *hedgeBudget) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, a)
	wait, ok := time.Duration(0), true
	if b.grant != nil {
		wait, ok = b.grant(a)
	}
	return backoff.Ticket{uint64(a.Number)}, wait, ok
}

func (b *hedgeBudget) Done(t backoff.Ticket, o backoff.Outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.outcomes == nil {
		b.outcomes = map[uint64][]backoff.Outcome{}
	}
	b.outcomes[t[0]] = append(b.outcomes[t[0]], o)
}

func (b *hedgeBudget) Depart(t backoff.Ticket) bool { return b.depart == nil || b.depart(int(t[0])) }

func hedgeWait(w time.Duration) func(backoff.Attempt) (time.Duration, bool) {
	return func(a backoff.Attempt) (time.Duration, bool) { return w * time.Duration(a.Number-1), true }
}

// rest lets everything happen that will within d.
func rest(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// hedgeTest runs f in virtual time. That the bubble ends says that no goroutine is left.
func hedgeTest(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

func TestRow54HedgeSendsADuplicateFirstSuccessWinsLosersAreCancelled(t *testing.T) {
	hedgeTest(t, "the hedge wins", func(t *testing.T) {
		s := script(inTime(time.Second, 1, nil), inTime(10*milli, 2, nil))
		v, took, err := s.run(t.Context(), &backoff.Hedge{Delay: 100 * milli})
		require.NoError(t, err)
		require.Equal(t, 2, v)
		require.Equal(t, 110*milli, took)
		require.Equal(t, []time.Duration{0, 100 * milli}, s.starts)
		require.Equal(t, map[int]error{0: backoff.ErrHedgeLost, 1: nil}, s.results)
	})
	hedgeTest(t, "the first attempt wins", func(t *testing.T) {
		s := script(inTime(150*milli, 1, nil), inTime(time.Second, 2, nil))
		v, took, err := s.run(t.Context(), &backoff.Hedge{Delay: 100 * milli})
		require.NoError(t, err)
		require.Equal(t, 1, v)
		require.Equal(t, 150*milli, took)
		synctest.Wait()
		require.Equal(t, map[int]error{0: nil, 1: backoff.ErrHedgeLost}, s.results)
	})
	hedgeTest(t, "none is needed", func(t *testing.T) {
		s := script(inTime(100*milli-1, 1, nil))
		v, _, err := s.run(t.Context(), &backoff.Hedge{Delay: 100 * milli})
		require.NoError(t, err)
		require.Equal(t, 1, v)
		rest(time.Minute)
		require.Len(t, s.starts, 1)
	})
}

// lognormal is a service whose p95 is 23.8 ms: one call in a hundred takes 20 times as
// long as it should.
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

func TestRow55HedgeAtP95CostsFivePercent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h backoff.Hedge
		service := lognormal(rand.New(rand.NewPCG(1, 2)), 1)
		sorted := make([]time.Duration, 0, 20_000)
		for range cap(sorted) {
			began := time.Now()
			_, err := backoff.HedgeValue(t.Context(), &h, service, nil)
			require.NoError(t, err)
			sorted = append(sorted, time.Since(began))
		}
		stats := h.Stats()
		require.EqualValues(t, 20_000, stats.Calls)
		share := float64(stats.Hedges) / float64(stats.Calls)
		t.Logf("%.2f %% extra, delay %v, %+v", 100*share, stats.Delay, stats)
		require.Greater(t, share, .04)
		require.Less(t, share, .06)
		require.InEpsilon(t, 23.8e6, float64(stats.Delay), .1)
		require.Greater(t, stats.Wins, stats.Hedges/5)
	})
}

// Every first attempt is measured once, so the share stays right at other shares, too.
func TestHedgeKeepsToOtherSharesOfExtraLoad(t *testing.T) {
	for _, share := range []float64{.01, .1, .25} {
		hedgeTest(t, fmt.Sprint(share), func(t *testing.T) {
			h := backoff.Hedge{MaxExtraLoad: share}
			service := lognormal(rand.New(rand.NewPCG(3, 4)), 1)
			for range 10_000 {
				_, err := backoff.HedgeValue(t.Context(), &h, service, nil)
				require.NoError(t, err)
			}
			require.InEpsilon(t, share, float64(h.Stats().Hedges)/10_000, .2)
		})
	}
}

// A service that gets ten times slower as a whole is not sent everything twice.
func TestHedgeBudgetBoundsALatencyShift(t *testing.T) {
	shift := func(t *testing.T, share float64) (hedges uint64) {
		h := backoff.Hedge{MaxExtraLoad: share}
		random := rand.New(rand.NewPCG(5, 6))
		call := func(n int, slowdown float64) {
			service := lognormal(random, slowdown)
			for range n {
				_, err := backoff.HedgeValue(t.Context(), &h, service, nil)
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

// The bound holds for a fixed delay, for all at once, and under any concurrency: at
// most ten hedges, and one for every twenty calls that succeed.
func TestHedgeBoundOfExtraLoadIsExact(t *testing.T) {
	hedgeTest(t, "one after the other", func(t *testing.T) {
		h := backoff.Hedge{Delay: milli}
		for n := range 1000 {
			_, err := backoff.HedgeValue(t.Context(), &h, inTime(2*milli, 0, nil), nil)
			require.NoError(t, err)
			require.LessOrEqual(t, h.Stats().Hedges, uint64(10+n/20))
		}
		require.EqualValues(t, 10+999/20, h.Stats().Hedges, "and no less")
	})
	t.Run("together", func(t *testing.T) {
		h := backoff.Hedge{Delay: -1, MaxAttempts: 3}
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for range 500 {
					_, _ = backoff.HedgeValue(t.Context(), &h, inTime(0, 0, nil), nil)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 8000, h.Stats().Calls)
		require.LessOrEqual(t, h.Stats().Hedges, uint64(10+8000/20))
		require.Greater(t, h.Stats().Hedges, uint64(8000/20-20))
	})
	hedgeTest(t, "failures earn nothing", func(t *testing.T) {
		h := backoff.Hedge{Delay: milli}
		for range 100 {
			_, err := backoff.HedgeValue(t.Context(), &h, inTime(5*milli, 0, errHedgeUnknown), nil)
			require.ErrorIs(t, err, errHedgeUnknown)
		}
		require.EqualValues(t, 10, h.Stats().Hedges)
		require.EqualValues(t, 90, h.Stats().Refused)
		require.Zero(t, h.Stats().Calls)
	})
}

func TestRow57HedgeAsGRPC(t *testing.T) {
	hedgeTest(t, "hedge-seed", func(t *testing.T) {
		s := script(inTime(10*time.Second, 1, nil), inTime(10*time.Second, 2, nil), inTime(10*time.Second, 3, nil))
		v, took, err := s.run(t.Context(), hedgeGRPC())
		require.NoError(t, err)
		require.Equal(t, 1, v)
		require.Equal(t, 10*time.Second, took)
		require.Equal(t, []time.Duration{0, 500 * milli, time.Second}, s.starts)
	})
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
					require.Equal(t, backoff.ErrHedgeLost, result)
				}
			}
		})
	}
	hedgeTest(t, "hedge-nonfatal-shortcut", func(t *testing.T) {
		s := script(inTime(100*milli, 0, errHedgeUnavailable), inTime(time.Minute, 2, nil), inTime(milli, 3, nil))
		v, took, err := s.run(t.Context(), hedgeGRPC())
		require.NoError(t, err)
		require.Equal(t, 3, v)
		require.Equal(t, []time.Duration{0, 100 * milli, 600 * milli}, s.starts, "at once, then at the delay again")
		require.Equal(t, 601*milli, took)
	})
	hedgeTest(t, "a shortcut of a hedge", func(t *testing.T) {
		s := script(inTime(time.Minute, 1, nil), inTime(100*milli, 0, errHedgeUnknown), inTime(milli, 3, nil))
		v, _, err := s.run(t.Context(), hedgeGRPC())
		require.NoError(t, err)
		require.Equal(t, 3, v)
		require.Equal(t, []time.Duration{0, 500 * milli, 600 * milli}, s.starts)
	})
	hedgeTest(t, "all fail", func(t *testing.T) {
		s := script(inTime(milli, 0, errHedgeUnavailable), inTime(milli, 0, errHedgeUnknown), inTime(milli, 7, errHedgeUnavailable))
		v, took, err := s.run(t.Context(), hedgeGRPC())
		require.EqualError(t, err, "backoff: grpc: gave up after 3 attempts in 3ms: UNAVAILABLE")
		require.ErrorIs(t, err, backoff.ErrExhausted)
		require.ErrorIs(t, err, errHedgeUnavailable)
		require.Equal(t, 7, v)
		require.Equal(t, 3*milli, took)
	})
	hedgeTest(t, "more than five are five", func(t *testing.T) {
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
	hedgeTest(t, "all at once", func(t *testing.T) {
		h := hedgeGRPC()
		h.Delay = -1
		s := script(inTime(3*second, 1, nil), inTime(2*second, 2, nil), inTime(second, 3, nil))
		v, took, err := s.run(t.Context(), h)
		require.NoError(t, err)
		require.Equal(t, 3, v)
		require.Equal(t, []time.Duration{0, 0, 0}, s.starts)
		require.Equal(t, time.Second, took)
		require.Zero(t, h.Stats().Delay)
	})
}

func TestHedgePushback(t *testing.T) {
	pushback := func(d time.Duration) error { return backoff.Pushback(errHedgeUnavailable, d) }
	grpc := func() *backoff.Hedge {
		h := hedgeGRPC()
		h.Classify = nil
		return h
	}
	hedgeTest(t, "not to retry", func(t *testing.T) {
		s := script(inTime(600*milli, 0, pushback(-1)), inTime(3*second, 2, nil))
		v, took, err := s.run(t.Context(), grpc())
		require.NoError(t, err)
		require.Equal(t, 2, v)
		require.Equal(t, []time.Duration{0, 500 * milli}, s.starts, "the one under way goes on, no other follows")
		require.Equal(t, 3500*milli, took)
	})
	hedgeTest(t, "not to retry, and nothing under way", func(t *testing.T) {
		s := script(inTime(milli, 0, pushback(-1)))
		_, took, err := s.run(t.Context(), grpc())
		require.EqualError(t, err, "backoff: grpc: gave up after 1 attempt in 1ms: the server says not to retry: UNAVAILABLE")
		require.Equal(t, milli, took)
	})
	hedgeTest(t, "not to retry, then a failure", func(t *testing.T) {
		s := script(inTime(600*milli, 0, errHedgeUnknown), inTime(10*milli, 0, pushback(-1)))
		_, _, err := s.run(t.Context(), grpc())
		require.ErrorIs(t, err, errHedgeUnknown)
		require.ErrorContains(t, err, "the server says not to retry")
		require.Len(t, s.starts, 2)
	})
	for name, hint := range map[string]error{
		"after a while":                 pushback(2 * second),
		"after a while, by RetryAfter":  backoff.RetryAfter(errHedgeUnavailable, 2*second),
		"after a while, when throttled": backoff.RetryAfter(backoff.Mark(errHedgeUnavailable, backoff.ClassThrottled), 2*second),
	} {
		hedgeTest(t, name, func(t *testing.T) {
			s := script(inTime(100*milli, 0, hint), inTime(time.Minute, 2, nil), inTime(milli, 3, nil))
			v, _, err := s.run(t.Context(), grpc())
			require.NoError(t, err)
			require.Equal(t, 3, v)
			require.Equal(t, []time.Duration{0, 2100 * milli, 2600 * milli}, s.starts, "exactly then, then at the delay")
		})
	}
	hedgeTest(t, "of nothing", func(t *testing.T) {
		s := script(inTime(100*milli, 0, pushback(0)), inTime(milli, 2, nil))
		_, _, err := s.run(t.Context(), grpc())
		require.NoError(t, err)
		require.Equal(t, []time.Duration{0, 100 * milli}, s.starts)
	})
	hedgeTest(t, "is not cut short by another failure", func(t *testing.T) {
		s := script(inTime(second, 0, errHedgeUnknown), inTime(100*milli, 0, pushback(2*second)), inTime(milli, 3, nil))
		_, _, err := s.run(t.Context(), grpc())
		require.NoError(t, err)
		require.Equal(t, []time.Duration{0, 500 * milli, 2600 * milli}, s.starts)
	})
	hedgeTest(t, "beyond MaxHint", func(t *testing.T) {
		s := script(inTime(milli, 0, pushback(6*time.Minute)))
		_, took, err := s.run(t.Context(), grpc())
		require.EqualError(t, err, "backoff: grpc: gave up after 1 attempt in 1ms: the server asks to wait 6m0s, more than MaxHint 5m0s: UNAVAILABLE")
		require.Equal(t, milli, took)
		var gaveUp *backoff.Error
		require.ErrorAs(t, err, &gaveUp)
		require.Equal(t, 6*time.Minute, gaveUp.Hint)
	})
	hedgeTest(t, "without MaxHint", func(t *testing.T) {
		h := grpc()
		h.MaxHint = -1
		s := script(inTime(0, 0, pushback(time.Hour)), inTime(0, 2, nil))
		_, took, err := s.run(t.Context(), h)
		require.NoError(t, err)
		require.Equal(t, time.Hour, took)
	})
	hedgeTest(t, "beyond the deadline", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*second)
		defer cancel()
		s := script(inTime(milli, 0, pushback(2*second)))
		_, took, err := s.run(ctx, grpc())
		require.EqualError(t, err, "backoff: grpc: gave up after 1 attempt in 1ms: the next wait of 2s would pass the deadline in 2s: UNAVAILABLE")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, milli, took)
	})
}

func TestHedgeWaitsForAHintOfJustMaxHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script(inTime(0, 0, backoff.Pushback(errHedgeUnavailable, 5*time.Minute)), inTime(0, 2, nil))
		_, took, err := s.run(t.Context(), new(backoff.Hedge))
		require.NoError(t, err)
		require.Equal(t, 5*time.Minute, took)
	})
}

func TestHedgeAtTheVeryDeadlineIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*second)
		defer cancel()
		s := script(inTime(0, 0, backoff.Pushback(errHedgeUnknown, 2*second)))
		_, took, err := s.run(ctx, &backoff.Hedge{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Zero(t, took)
	})
}

func TestHedgeTellsADeadlineThatPassedFromOneThatWould(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*second)
		defer cancel()
		s := script(inTime(time.Hour, 0, nil), inTime(0, 0, backoff.Pushback(errHedgeUnknown, time.Minute)))
		_, _, err := s.run(ctx, &backoff.Hedge{Delay: second, MaxAttempts: 3})
		require.EqualError(t, err, "backoff: gave up after 2 attempts in 10s: context deadline exceeded")
	})
}

// "Too much" without a time is no reason to send more at once.
func TestHedgeIsNotSentToAThrottlingServer(t *testing.T) {
	throttled := backoff.Mark(errHedgeUnavailable, backoff.ClassThrottled)
	hedgeTest(t, "alone", func(t *testing.T) {
		s := script(inTime(milli, 0, throttled))
		_, took, err := s.run(t.Context(), &backoff.Hedge{Delay: second})
		require.ErrorIs(t, err, errHedgeUnavailable)
		require.Equal(t, milli, took)
	})
	hedgeTest(t, "with one under way", func(t *testing.T) {
		s := script(inTime(2*second, 1, nil), inTime(milli, 0, throttled))
		v, _, err := s.run(t.Context(), &backoff.Hedge{Delay: second, MaxAttempts: 3})
		require.NoError(t, err)
		require.Equal(t, 1, v)
		require.Len(t, s.starts, 2)
	})
}

func TestHedgeFailureDoesNotBeatAGoodFirstAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script(inTime(200*milli, 1, nil), inTime(milli, 0, errHedgeUnknown))
		v, took, err := s.run(t.Context(), &backoff.Hedge{Delay: 100 * milli})
		require.NoError(t, err)
		require.Equal(t, 1, v)
		require.Equal(t, 200*milli, took)
	})
}

// What a hedge was refused for on this side of the wire says nothing of the attempt
// under way.
func TestHedgeRefusedLocallyLeavesTheFirstAttemptAlone(t *testing.T) {
	for name, refusal := range map[string]error{
		"by a breaker": &backoff.OpenError{Name: "inner", State: backoff.StateHalfOpen},
		"by a budget":  backoff.Permanent(backoff.ErrBudget),
	} {
		hedgeTest(t, name, func(t *testing.T) {
			s := script(inTime(5*second, 1, nil), inTime(0, 0, refusal))
			v, _, err := s.run(t.Context(), &backoff.Hedge{Delay: second, MaxAttempts: 5})
			require.NoError(t, err)
			require.Equal(t, 1, v)
			require.Len(t, s.starts, 2)
		})
		hedgeTest(t, name+", then a failure", func(t *testing.T) {
			s := script(inTime(5*second, 1, errHedgeUnknown), inTime(0, 0, refusal))
			_, _, err := s.run(t.Context(), &backoff.Hedge{Delay: second, MaxAttempts: 5})
			require.ErrorIs(t, err, errHedgeUnknown)
			require.False(t, new(backoff.Policy).Retryable(err))
		})
		hedgeTest(t, name+", after a failure", func(t *testing.T) {
			s := script(inTime(0, 1, errHedgeUnknown), inTime(0, 0, refusal))
			_, _, err := s.run(t.Context(), &backoff.Hedge{Delay: second, MaxAttempts: 5})
			require.ErrorIs(t, err, refusal)
			require.False(t, new(backoff.Policy).Retryable(err))
			require.Len(t, s.starts, 2)
		})
		hedgeTest(t, name+", of the first", func(t *testing.T) {
			s := script(inTime(0, 0, refusal))
			_, _, err := s.run(t.Context(), &backoff.Hedge{Delay: second})
			require.ErrorIs(t, err, refusal)
			require.Contains(t, err.Error(), refusal.Error())
			require.False(t, new(backoff.Policy).Retryable(err))
		})
	}
	hedgeTest(t, "by a budget, of the first, comes back as it is", func(t *testing.T) {
		_, err := backoff.HedgeValue(t.Context(), &backoff.Hedge{}, inTime(0, 0, backoff.Permanent(backoff.ErrBudget)), nil)
		require.EqualError(t, err, backoff.ErrBudget.Error())
	})
	hedgeTest(t, "a refusal is no attempt", func(t *testing.T) {
		b := new(hedgeBudget)
		s := script(inTime(5*second, 1, errHedgeUnknown), inTime(0, 0, &backoff.OpenError{}))
		_, _, err := s.run(t.Context(), &backoff.Hedge{Delay: second, Budget: b})
		var gaveUp *backoff.Error
		require.ErrorAs(t, err, &gaveUp)
		require.Equal(t, 1, gaveUp.Attempts)
		require.Equal(t, backoff.ReasonOpen, gaveUp.Reason)
		require.ErrorIs(t, err, backoff.ErrOpen)
		require.Equal(t, []backoff.Outcome{backoff.OutcomeNotSent}, b.outcomes[2])
	})
	hedgeTest(t, "the service's last answer stands", func(t *testing.T) {
		s := script(inTime(0, 0, errHedgeUnknown), inTime(0, 0, &backoff.OpenError{}))
		_, _, err := s.run(t.Context(), &backoff.Hedge{Delay: second})
		require.ErrorIs(t, err, errHedgeUnknown)
		require.ErrorIs(t, err, backoff.ErrOpen)
	})
	hedgeTest(t, "by a half-open breaker", func(t *testing.T) {
		b := &backoff.Breaker{Streak: 1, StreakSpan: -1, OpenFor: backoff.Constant(second), Jitter: backoff.NoJitter}
		_ = b.Do(t.Context(), func(context.Context) error { return errHedgeUnknown })
		time.Sleep(second)
		s := script(inTime(500*milli, 1, nil), inTime(0, 2, nil))
		v, err := backoff.HedgeValue(t.Context(), &backoff.Hedge{Delay: 100 * milli}, func(ctx context.Context) (int, error) {
			return backoff.DoValue(ctx, b, s.op)
		}, nil)
		require.NoError(t, err)
		require.Equal(t, 1, v, "the probe")
		require.Len(t, s.starts, 1)
	})
}

func TestHedgeRefusedByTheBudgetOfItsOperation(t *testing.T) {
	hedgeTest(t, "says so if the first fails", func(t *testing.T) {
		s := script(inTime(5*second, 1, errHedgeUnknown), inTime(0, 0, backoff.Permanent(backoff.ErrBudget)))
		_, _, err := s.run(t.Context(), &backoff.Hedge{Delay: second, MaxAttempts: 3})
		require.ErrorContains(t, err, "budget refused: UNKNOWN")
	})
	hedgeTest(t, "unless it says that it may be retried", func(t *testing.T) {
		s := script(inTime(5*second, 1, nil), inTime(0, 0, backoff.Mark(backoff.ErrBudget, backoff.ClassRetryable)), inTime(0, 3, nil))
		v, _, err := s.run(t.Context(), &backoff.Hedge{Delay: second, MaxAttempts: 3})
		require.NoError(t, err)
		require.Equal(t, 3, v)
	})
}

// Neither is a Doer, and a loop around a hedge, or a hedge around a loop, does not
// multiply what it gave up on.
func TestRow58HedgeOrRetryNotBoth(t *testing.T) {
	_, doer := any(new(backoff.Hedge)).(backoff.Doer)
	require.False(t, doer, "it would fit into a Stack")

	hedgeTest(t, "a policy around does not repeat it", func(t *testing.T) {
		s := script(inTime(milli, 0, errHedgeUnavailable), inTime(milli, 0, errHedgeUnavailable), inTime(milli, 0, errHedgeUnavailable))
		_, err := backoff.DoValue(t.Context(), &backoff.Policy{}, func(ctx context.Context) (int, error) {
			return backoff.HedgeValue(ctx, hedgeGRPC(), s.op, nil)
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
			return backoff.HedgeValue(ctx, &backoff.Hedge{MaxAttempts: 1}, s.op, nil)
		})
		require.ErrorIs(t, err, errHedgeUnavailable)
		require.Len(t, s.starts, 3)
	})
	hedgeTest(t, "nor what was definitive", func(t *testing.T) {
		s := script(inTime(milli, 0, errHedgeInvalid))
		_, err := backoff.DoValue(t.Context(), &backoff.Policy{}, func(ctx context.Context) (int, error) {
			return backoff.HedgeValue(ctx, hedgeGRPC(), s.op, nil)
		})
		require.EqualError(t, err, errHedgeInvalid.Error())
		require.Len(t, s.starts, 1)
	})
	hedgeTest(t, "what a policy inside gave up on is final", func(t *testing.T) {
		s := script(inTime(0, 0, errHedgeUnavailable))
		_, err := backoff.HedgeValue(t.Context(), &backoff.Hedge{Delay: time.Hour}, func(ctx context.Context) (int, error) {
			return backoff.DoValue(ctx, &backoff.Policy{MaxAttempts: 2}, s.op)
		}, nil)
		require.ErrorIs(t, err, errHedgeUnavailable)
		require.Len(t, s.starts, 2, "of the policy; none of the hedge")
	})
}

func TestHedgeSendsNoneUntilItHasMeasuredAHundred(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h backoff.Hedge
		fast, slow := inTime(20*milli, 1, nil), inTime(time.Hour, 1, nil)
		for n := range 99 {
			require.Zero(t, h.Stats().Delay, "after %d", n)
			_, err := backoff.HedgeValue(t.Context(), &h, fast, nil)
			require.NoError(t, err)
			if n == 50 {
				s := script(slow, fast)
				_, took, err := s.run(t.Context(), &h)
				require.NoError(t, err)
				require.Equal(t, time.Hour, took)
			}
		}
		delay := h.Stats().Delay
		require.InEpsilon(t, float64(20*milli), float64(delay), .1)
		s := script(slow, fast)
		_, took, err := s.run(t.Context(), &h)
		require.NoError(t, err)
		require.Equal(t, delay+20*milli, took)
	})
}

// A failure needs no measure.
func TestHedgeAfterAFailureIsSentFromTheFirstCallOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script(inTime(5*milli, 0, errHedgeUnknown), inTime(time.Hour, 2, nil))
		v, _, err := s.run(t.Context(), &backoff.Hedge{MaxAttempts: 3})
		require.NoError(t, err)
		require.Equal(t, 2, v)
		require.Equal(t, []time.Duration{0, 5 * milli}, s.starts)
	})
}

// hedgeMeasured returns a hedge that has seen so many calls take d.
func hedgeMeasured(t *testing.T, d time.Duration) *backoff.Hedge {
	h := new(backoff.Hedge)
	for range 100 {
		_, err := backoff.HedgeValue(t.Context(), h, inTime(d, 0, nil), nil)
		require.NoError(t, err)
	}
	return h
}

func TestHedgeWithoutALimitOfExtraLoadIsSentAtTheDelayOfFivePercent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &backoff.Hedge{MaxExtraLoad: -1, MaxAttempts: 1}
		for n := range 200 {
			_, err := backoff.HedgeValue(t.Context(), h, inTime(time.Duration(n+1)*second, 0, nil), nil)
			require.NoError(t, err)
		}
		require.InDelta(t, 190, h.Stats().Delay.Seconds(), 3)
	})
}

func TestHedgeDelayIsAtLeastAMillisecondAndAtMostHalfTheTime(t *testing.T) {
	hedgeTest(t, "a millisecond", func(t *testing.T) {
		require.Equal(t, milli, hedgeMeasured(t, 0).Stats().Delay)
	})
	hedgeTest(t, "half the time", func(t *testing.T) {
		h := hedgeMeasured(t, second)
		ctx, cancel := context.WithTimeout(t.Context(), 800*milli)
		defer cancel()
		s := script(inTime(second, 1, nil), inTime(10*milli, 2, nil))
		_, took, err := s.run(ctx, h)
		require.NoError(t, err)
		require.Equal(t, 410*milli, took)
	})
	hedgeTest(t, "nothing, if a millisecond is more than half", func(t *testing.T) {
		h := hedgeMeasured(t, second)
		ctx, cancel := context.WithTimeout(t.Context(), 2*milli-1)
		defer cancel()
		s := script(inTime(second, 1, nil))
		_, took, err := s.run(ctx, h)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 2*milli-1, took)
		require.Len(t, s.starts, 1)
	})
}

func TestHedgeIsNotSentWithLessTimeLeftThanItsDelay(t *testing.T) {
	starts := func(t *testing.T, timeout time.Duration, first hedgeStep) ([]time.Duration, error) {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		s := script(first, inTime(time.Hour, 2, nil), inTime(time.Hour, 3, nil))
		_, _, err := s.run(ctx, &backoff.Hedge{Delay: 100 * milli, MaxAttempts: 3})
		synctest.Wait()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		return s.starts, err
	}
	hedgeTest(t, "by its delay", func(t *testing.T) {
		got, _ := starts(t, 200*milli-1, inTime(time.Hour, 1, nil))
		require.Equal(t, []time.Duration{0}, got)
		got, _ = starts(t, 200*milli, inTime(time.Hour, 1, nil))
		require.Equal(t, []time.Duration{0, 100 * milli}, got)
		got, _ = starts(t, 300*milli, inTime(time.Hour, 1, nil))
		require.Equal(t, []time.Duration{0, 100 * milli, 200 * milli}, got)
	})
	hedgeTest(t, "after a failure", func(t *testing.T) {
		got, err := starts(t, 130*milli, inTime(50*milli, 1, errHedgeUnknown))
		require.Equal(t, []time.Duration{0}, got)
		require.EqualError(t, err, "backoff: gave up after 1 attempt in 50ms: the next wait of 100ms would pass the deadline in 80ms: UNKNOWN")
		got, _ = starts(t, 150*milli, inTime(50*milli, 1, errHedgeUnknown))
		require.Equal(t, []time.Duration{0, 50 * milli}, got)
	})
}

// One call in a thousand takes 30 s, and what failed or was cancelled was not measured at all.
func TestHedgeEstimateIsOfWhatWasMeasured(t *testing.T) {
	hedgeTest(t, "outliers", func(t *testing.T) {
		h := backoff.Hedge{MaxAttempts: 1} // measures, and cannot shorten the tail
		service := lognormal(rand.New(rand.NewPCG(7, 8)), 1)
		for n := range 10_000 {
			op := service
			if n%1000 == 500 {
				op = inTime(30*second, 0, nil)
			}
			_, err := backoff.HedgeValue(t.Context(), &h, op, nil)
			require.NoError(t, err)
			if n > 1000 && n%100 == 0 {
				require.InDelta(t, 23.8, float64(h.Stats().Delay)/1e6, 5)
			}
		}
	})
	hedgeTest(t, "failures", func(t *testing.T) {
		h := hedgeMeasured(t, 20*milli)
		before := h.Stats().Delay
		for range 500 {
			_, err := backoff.HedgeValue(t.Context(), h, inTime(time.Microsecond, 0, errHedgeInvalid), nil)
			require.Error(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 10*milli)
			_, err = backoff.HedgeValue(ctx, h, inTime(second, 0, nil), nil)
			require.Error(t, err)
			cancel()
		}
		require.Equal(t, before, h.Stats().Delay)
	})
	hedgeTest(t, "failures that a hedge made good", func(t *testing.T) {
		h := hedgeMeasured(t, 20*milli)
		before := h.Stats().Delay
		for range 10 {
			s := script(inTime(0, 0, errHedgeUnknown), inTime(10*second, 2, nil))
			_, _, err := s.run(t.Context(), h)
			require.NoError(t, err)
		}
		for range 40 {
			_, err := backoff.HedgeValue(t.Context(), h, inTime(20*milli, 0, nil), nil)
			require.NoError(t, err)
		}
		require.Equal(t, before, h.Stats().Delay)
	})
	hedgeTest(t, "those beaten early, because of a deadline, count as slow", func(t *testing.T) {
		h := hedgeMeasured(t, 20*milli)
		h.MaxExtraLoad = -1
		before := h.Stats().Delay
		for range 2500 {
			ctx, cancel := context.WithTimeout(t.Context(), 8*milli)
			s := script(inTime(20*milli, 1, nil), inTime(0, 2, nil))
			v, took, err := s.run(ctx, h)
			cancel()
			require.NoError(t, err)
			require.Equal(t, 2, v)
			require.Equal(t, 4*milli, took)
		}
		require.InEpsilon(t, float64(before), float64(h.Stats().Delay), .1)
	})
	hedgeTest(t, "hedges are not, first attempts they beat are", func(t *testing.T) {
		h := hedgeMeasured(t, 20*milli)
		h.MaxExtraLoad = -1
		for range 400 {
			s := script(inTime(10*second, 1, nil), inTime(0, 2, nil))
			_, _, err := s.run(t.Context(), h)
			require.NoError(t, err)
		}
		require.Greater(t, h.Stats().Delay, 20*milli, "had the hedges counted, the delay would be that of nothing")
	})
}

func TestHedgeOfAFastCallStartsNoGoroutine(t *testing.T) {
	for name, h := range map[string]*backoff.Hedge{
		"measuring": {},
		"fixed":     {Delay: time.Minute},
		"off":       {MaxAttempts: 1},
	} {
		hedgeTest(t, name, func(t *testing.T) { // where a call takes no time, however busy the machine is
			more := math.MaxInt
			for range 100 { // others may come and go
				before, during := runtime.NumGoroutine(), 0
				_, err := backoff.HedgeValue(t.Context(), h, func(context.Context) (int, error) {
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
	for name, h := range map[string]*backoff.Hedge{
		"measuring": {},
		"fixed":     {Delay: time.Minute},
		"budget":    {Delay: time.Minute, Budget: new(backoff.RetryBudget)},
	} {
		t.Run(name, func(t *testing.T) {
			call := func() { _, _ = backoff.HedgeValue(t.Context(), h, op, nil) }
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
		v, took, err := s.run(t.Context(), &backoff.Hedge{Delay: 100 * milli})
		require.NoError(t, err)
		require.Equal(t, 2, v, "but does not become it")
		require.Equal(t, time.Hour, took)
		require.Equal(t, []int{1}, s.lost())
	})
	hedgeTest(t, "with it, not", func(t *testing.T) {
		s := script(deaf(time.Hour, 1, nil), inTime(milli, 2, nil))
		v, took, err := s.run(t.Context(), &backoff.Hedge{Delay: 100 * milli, Detach: true})
		require.NoError(t, err)
		require.Equal(t, 2, v)
		require.Equal(t, 101*milli, took)
		require.Empty(t, s.lost())
		rest(2 * time.Hour)
		require.Equal(t, []int{1}, s.lost())
	})
	hedgeTest(t, "everything else is the same", func(t *testing.T) {
		s := script(inTime(20*milli, 1, nil))
		v, took, err := s.run(t.Context(), &backoff.Hedge{Delay: 100 * milli, Detach: true})
		require.NoError(t, err)
		require.Equal(t, 1, v)
		require.Equal(t, 20*milli, took)
	})
	hedgeTest(t, "the end of the context is not waited for, either", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), second)
		defer cancel()
		s := script(deaf(time.Hour, 1, nil), deaf(time.Hour, 2, nil))
		_, took, err := s.run(ctx, &backoff.Hedge{Name: "slow", Delay: 100 * milli, Detach: true})
		require.EqualError(t, err, "backoff: slow: gave up after 2 attempts in 1s: context deadline exceeded")
		require.Equal(t, time.Second, took)
		rest(2 * time.Hour)
		require.ElementsMatch(t, []int{1, 2}, s.lost())
	})
}

func TestHedgeEndsWithItsContext(t *testing.T) {
	errGone := errors.New("caller is gone")
	hedgeTest(t, "before it began", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errGone)
		b := new(hedgeBudget)
		_, err := backoff.HedgeValue(ctx, &backoff.Hedge{Budget: b}, inTime(0, 0, errHedgeNever), nil)
		require.EqualError(t, err, "backoff: not started: caller is gone")
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, errGone)
		require.Empty(t, b.asked)
	})
	hedgeTest(t, "during the first attempt", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(50*milli, func() { cancel(errGone) })
		s := script(inTime(time.Hour, 1, nil))
		_, took, err := s.run(ctx, &backoff.Hedge{Delay: 100 * milli})
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, errGone)
		require.Equal(t, 50*milli, took)
	})
	hedgeTest(t, "while waiting for a hedge", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), second)
		defer cancel()
		s := script(inTime(milli, 1, errHedgeUnknown), deaf(time.Hour, 2, nil))
		_, took, err := s.run(ctx, &backoff.Hedge{Delay: 100 * milli})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, errHedgeUnknown)
		require.Equal(t, time.Second, took)
		rest(2 * time.Hour)
		require.Equal(t, []int{2}, s.lost())
	})
	hedgeTest(t, "while it waits for the server", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(second, cancel)
		b := new(hedgeBudget)
		s := script(inTime(0, 1, backoff.RetryAfter(errHedgeUnknown, time.Minute)))
		_, took, err := s.run(ctx, &backoff.Hedge{Budget: b})
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, errHedgeUnknown)
		require.Equal(t, time.Second, took)
		require.Len(t, b.asked, 1)
	})
	hedgeTest(t, "but a result is not lost", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), second)
		defer cancel()
		v, err := backoff.HedgeValue(ctx, &backoff.Hedge{}, deaf(2*second, 1, nil), nil)
		require.NoError(t, err)
		require.Equal(t, 1, v)
	})
	hedgeTest(t, "just when a hedge is due", func(t *testing.T) {
		for range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(100*milli, cancel)
			s := script(deaf(150*milli, 0, errHedgeUnknown), inTime(time.Hour, 0, nil))
			_, _, err := s.run(ctx, &backoff.Hedge{Delay: 100 * milli, MaxExtraLoad: -1})
			require.ErrorIs(t, err, context.Canceled)
		}
	})
}

func TestHedgeContexts(t *testing.T) {
	type key struct{}
	get := func(seen *context.Context, err error) func(context.Context) (int, error) {
		return func(ctx context.Context) (int, error) { *seen = ctx; return 0, err }
	}
	ask := func(seen *context.Context) func(context.Context) (int, error) {
		return func(ctx context.Context) (int, error) { *seen = ctx; _ = ctx.Done(); return 0, nil }
	}
	keep := func(int) {}
	hedgeTest(t, "carry the call's values and deadline", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "v"), second)
		defer cancel()
		for _, asks := range []bool{false, true} {
			_, err := backoff.HedgeValue(ctx, &backoff.Hedge{}, func(ctx context.Context) (int, error) {
				if asks {
					_ = ctx.Done()
				}
				deadline, ok := ctx.Deadline()
				if !ok || time.Until(deadline) != second || ctx.Value(key{}) != "v" || ctx.Err() != nil {
					return 0, errHedgeNever
				}
				return 0, nil
			}, nil)
			require.NoError(t, err)
		}
	})
	hedgeTest(t, "end with the call's, cause and all", func(t *testing.T) {
		for _, asks := range []bool{false, true} {
			ctx, cancel := context.WithCancelCause(t.Context())
			_, err := backoff.HedgeValue(ctx, &backoff.Hedge{}, func(attempt context.Context) (int, error) {
				if asks {
					_ = attempt.Done()
				}
				cancel(errHedgeUnknown)
				if attempt.Err() != context.Canceled {
					return 0, errHedgeNever
				}
				<-attempt.Done()
				if attempt.Err() != context.Canceled || context.Cause(attempt) != errHedgeUnknown {
					return 0, errHedgeNever
				}
				return 0, nil
			}, nil)
			require.NoError(t, err)
		}
	})
	hedgeTest(t, "of losers end, with those derived from them, for ErrHedgeLost", func(t *testing.T) {
		done := make(chan struct{})
		_, err := backoff.HedgeValue(t.Context(), &backoff.Hedge{Delay: milli}, func(ctx context.Context) (int, error) {
			if backoff.HedgeNumber(ctx) == 1 {
				return 0, nil
			}
			derived, cancel := context.WithCancel(context.WithValue(ctx, key{}, 1))
			defer cancel()
			before := runtime.NumGoroutine()
			stop := context.AfterFunc(derived, func() { close(done) })
			defer stop()
			if runtime.NumGoroutine() > before {
				return 0, errHedgeNever
			}
			<-done
			if derived.Err() != context.Canceled || context.Cause(derived) != backoff.ErrHedgeLost || ctx.Err() != context.Canceled {
				return 0, backoff.Permanent(errHedgeNever)
			}
			return 0, nil
		}, nil)
		require.NoError(t, err)
		<-done
	})
	hedgeTest(t, "of winners end with the call", func(t *testing.T) {
		for _, winner := range []func(*context.Context) func(context.Context) (int, error){
			ask, func(seen *context.Context) func(context.Context) (int, error) { return get(seen, nil) },
		} {
			var seen context.Context
			_, err := backoff.HedgeValue(context.WithValue(t.Context(), key{}, "v"), &backoff.Hedge{}, winner(&seen), nil)
			require.NoError(t, err)
			require.Equal(t, "v", seen.Value(key{}))
			require.Equal(t, context.Canceled, seen.Err())
			require.Equal(t, context.Canceled, context.Cause(seen))
			<-seen.Done()
			derived, cancel := context.WithCancel(seen)
			require.Error(t, derived.Err())
			cancel()
		}
	})
	hedgeTest(t, "of winners whose value may be discarded end with their caller's", func(t *testing.T) {
		for _, winner := range []func(*context.Context) func(context.Context) (int, error){
			ask, func(seen *context.Context) func(context.Context) (int, error) { return get(seen, nil) },
		} {
			var seen context.Context
			ctx, cancel := context.WithCancelCause(t.Context())
			_, err := backoff.HedgeValue(ctx, &backoff.Hedge{}, winner(&seen), keep)
			require.NoError(t, err)
			require.NoError(t, seen.Err())
			cancel(errHedgeUnknown)
			<-seen.Done()
			require.Equal(t, errHedgeUnknown, context.Cause(seen))
		}
	})
	hedgeTest(t, "of failures end at once", func(t *testing.T) {
		var seen context.Context
		_, err := backoff.HedgeValue(t.Context(), &backoff.Hedge{}, func(ctx context.Context) (int, error) {
			if backoff.HedgeNumber(ctx) == 0 {
				return get(&seen, errHedgeUnknown)(ctx)
			}
			if seen.Err() == nil {
				return 0, errHedgeNever
			}
			return 0, nil
		}, keep)
		require.NoError(t, err)
	})
	hedgeTest(t, "may be asked by many at once", func(t *testing.T) {
		for range 100 {
			var wg sync.WaitGroup
			_, err := backoff.HedgeValue(t.Context(), &backoff.Hedge{}, func(ctx context.Context) (int, error) {
				for range 4 {
					wg.Go(func() { <-ctx.Done() })
				}
				return 0, nil
			}, nil)
			require.NoError(t, err)
			wg.Wait()
		}
	})
	require.Zero(t, backoff.HedgeNumber(t.Context()))
}

func TestHedgeContextOfAFailureEndsForNoLaterCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen context.Context
		ctx, cancel := context.WithCancelCause(t.Context())
		_, err := backoff.HedgeValue(ctx, &backoff.Hedge{MaxAttempts: 1}, func(ctx context.Context) (int, error) {
			_, seen = ctx.Done(), ctx
			return 0, errHedgeUnknown
		}, nil)
		require.Error(t, err)
		cancel(errHedgeNever)
		require.Equal(t, context.Canceled, context.Cause(seen))
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
		v, _, err := s.run(t.Context(), &backoff.Hedge{})
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
		v, err := backoff.HedgeValue(t.Context(), &backoff.Hedge{Delay: milli}, s.op, nil)
		require.NoError(t, err)
		require.Equal(t, 2, v)
	})
}

// Whatever happens, every value made is returned or discarded, exactly once, and every
// attempt that a budget granted is settled, exactly once.
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
				if outcomes[0] == backoff.OutcomeNotSent {
					notSent++
				}
			}
			require.Len(t, s.starts, len(budget.asked)-notSent)
		})
	}
}

func TestHedgeCarriesPanicsToTheCaller(t *testing.T) {
	bang := func(d time.Duration, v any) hedgeStep {
		return func(ctx context.Context) (int, error) {
			time.Sleep(d)
			panic(v)
		}
	}
	for _, detach := range []bool{false, true} {
		hedgeTest(t, fmt.Sprintf("of a hedge, detach %v", detach), func(t *testing.T) {
			b := new(hedgeBudget)
			s := script(inTime(time.Hour, 1, nil), bang(milli, "bang"))
			h := &backoff.Hedge{Delay: 100 * milli, Detach: detach, Budget: b}
			require.PanicsWithValue(t, "bang", func() { _, _, _ = s.run(t.Context(), h) })
			require.Equal(t, 101*milli, time.Since(s.began))
			synctest.Wait()
			require.Equal(t, backoff.ErrHedgeLost, s.results[0])
			require.Equal(t, []backoff.Outcome{backoff.OutcomeTransient}, b.outcomes[2])
			require.Equal(t, []backoff.Outcome{backoff.OutcomeCanceled}, b.outcomes[1])
		})
		hedgeTest(t, fmt.Sprintf("of the first attempt, detach %v", detach), func(t *testing.T) {
			b := new(hedgeBudget)
			s := script(bang(150*milli, "bang"), inTime(time.Hour, 2, nil))
			h := &backoff.Hedge{Delay: 100 * milli, Detach: detach, Budget: b}
			require.PanicsWithValue(t, "bang", func() { _, _, _ = s.run(t.Context(), h) })
			synctest.Wait()
			require.Equal(t, backoff.ErrHedgeLost, s.results[1])
			require.Equal(t, []backoff.Outcome{backoff.OutcomeTransient}, b.outcomes[1])
			require.Equal(t, []backoff.Outcome{backoff.OutcomeCanceled}, b.outcomes[2])
		})
	}
	hedgeTest(t, "but not those that come too late", func(t *testing.T) {
		s := script(inTime(150*milli, 1, nil), bang(second, "bang"))
		b := new(hedgeBudget)
		h := &backoff.Hedge{Delay: 100 * milli, Budget: b}
		v, _, err := s.run(t.Context(), h)
		require.NoError(t, err)
		require.Equal(t, 1, v)
		rest(time.Minute)
		require.EqualValues(t, 1, h.Stats().Panics)
		require.Equal(t, []backoff.Outcome{backoff.OutcomeCanceled}, b.outcomes[2])
	})
	hedgeTest(t, "nor those of a discard", func(t *testing.T) {
		b := new(hedgeBudget)
		h := &backoff.Hedge{Delay: 100 * milli, Budget: b}
		s := script(inTime(150*milli, 1, nil), deaf(second, 2, nil))
		_, err := backoff.HedgeValue(t.Context(), h, s.op, func(int) { panic("discard") })
		require.NoError(t, err)
		rest(time.Minute)
		require.EqualValues(t, 1, h.Stats().Panics)
		require.Equal(t, []backoff.Outcome{backoff.OutcomeCanceled}, b.outcomes[2], "the budget hears of it once")
	})
	hedgeTest(t, "unless it runs on the caller's goroutine", func(t *testing.T) {
		s := script(deaf(second, 1, nil), inTime(0, 2, nil))
		require.PanicsWithValue(t, "discard", func() {
			_, _ = backoff.HedgeValue(t.Context(), &backoff.Hedge{Delay: milli}, s.op, func(int) { panic("discard") })
		})
	})
	hedgeTest(t, "and of a budget", func(t *testing.T) {
		b := &hedgeBudget{grant: func(a backoff.Attempt) (time.Duration, bool) {
			if a.Kind == backoff.KindHedge {
				panic("budget")
			}
			return 0, true
		}}
		require.PanicsWithValue(t, "budget", func() {
			_, _ = backoff.HedgeValue(t.Context(), &backoff.Hedge{Delay: milli, Budget: b}, inTime(second, 0, nil), nil)
		})
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
					_, _, _ = s.run(t.Context(), &backoff.Hedge{Delay: 100 * milli, Detach: detach})
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
		h := &backoff.Hedge{Delay: 100 * milli}
		_, _, err := s.run(t.Context(), h)
		require.NoError(t, err)
		rest(time.Minute)
		require.Zero(t, h.Stats().Panics)
	})
}

func TestHedgeAsksItsBudget(t *testing.T) {
	hedgeTest(t, "once for each attempt, and tells it how that ended", func(t *testing.T) {
		b := new(hedgeBudget)
		h := hedgeGRPC()
		h.Budget = b
		s := script(inTime(100*milli, 0, errHedgeUnavailable), inTime(time.Hour, 2, nil), inTime(milli, 3, nil))
		_, _, err := s.run(t.Context(), h)
		require.NoError(t, err)
		synctest.Wait()
		for i, want := range []backoff.Attempt{
			{Number: 1, Kind: backoff.KindFirst, Now: s.began},
			{Number: 2, Kind: backoff.KindHedge, Class: backoff.ClassRetryable, Now: s.began.Add(100 * milli)},
			{Number: 3, Kind: backoff.KindHedge, Class: backoff.ClassRetryable, Now: s.began.Add(600 * milli)},
		} {
			require.True(t, want.Now.Equal(b.asked[i].Now))
			want.Now = b.asked[i].Now
			require.Equal(t, want, b.asked[i])
		}
		require.Equal(t, map[uint64][]backoff.Outcome{
			1: {backoff.OutcomeTransient}, 2: {backoff.OutcomeCanceled}, 3: {backoff.OutcomeSuccess},
		}, b.outcomes)
	})
	hedgeTest(t, "which may refuse a hedge", func(t *testing.T) {
		b := &hedgeBudget{grant: func(a backoff.Attempt) (time.Duration, bool) { return 0, a.Kind == backoff.KindFirst }}
		h := &backoff.Hedge{Delay: 100 * milli, MaxAttempts: 5, Budget: b}
		s := script(inTime(second, 1, nil))
		v, _, err := s.run(t.Context(), h)
		require.NoError(t, err)
		require.Equal(t, 1, v)
		require.Len(t, b.asked, 2, "and is then left alone")
		require.Equal(t, map[uint64][]backoff.Outcome{1: {backoff.OutcomeSuccess}}, b.outcomes)
		require.EqualValues(t, 1, h.Stats().Refused)

		for range 20 { // what the hedge's own budget paid was paid back
			_, err = backoff.HedgeValue(t.Context(), h, inTime(150*milli, 0, errHedgeUnknown), nil)
			require.ErrorIs(t, err, backoff.ErrBudget)
			require.ErrorIs(t, err, errHedgeUnknown)
			require.ErrorContains(t, err, "budget refused: UNKNOWN")
		}
		require.Len(t, b.asked, 42)
	})
	hedgeTest(t, "which may refuse the call", func(t *testing.T) {
		b := &hedgeBudget{grant: func(backoff.Attempt) (time.Duration, bool) { return 0, false }}
		_, err := backoff.HedgeValue(t.Context(), &backoff.Hedge{Budget: b}, inTime(0, 0, nil), nil)
		require.EqualError(t, err, "backoff: not started: budget refused")
		require.ErrorIs(t, err, backoff.ErrBudget)
		require.Empty(t, b.outcomes)
	})
	hedgeTest(t, "which may refuse a hedge that the server had wait", func(t *testing.T) {
		b := &hedgeBudget{grant: func(a backoff.Attempt) (time.Duration, bool) { return 0, a.Kind == backoff.KindFirst }}
		s := script(inTime(0, 0, backoff.Pushback(errHedgeUnknown, second)))
		_, took, err := s.run(t.Context(), &backoff.Hedge{Budget: b})
		require.ErrorIs(t, err, backoff.ErrBudget)
		require.ErrorIs(t, err, errHedgeUnknown)
		require.Equal(t, time.Second, took)
	})
	hedgeTest(t, "which may be out of places at the last moment", func(t *testing.T) {
		b := &hedgeBudget{depart: func(number int) bool { return number == 1 }}
		h := &backoff.Hedge{Delay: 100 * milli, Budget: b}
		s := script(inTime(second, 0, errHedgeUnknown))
		_, _, err := s.run(t.Context(), h)
		require.ErrorIs(t, err, backoff.ErrBudget)
		require.Equal(t, map[uint64][]backoff.Outcome{1: {backoff.OutcomeTransient}, 2: {backoff.OutcomeNotSent}}, b.outcomes)
		require.Zero(t, h.Stats().Hedges)

		b = &hedgeBudget{depart: func(int) bool { return false }}
		_, err = backoff.HedgeValue(t.Context(), &backoff.Hedge{Budget: b}, inTime(0, 0, nil), nil)
		require.ErrorIs(t, err, backoff.ErrBudget)
		require.Equal(t, map[uint64][]backoff.Outcome{1: {backoff.OutcomeNotSent}}, b.outcomes)
	})
	hedgeTest(t, "which may want a hedge to wait", func(t *testing.T) {
		b := &hedgeBudget{grant: hedgeWait(second)}
		h := hedgeGRPC()
		h.Budget = b
		s := script(inTime(time.Hour, 1, nil), inTime(time.Hour, 2, nil), inTime(milli, 3, nil))
		_, _, err := s.run(t.Context(), h)
		require.NoError(t, err)
		require.Equal(t, []time.Duration{0, 1500 * milli, 4 * time.Second}, s.starts)
		require.Len(t, b.asked, 3)
	})
	hedgeTest(t, "also for all at once", func(t *testing.T) {
		h := hedgeGRPC()
		h.Delay, h.Budget = -1, &hedgeBudget{grant: hedgeWait(second)}
		s := script(inTime(time.Hour, 1, nil), inTime(time.Hour, 2, nil), inTime(milli, 3, nil))
		_, _, err := s.run(t.Context(), h)
		require.NoError(t, err)
		require.Equal(t, []time.Duration{0, time.Second, 3 * time.Second}, s.starts)
	})
	hedgeTest(t, "and gives back what it does not use", func(t *testing.T) {
		b := &hedgeBudget{grant: hedgeWait(second)}
		h := &backoff.Hedge{Delay: 100 * milli, Budget: b}
		for range 20 {
			s := script(inTime(200*milli, 1, nil))
			_, _, err := s.run(t.Context(), h)
			require.NoError(t, err)
			require.Len(t, s.starts, 1)
			require.Equal(t, []backoff.Outcome{backoff.OutcomeNotSent}, b.outcomes[2])
			b.outcomes = nil
		}
		require.Zero(t, h.Stats().Refused)
		require.Zero(t, h.Stats().Hedges)
	})
	hedgeTest(t, "also what would come too late", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), second)
		defer cancel()
		b := &hedgeBudget{grant: hedgeWait(second)}
		s := script(inTime(200*milli, 1, errHedgeUnknown))
		_, _, err := s.run(ctx, &backoff.Hedge{Delay: 100 * milli, Budget: b})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, map[uint64][]backoff.Outcome{1: {backoff.OutcomeTransient}, 2: {backoff.OutcomeNotSent}}, b.outcomes)
	})
	hedgeTest(t, "and a failure does not hurry it", func(t *testing.T) {
		h := &backoff.Hedge{Delay: 100 * milli, Budget: &hedgeBudget{grant: hedgeWait(second)}}
		s := script(inTime(200*milli, 1, errHedgeUnknown), inTime(milli, 2, nil))
		_, _, err := s.run(t.Context(), h)
		require.NoError(t, err)
		require.Equal(t, []time.Duration{0, 1100 * milli}, s.starts)
	})
}

func TestHedgeWaitsForItsBudget(t *testing.T) {
	patient := func() *hedgeBudget {
		return &hedgeBudget{grant: func(backoff.Attempt) (time.Duration, bool) { return second, true }}
	}
	hedgeTest(t, "before the first attempt, and does not measure it", func(t *testing.T) {
		h := &backoff.Hedge{Budget: patient(), MaxAttempts: 1}
		for range 100 {
			s := script(inTime(10*milli, 1, nil))
			_, _, err := s.run(t.Context(), h)
			require.NoError(t, err)
			require.Equal(t, []time.Duration{time.Second}, s.starts)
		}
		require.InEpsilon(t, float64(10*milli), float64(h.Stats().Delay), .1)
	})
	hedgeTest(t, "within its deadline", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), second)
		defer cancel()
		b := patient()
		_, err := backoff.HedgeValue(ctx, &backoff.Hedge{Budget: b}, inTime(0, 0, nil), nil)
		require.EqualError(t, err, "backoff: not started: the next wait of 1s would pass the deadline in 1s")
		require.Equal(t, map[uint64][]backoff.Outcome{1: {backoff.OutcomeNotSent}}, b.outcomes)

		b = patient()
		b.depart = func(int) bool { panic("it does not depart") }
		_, err = backoff.HedgeValue(ctx, &backoff.Hedge{Budget: b}, inTime(0, 0, nil), nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, map[uint64][]backoff.Outcome{1: {backoff.OutcomeNotSent}}, b.outcomes)
	})
	hedgeTest(t, "until its context ends", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(milli, cancel)
		b := patient()
		_, err := backoff.HedgeValue(ctx, &backoff.Hedge{Budget: b}, inTime(0, 0, nil), nil)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, map[uint64][]backoff.Outcome{1: {backoff.OutcomeNotSent}}, b.outcomes)
	})
}

// Losers hold their places in flight until they are back, so the cap is right.
func TestHedgeCountsAsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backoff.InFlight{Max: 2}
		h := &backoff.Hedge{Delay: 100 * milli, MaxAttempts: 3, Budget: b}
		s := script(inTime(250*milli, 1, nil), deaf(second, 2, nil), inTime(0, 3, nil))
		v, _, err := s.run(t.Context(), h)
		require.NoError(t, err)
		require.Equal(t, 1, v, "there was no place for a third")
		require.Equal(t, 1, b.Load())
		rest(time.Minute)
		require.Zero(t, b.Load())
	})
}

func TestHedgeIdempotency(t *testing.T) {
	for _, i := range []backoff.Idempotency{backoff.NonIdempotent, backoff.NeverRetry} {
		h := &backoff.Hedge{Idempotency: i}
		want := fmt.Sprintf("backoff: Hedge.Idempotency is %v, but a hedge sends the operation twice", i)
		require.EqualError(t, h.Validate(), want)
		_, err := backoff.HedgeValue(t.Context(), h, inTime(0, 0, errHedgeNever), nil)
		require.EqualError(t, err, want)
		require.False(t, new(backoff.Policy).Retryable(err))
	}
	hedgeTest(t, "all attempts have the same key", func(t *testing.T) {
		var keys sync.Map
		for range 2 {
			_, err := backoff.HedgeValue(t.Context(), &backoff.Hedge{Delay: milli, Idempotency: backoff.Keyed}, func(ctx context.Context) (int, error) {
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
		_, err := backoff.HedgeValue(backoff.WithIdempotencyKey(t.Context(), "mine"), &backoff.Hedge{Idempotency: backoff.Keyed}, func(ctx context.Context) (int, error) {
			require.Equal(t, "mine", backoff.IdempotencyKey(ctx))
			return 0, nil
		}, nil)
		require.NoError(t, err)
	})
	never := backoff.Conditional(func(context.Context) bool { return false })
	hedgeTest(t, "a condition that does not hold", func(t *testing.T) {
		s := script(inTime(second, 1, nil))
		_, _, err := s.run(t.Context(), &backoff.Hedge{Delay: 100 * milli, Idempotency: never})
		require.NoError(t, err)
		require.Len(t, s.starts, 1)

		s = script(inTime(0, 1, errHedgeUnknown))
		_, _, err = s.run(t.Context(), &backoff.Hedge{Delay: 100 * milli, Idempotency: never})
		require.EqualError(t, err, "backoff: gave up after 1 attempt: not idempotent, not sent again: UNKNOWN")
	})
	hedgeTest(t, "but what was not sent may be sent", func(t *testing.T) {
		s := script(inTime(0, 1, backoff.Mark(errHedgeUnknown, backoff.ClassUnsent)), inTime(0, 2, nil))
		v, _, err := s.run(t.Context(), &backoff.Hedge{Delay: 100 * milli, Idempotency: never})
		require.NoError(t, err)
		require.Equal(t, 2, v)
	})
}

func TestHedgeValidate(t *testing.T) {
	for _, h := range []*backoff.Hedge{
		{}, {MaxExtraLoad: -1}, {MaxExtraLoad: 1}, {MaxAttempts: 100}, {Delay: -1}, {Idempotency: backoff.Keyed},
		{Idempotency: backoff.AlwaysRetry}, {Budget: new(backoff.RetryBudget)},
	} {
		require.NoError(t, h.Validate())
	}
	require.EqualError(t, (&backoff.Hedge{MaxExtraLoad: 5}).Validate(),
		"backoff: Hedge.MaxExtraLoad is 5, want a share of at most 1, or a negative number for no limit")
	require.ErrorContains(t, (&backoff.Hedge{MaxExtraLoad: 1.5e21}).Validate(), "Hedge.MaxExtraLoad is 1.5e+21")
	require.ErrorContains(t, (&backoff.Hedge{MaxExtraLoad: math.NaN()}).Validate(), "Hedge.MaxExtraLoad is NaN")
	require.ErrorContains(t, (&backoff.Hedge{Budget: &backoff.RetryBudget{Ratio: -1}}).Validate(), "RetryBudget.Ratio")
}

func TestHedgeStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &backoff.Hedge{Delay: 100 * milli}
		require.Equal(t, backoff.HedgeStats{Delay: 100 * milli}, h.Stats())
		for _, steps := range [][]hedgeStep{
			{inTime(0, 0, nil)},
			{inTime(second, 0, nil), inTime(0, 0, nil)},
			{inTime(second, 0, nil), inTime(0, 0, errHedgeUnknown)},
			{inTime(0, 0, backoff.Permanent(errHedgeInvalid))},
		} {
			_, _, _ = script(steps...).run(t.Context(), h)
		}
		require.Equal(t, backoff.HedgeStats{Calls: 3, Hedges: 2, Wins: 1, Delay: 100 * milli}, h.Stats())
	})
}

// An attempt that ends at the very moment its hedge is due: whoever comes second finds out.
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
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	h := &backoff.Hedge{Delay: milli, MaxExtraLoad: -1}
	for range 10 {
		_, err := backoff.HedgeValue(ctx, h, func(context.Context) (int, error) { return 0, nil }, nil)
		require.NoError(t, err, "its timer did not go off")
		_, err = backoff.HedgeValue(ctx, h, func(ctx context.Context) (int, error) {
			if backoff.HedgeNumber(ctx) == 0 {
				<-ctx.Done()
			}
			return 0, ctx.Err()
		}, nil)
		require.NoError(t, err)
	}
}

// In earnest: many callers, and timers that are used again.
func TestHedgeUnderLoad(t *testing.T) {
	h := &backoff.Hedge{Delay: 50 * time.Microsecond, MaxAttempts: 3, MaxExtraLoad: -1}
	var open atomic.Int64
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(9, uint64(worker)))
			for range 500 {
				d := time.Duration(random.IntN(150)) * time.Microsecond
				v, err := backoff.HedgeValue(t.Context(), h, func(ctx context.Context) (int, error) {
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
