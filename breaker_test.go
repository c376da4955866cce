package backoff_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/clock"
)

var errOutage = errors.New("outage")

// feed makes n calls that end with err, and returns how many were admitted.
func feed(d backoff.Doer, n int, err error) (admitted int) {
	for range n {
		_ = d.Do(context.Background(), func(ctx context.Context) error {
			if ctx.Err() == nil {
				admitted++
			}
			return err
		})
	}
	return admitted
}

// stateAfter is the state of b after n more calls that end with err.
func stateAfter(b *backoff.Breaker, n int, err error) backoff.BreakerState {
	feed(b, n, err)
	return b.State()
}

// rateBreaker returns one that opens by its rate only, for exactly 5 s, 6 s and
// so on.
func rateBreaker() *backoff.Breaker {
	return &backoff.Breaker{Name: "db", ConsecutiveFailures: -1, OpenFor: backoff.Exponential{Initial: 5 * time.Second, Multiplier: 1.2, Max: time.Minute}, Jitter: backoff.NoJitter}
}

// openBreaker returns a rateBreaker that a failure has opened.
func openBreaker(t *testing.T) *backoff.Breaker {
	b := rateBreaker()
	require.Equal(t, backoff.BreakerOpen, stateAfter(b, 20, errOutage))
	return b
}

// halfOpenBreaker returns a breaker that is half-open.
func halfOpenBreaker(t *testing.T) *backoff.Breaker {
	b := openBreaker(t)
	time.Sleep(5 * time.Second)
	require.Equal(t, backoff.BreakerHalfOpen, b.State())
	return b
}

// permit is an admission of b.
func permit(t *testing.T, b *backoff.Breaker) (done func(error)) {
	done, err := b.Allow()
	require.NoError(t, err)
	return done
}

// bubble runs a test under a clock of its own.
func bubble(t *testing.T, name string, test func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// Exactly half is enough, given a minimum of calls.
func TestBreakerOpensAtHalfOfTwentyCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b backoff.Breaker
		feed(&b, 10, nil)
		time.Sleep(time.Second)
		require.Equal(t, backoff.BreakerClosed, stateAfter(&b, 9, errOutage))
		require.Equal(t, backoff.BreakerOpen, stateAfter(&b, 1, errOutage))
		require.Zero(t, feed(&b, 5, nil))

		b.Reset()
		time.Sleep(time.Second)
		feed(&b, 11, nil)
		require.Equal(t, backoff.BreakerClosed, stateAfter(&b, 10, errOutage), "10 of 21 are less")
	})
}

// A call that fails in the first moments may be one that a retry would have mended: the budget
// has seen too few successes to grant it.
func TestBreakerWaitsASecondForWhatServesSomeCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b backoff.Breaker
		feed(&b, 10, nil)
		time.Sleep(999 * time.Millisecond)
		require.Equal(t, backoff.BreakerClosed, stateAfter(&b, 30, errOutage))
		time.Sleep(time.Millisecond)
		require.Equal(t, backoff.BreakerOpen, stateAfter(&b, 1, errOutage))

		var down backoff.Breaker
		require.Equal(t, 20, feed(&down, 30, errOutage), "nothing is served")
	})
}

// A third of the calls fail at once, and the others take as long as usual.
func TestBreakerOfANewClientDoesNotTakeQuickFailuresForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := rateBreaker()
		var calls sync.WaitGroup
		for i := range 300 {
			calls.Go(func() {
				_ = b.Do(context.Background(), func(context.Context) error {
					if i%3 == 0 {
						return errOutage
					}
					time.Sleep(200 * time.Millisecond)
					return nil
				})
			})
			time.Sleep(time.Millisecond)
		}
		calls.Wait()
		require.Equal(t, backoff.BreakerClosed, b.State())
	})
}

func TestBreakerThresholdIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for percent := 1; percent <= 100; percent++ {
			for _, window := range []int{0, 100} {
				b := &backoff.Breaker{FailureRate: float64(percent) / 100, MinCalls: 100, WindowCalls: window, ConsecutiveFailures: -1}
				time.Sleep(time.Second)
				feed(b, 100-percent+1, nil)
				require.Equal(t, backoff.BreakerClosed, stateAfter(b, percent-1, errOutage), "%d of 100", percent-1)

				b.Reset()
				time.Sleep(time.Second)
				feed(b, 100-percent, nil)
				require.Equal(t, backoff.BreakerOpen, stateAfter(b, percent, errOutage), "%d of 100", percent)
			}
		}
	})
}

func TestBreakerOpensAfterConsecutiveFailuresOverASecond(t *testing.T) {
	bubble(t, "one call a second to a dead host", func(t *testing.T) {
		var b backoff.Breaker
		for n := 1; n <= 5; n++ {
			time.Sleep(time.Second)
			require.Equal(t, 1, feed(&b, 1, errOutage), "call %d", n)
		}
		require.Equal(t, backoff.BreakerOpen, b.State())
	})
	bubble(t, "five at once are no streak", func(t *testing.T) {
		var b backoff.Breaker
		feed(&b, 5, errOutage)
		time.Sleep(999 * time.Millisecond)
		require.Equal(t, backoff.BreakerClosed, stateAfter(&b, 1, errOutage))
		time.Sleep(time.Millisecond)
		require.Equal(t, backoff.BreakerOpen, stateAfter(&b, 1, errOutage))
	})
	bubble(t, "a success between", func(t *testing.T) {
		b := &backoff.Breaker{FailureRate: -1}
		for range 10 {
			feed(b, 4, errOutage)
			time.Sleep(time.Second)
			feed(b, 1, nil)
		}
		require.Equal(t, backoff.BreakerClosed, b.State())
	})
	bubble(t, "a service that serves one call of ten", func(t *testing.T) {
		b := &backoff.Breaker{FailureRate: -1}
		random := rand.New(rand.NewPCG(1, 0))
		for range 12_000 {
			err := errOutage
			if random.IntN(10) == 0 {
				err = nil
			}
			require.Equal(t, 1, feed(b, 1, err))
			time.Sleep(10 * time.Millisecond)
		}
	})
	bubble(t, "no span", func(t *testing.T) {
		require.Equal(t, 3, feed(&backoff.Breaker{ConsecutiveFailures: 3, ConsecutiveSpan: -1}, 4, errOutage))
	})
}

// A burst after a pause: its successes cannot be dated exactly, for which it
// must not be punished.
func TestBreakerSurvivesABurstAfterAPause(t *testing.T) {
	for _, pause := range []time.Duration{9 * time.Second, time.Minute, 24 * time.Hour} {
		bubble(t, pause.String(), func(t *testing.T) {
			var b backoff.Breaker
			feed(&b, 1, nil)
			time.Sleep(pause)
			feed(&b, 1000, nil)
			require.Equal(t, backoff.BreakerClosed, stateAfter(&b, 100, errOutage))
			time.Sleep(999 * time.Millisecond)
			require.Equal(t, backoff.BreakerClosed, stateAfter(&b, 100, errOutage))
		})
	}
}

func TestBreakerIgnoresRareErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b backoff.Breaker
		for n := range 30_000 { // at 1000 a second, three windows
			err := error(nil)
			if n%1000 == 0 {
				err = errOutage
			}
			require.Equal(t, 1, feed(&b, 1, err))
			time.Sleep(time.Millisecond)
		}
	})
}

func TestBreakerOpensSoonAfterALongHealthyTime(t *testing.T) {
	for _, share := range []int{100, 60} {
		bubble(t, fmt.Sprintf("%d%%", share), func(t *testing.T) {
			var b backoff.Breaker
			for range 12_000 { // 2 minutes at 100 a second
				feed(&b, 1, nil)
				time.Sleep(10 * time.Millisecond)
			}
			outage, n := time.Now(), 0
			for b.State() == backoff.BreakerClosed {
				err := errOutage
				if n++; n%10 >= share/10 {
					err = nil
				}
				feed(&b, 1, err)
				time.Sleep(10 * time.Millisecond)
			}
			limit := 10 * time.Second // 8.3 s until half of the window's calls are failures
			if share == 100 {
				limit = 1010 * time.Millisecond // a streak
			}
			require.LessOrEqual(t, time.Since(outage), limit)
		})
	}
}

func TestBreakerForgetsWhatIsOlderThanItsWindow(t *testing.T) {
	bubble(t, "time", func(t *testing.T) {
		b := rateBreaker()
		feed(b, 19, errOutage)
		time.Sleep(10 * time.Second)
		require.Equal(t, backoff.BreakerClosed, stateAfter(b, 19, errOutage))
		time.Sleep(time.Hour)
		require.Equal(t, backoff.BreakerClosed, stateAfter(b, 19, errOutage))
		time.Sleep(9999 * time.Millisecond)
		require.Equal(t, backoff.BreakerOpen, stateAfter(b, 1, errOutage))
	})
	bubble(t, "calls", func(t *testing.T) {
		b := &backoff.Breaker{WindowCalls: 10, ConsecutiveFailures: -1}
		feed(b, 5, errOutage)
		time.Sleep(time.Hour)
		feed(b, 4, nil)
		require.EqualValues(t, 5, b.Stats().Failures, "however long ago")
		feed(b, 6, nil)
		require.EqualValues(t, 0, b.Stats().Failures)
		require.Equal(t, backoff.BreakerOpen, stateAfter(b, 5, errOutage))
	})
	bubble(t, "one call", func(t *testing.T) {
		b := &backoff.Breaker{WindowCalls: 1, ConsecutiveFailures: -1}
		feed(b, 5, nil)
		require.Equal(t, 1, feed(b, 2, errOutage))
	})
	bubble(t, "never", func(t *testing.T) {
		b := rateBreaker()
		b.Window = -1
		feed(b, 19, errOutage)
		time.Sleep(1000 * time.Hour)
		require.Equal(t, backoff.BreakerOpen, stateAfter(b, 1, errOutage))
	})
}

func TestBreakerOpensOnSlowCalls(t *testing.T) {
	slow := func(err error) func(context.Context) error {
		return func(context.Context) error { time.Sleep(time.Second); return err }
	}
	for _, window := range []int{0, 20} {
		bubble(t, fmt.Sprint(window), func(t *testing.T) {
			b := rateBreaker()
			b.SlowCall, b.WindowCalls, b.Window, b.SlowRate = time.Second, window, time.Minute, 0.3
			feed(b, 14, nil)
			for range 5 {
				require.NoError(t, b.Do(t.Context(), slow(nil)))
			}
			require.Equal(t, backoff.BreakerClosed, b.State())
			require.Equal(t, errOutage, b.Do(t.Context(), slow(errOutage)))
			require.Equal(t, backoff.BreakerOpen, b.State())
			time.Sleep(5 * time.Second)
			require.NoError(t, b.Do(t.Context(), slow(nil)))
			require.Equal(t, backoff.BreakerOpen, b.State(), "a slow probe fails")
		})
	}
	bubble(t, "rule switched off", func(t *testing.T) {
		b := &backoff.Breaker{SlowCall: time.Second, SlowRate: -1}
		for range 100 {
			require.NoError(t, b.Do(t.Context(), slow(nil)))
		}
		require.EqualValues(t, 10, b.Stats().Slow)
	})
}

func TestStatsSayWhatOpenedTheCircuitUntilItCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := rateBreaker()
		b.RampUp = time.Minute
		counts := func() [3]int {
			s := b.Stats()
			return [...]int{int(s.Successes), int(s.Failures), s.ConsecutiveFailures}
		}
		feed(b, 10, nil)
		time.Sleep(2 * time.Second)
		feed(b, 9, errOutage)
		require.Equal(t, [...]int{10, 9, 9}, counts())
		feed(b, 5, errOutage)
		for range 3 {
			require.Equal(t, [...]int{10, 10, 10}, counts(), "open")
			time.Sleep(b.Stats().RetryAfter)
			require.Equal(t, [...]int{10, 10, 10}, counts(), "half-open")
			feed(b, 1, errOutage)
		}
		time.Sleep(b.Stats().RetryAfter)
		feed(b, 2, nil)
		require.Zero(t, counts(), "closed")
		b.Trip()
		require.Zero(t, counts(), "by hand")
		b.Force(backoff.ModeForcedOpen)
		require.Zero(t, counts())
	})
}

func TestBreakerObeysARuleOfTheUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var triggers []string
		b := &backoff.Breaker{FailureRate: -1, ConsecutiveFailures: -1}
		b.Observer = onTransition(func(tr backoff.BreakerTransition) { triggers = append(triggers, tr.Trigger) })
		b.TripIf = func(s backoff.BreakerStats) bool {
			require.Equal(t, backoff.BreakerClosed, b.State(), "may call the breaker")
			return s.Failures == 7 && s.Successes == 3 && b.Stats().ConsecutiveFailures == 4
		}
		feed(b, 3, errOutage)
		feed(b, 3, nil)
		require.Equal(t, backoff.BreakerClosed, stateAfter(b, 3, errOutage))
		require.Equal(t, backoff.BreakerOpen, stateAfter(b, 1, errOutage))
		require.Equal(t, []string{"rule"}, triggers)
	})
}

func TestBreakerRuleComesTooLate(t *testing.T) {
	b := &backoff.Breaker{}
	b.TripIf = func(backoff.BreakerStats) bool { b.Reset(); return true }
	require.Equal(t, backoff.BreakerClosed, stateAfter(b, 1, errOutage), "the phase it judged is over")
}

func TestBreakerModes(t *testing.T) {
	bubble(t, "forced open", func(t *testing.T) {
		b := rateBreaker()
		b.Rand = func() float64 { return 0 }
		b.Observer = onTransition(func(tr backoff.BreakerTransition) { require.Zero(t, tr.RetryAfter, "nobody knows") })
		b.Force(backoff.ModeForcedOpen)
		b.Trip()
		b.Reset()
		require.Equal(t, backoff.BreakerStats{State: backoff.BreakerOpen, Mode: backoff.ModeForcedOpen, Generation: 1}, b.Stats())
		time.Sleep(1000 * time.Hour)
		require.Zero(t, feed(b, 10, nil))
		require.Equal(t, backoff.BreakerOpen, b.State())
		err := b.Do(t.Context(), nil)
		require.EqualError(t, err, "backoff: db: circuit open")
		require.Zero(t, err.(*backoff.OpenError).RetryAfter())
		b.Force(backoff.ModeEnforce)
		require.Equal(t, 10, feed(b, 10, nil))
		b = openBreaker(t)
		b.Force(backoff.ModeForcedOpen)
		require.EqualError(t, b.Do(t.Context(), nil), "backoff: db: circuit open", "what opened it before is another matter")
	})
	bubble(t, "forced closed", func(t *testing.T) {
		b := openBreaker(t)
		b.Force(backoff.ModeForcedClosed)
		b.Trip()
		require.Equal(t, 100, feed(b, 100, errOutage))
		permit(t, b)(errOutage)
		require.Equal(t, backoff.BreakerStats{Mode: backoff.ModeForcedClosed, Generation: 2}, b.Stats())
		late := permit(t, b)
		b.Force(backoff.ModeEnforce)
		late(errOutage)
		require.Equal(t, 20, feed(b, 100, errOutage), "it counts from the beginning")
	})
	bubble(t, "observe", func(t *testing.T) {
		var to []backoff.BreakerState
		b := rateBreaker()
		b.Observer = onTransition(func(tr backoff.BreakerTransition) { to = append(to, tr.To) })
		b.Force(backoff.ModeObserve)
		require.Equal(t, 30, feed(b, 30, errOutage))
		require.Equal(t, backoff.BreakerOpen, b.State())
		time.Sleep(5 * time.Second)
		permit(t, b) // a probe that never answers
		require.Equal(t, 10, feed(b, 10, errOutage), "what would be refused has no consequence")
		time.Sleep(5 * time.Second)
		require.Equal(t, 2, feed(b, 2, nil))
		require.Equal(t, []backoff.BreakerState{backoff.BreakerOpen, backoff.BreakerHalfOpen, backoff.BreakerClosed}, to)
	})
	bubble(t, "no change", func(t *testing.T) {
		b := openBreaker(t)
		b.Force(backoff.ModeEnforce)
		b.Force(backoff.ModeForcedClosed + 1)
		b.Force(backoff.BreakerMode(100))
		require.Equal(t, backoff.BreakerOpen, b.State())
	})
}

func TestBreakerObservesWithoutARamp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backoff.Breaker{RampUp: time.Minute, ProbeSuccesses: 1}
		b.Force(backoff.ModeObserve)
		b.Trip()
		require.Equal(t, backoff.BreakerOpen, b.State())
		time.Sleep(10 * time.Second)
		require.Equal(t, 100, feed(b, 100, nil))
		require.Equal(t, backoff.BreakerClosed, b.State())
	})
}

func TestBreakerTripsAndResetsByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := rateBreaker()
		b.Reset()
		b.Trip()
		require.Zero(t, feed(b, 1, nil))
		time.Sleep(time.Second)
		b.Trip()
		require.Equal(t, 4*time.Second, b.Stats().RetryAfter, "open already")
		time.Sleep(4 * time.Second)
		b.Trip()
		require.Equal(t, 6*time.Second, b.Stats().RetryAfter, "it was time to probe")
		b.Reset()
		require.Equal(t, 1, feed(b, 1, nil))
		b.Trip()
		require.Equal(t, 5*time.Second, b.Stats().RetryAfter, "Reset forgets the openings")
		time.Sleep(time.Minute)
		require.Zero(t, b.Stats().RetryAfter, "long past")
	})
}

func TestBreakerValidates(t *testing.T) {
	impossible := backoff.UniformJitter(2, 1)
	for want, b := range map[string]*backoff.Breaker{
		"backoff: Breaker.FailureRate is 1.5, want 0 (for 0.5), a share up to 1, or a negative number for none":                 {FailureRate: 1.5},
		"backoff: Breaker.SlowRate is NaN, want 0 (for 0.5), a share up to 1, or a negative number for none":                    {SlowRate: math.NaN()},
		"backoff: Breaker.SlowRate is 1.5, want 0 (for 0.5), a share up to 1, or a negative number for none":                    {SlowRate: 1.5},
		"backoff: Breaker.SlowRate is 1e+21, want 0 (for 0.5), a share up to 1, or a negative number for none":                  {SlowRate: 1e21},
		"backoff: Breaker.WindowCalls is 10001, want at most 10000":                                                             {WindowCalls: 10_001},
		"backoff: Breaker.ProbeSuccesses is -1, want 0 (for 2) or more":                                                         {ProbeSuccesses: -1},
		"backoff: Breaker.OpenFor: Constant is -1ns, want 0 or more":                                                            {OpenFor: backoff.Constant(-1)},
		"backoff: Breaker.Jitter has impossible bounds: DecorrelatedJitter wants 0 <= base <= max, UniformJitter 0 <= lo <= hi": {Jitter: impossible},
	} {
		require.EqualError(t, b.Validate(), want)
		require.EqualError(t, b.Do(context.Background(), nil), want, "refused before the call")
		_, err := b.Allow()
		require.EqualError(t, err, want)
		b.Trip()
		b.Reset()
		b.Force(backoff.ModeForcedClosed)
		require.EqualError(t, b.Do(context.Background(), nil), want)
		require.Equal(t, backoff.BreakerClosed, b.State())
		require.Equal(t, "invalid", b.Stats().Mode.String())
		require.Equal(t, backoff.ClassPermanent, backoff.DefaultClassifier(err))
	}
	require.NoError(t, new(backoff.Breaker).Validate())
	require.NoError(t, (&backoff.Breaker{FailureRate: 1, SlowRate: 1, WindowCalls: 10_000}).Validate())
	all := backoff.Breaker{FailureRate: -0.1, MinCalls: -1, Window: -1, WindowCalls: -1, ConsecutiveFailures: -1, ConsecutiveSpan: -1, SlowCall: -1, SlowRate: -1,
		MaxRetryAfter: -1, MaxProbes: -1, ProbeTimeout: -1, RampUp: -1, MinAttemptTime: -1}
	require.NoError(t, all.Validate())
	require.Equal(t, 1000, feed(&all, 1000, errOutage), "no rule is left")
}

func TestBreakerErrorTellsWhatToDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := openBreaker(t)
		time.Sleep(time.Second)
		err := b.Do(t.Context(), nil)
		require.EqualError(t, err, "backoff: db: circuit open: outage")
		require.ErrorIs(t, err, backoff.ErrOpen)
		require.NotErrorIs(t, err, errOutage, "which happened to another call")
		open := refusedBy(t, err)
		require.Equal(t, "db", open.Name)
		require.Equal(t, backoff.BreakerOpen, open.State)
		require.Equal(t, errOutage, open.Last)
		require.Equal(t, 4*time.Second, open.RetryAfter())
		require.False(t, open.RetryableError())
		open.NonRetriable()
		require.Equal(t, backoff.ClassPermanent, backoff.DefaultClassifier(err))

		time.Sleep(4 * time.Second)
		require.Zero(t, open.RetryAfter())
		_, _ = b.Allow()
		time.Sleep(time.Second)
		require.EqualError(t, b.Do(t.Context(), nil), "backoff: db: circuit half-open: outage")
		require.Zero(t, open.RetryAfter(), "long past")
	})
	var b backoff.Breaker
	b.Force(backoff.ModeForcedOpen)
	err := b.Do(context.Background(), nil)
	require.EqualError(t, err, "backoff: circuit open")
	require.Equal(t, backoff.ErrOpen, err.(*backoff.OpenError).Unwrap())
	require.EqualError(t, &backoff.OpenError{State: 9}, "backoff: circuit half-open")
}

func TestBreakerNamesAreTexts(t *testing.T) {
	require.Equal(t, "closed open half-open invalid", fmt.Sprint(backoff.BreakerClosed, backoff.BreakerOpen, backoff.BreakerHalfOpen, backoff.BreakerState(9)))
	require.Equal(t, "enforce observe forced open forced closed invalid", fmt.Sprint(backoff.ModeEnforce, backoff.ModeObserve,
		backoff.ModeForcedOpen, backoff.ModeForcedClosed, backoff.BreakerMode(9)))
}

// A refusal neither waits nor allocates.
func TestBreakerRefusesAtOnce(t *testing.T) {
	b := &backoff.Breaker{OpenFor: backoff.Constant(time.Hour)}
	b.Trip()
	defer b.Reset()
	ctx := context.Background()
	calls := 0
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if err := b.Do(ctx, func(context.Context) error { calls++; return nil }); err == nil {
			t.Error("admitted")
		}
	}))
	require.Zero(t, calls)
}

// An observer is told, and changes nothing; nor does it matter that the call is
// the first.
func TestBreakerRefusesBeforeItLooksAtTheContext(t *testing.T) {
	ended := endedContext(t)
	for _, observer := range []backoff.Observer{nil, func(context.Context, backoff.Event) {}} {
		open := &backoff.Breaker{Observer: observer}
		open.Force(backoff.ModeForcedOpen)
		require.ErrorIs(t, open.Do(ended, nil), backoff.ErrOpen)

		unused := &backoff.Breaker{Observer: observer, ProbeSuccesses: -1}
		require.ErrorContains(t, unused.Do(ended, nil), "Breaker.ProbeSuccesses")
		require.ErrorContains(t, unused.Do(ended, nil), "Breaker.ProbeSuccesses")
	}
	require.Equal(t, context.Canceled, new(backoff.Breaker).Do(ended, nil))
}

func TestBreakerAllocatesNothingWhileCallsSucceed(t *testing.T) {
	ctx := context.Background()
	calls := 0
	for _, b := range []*backoff.Breaker{{}, {SlowCall: time.Hour}} {
		require.NoError(t, b.Do(ctx, func(context.Context) error { return nil }))
		require.Zero(t, testing.AllocsPerRun(100, func() {
			_ = b.Do(ctx, func(context.Context) error { calls++; return nil })
		}))
		feed(b, 1, errOutage)
		require.Zero(t, testing.AllocsPerRun(100, func() {
			_ = b.Do(ctx, func(context.Context) error { calls++; return errOutage })
			_ = b.Do(ctx, func(context.Context) error { calls++; return nil })
			_ = b.Do(ctx, func(context.Context) error { calls++; return nil })
		}))
	}
}

func TestBreakerTakesNoLockWhileCallsSucceed(t *testing.T) {
	observed := &backoff.Breaker{Name: "db", Shared: new(rumour)}
	observed.Force(backoff.ModeObserve)
	for name, b := range map[string]*backoff.Breaker{
		"usual": {}, "timed": {SlowCall: time.Hour}, "short attempts": {MinAttemptTime: time.Second},
		"of a fleet": {Name: "db", Shared: new(rumour)}, "on trial": observed,
	} {
		feed(b, 1, nil)
		lock := backoff.LockOf(b)
		lock.Lock()
		done := make(chan int)
		go func() { done <- feed(b, 3, nil) }()
		select {
		case n := <-done:
			require.Equal(t, 3, n, name)
		case <-time.After(5 * time.Second):
			require.Fail(t, "waits for the lock", name)
		}
		lock.Unlock()
	}
}

func TestBreakerReadsNoClockWhileCallsSucceed(t *testing.T) {
	readings := 0
	clock.Source = func() time.Time { readings++; return time.Time{}.Add(time.Hour) }
	defer func() { clock.Source = nil }()
	for want, b := range []*backoff.Breaker{{}, {MinAttemptTime: time.Second}, {SlowCall: time.Second}} {
		feed(b, 1, nil)
		readings = 0
		feed(b, 10, nil)
		require.Equal(t, 20*min(want, 1), readings)
	}
}

func TestBreakerLeavesNothingBehind(t *testing.T) {
	before := runtime.NumGoroutine()
	b := &backoff.Breaker{OpenFor: backoff.Constant(time.Hour)}
	b.Trip()
	require.LessOrEqual(t, runtime.NumGoroutine(), before)
	forgotten := weak.Make(b)
	b = nil
	require.Eventually(t, func() bool { runtime.GC(); return forgotten.Value() == nil }, 5*time.Second, time.Millisecond,
		"its timer does not hold it")
	_ = b
}

// The first one too, which finds the budget unused.
func TestEverySuccessCountsHoweverManyThereAreAtOnce(t *testing.T) {
	const goroutines, each = 8, 20_000
	breaker, alone, budget := &backoff.Breaker{}, &backoff.Breaker{}, &backoff.RetryBudget{Window: time.Hour}
	service := layers(breaker, &backoff.Policy{Budget: budget})
	quiet := func(context.Context) error { return nil }
	breaker.Reset() // so that it is not the first call that makes it ready
	together(goroutines, func(int) {
		for range each {
			if service.Do(t.Context(), quiet) != nil || alone.Do(t.Context(), quiet) != nil {
				t.Error("refused")
			}
		}
	})
	require.EqualValues(t, goroutines*each, breaker.Stats().Successes)
	require.EqualValues(t, goroutines*each, alone.Stats().Successes)
	require.EqualValues(t, goroutines*each, budget.Stats().Successes)
}

func TestBreakerIsSafeForConcurrentUse(t *testing.T) {
	synctest.Test(t, useConcurrently)
}

func useConcurrently(t *testing.T) {
	var told []backoff.BreakerTransition
	b := &backoff.Breaker{ConsecutiveFailures: 3, ConsecutiveSpan: -1, MinCalls: 3, OpenFor: backoff.Constant(time.Millisecond), MaxProbes: 2, RampUp: time.Millisecond,
		SlowCall: time.Hour, TripIf: func(s backoff.BreakerStats) bool { return s.ConsecutiveFailures > 1 }}
	b.Observer = onTransition(func(tr backoff.BreakerTransition) { told = append(told, tr) })
	together(8, func(g int) {
		for n := range 300 {
			switch (g + n) % 16 {
			case 0:
				b.Stats()
			case 1:
				b.Trip()
			case 2:
				b.Reset()
			case 3:
				b.Force(backoff.BreakerMode(n % 4))
			case 4:
				if done, err := b.Allow(); err == nil {
					done(errOutage)
				}
			default:
				feed(b, 1, []error{nil, nil, errOutage}[n%3])
			}
			if n%50 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
	})
	b.Observer = nil
	b.Reset()
	for i, tr := range told {
		require.NotEqual(t, tr.From, tr.To)
		if i > 0 {
			require.Equal(t, told[i-1].To, tr.From, "in order, none left out")
			require.Less(t, told[i-1].Generation, tr.Generation)
		}
	}
}

// onTransition is an Observer of transitions only.
func onTransition(tell func(backoff.BreakerTransition)) backoff.Observer {
	return func(_ context.Context, e backoff.Event) {
		if e.Kind == backoff.EventTransition {
			tell(*e.Transition)
		}
	}
}

// That two processors meet at the counter, no test can rely on.
func TestBreakerCountsSuccessesThatMeet(t *testing.T) {
	var b backoff.Breaker
	require.NoError(t, b.Do(t.Context(), returning(nil).do))
	backoff.SplitCounter(&b)

	require.Equal(t, 2, feed(&b, 2, nil))
	require.EqualValues(t, 3, b.Stats().Successes)
}

func TestANilBreakerIsInvalid(t *testing.T) {
	var b *backoff.Breaker
	require.EqualError(t, b.Validate(), "backoff: Breaker is nil")
}
