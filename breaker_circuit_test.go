package backoff_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/clock"
)

// The cool-down itself grows.
func TestBreakerStaysOpenLongerEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := openBreaker(t)
		defaults := backoff.Exponential{Initial: 5 * time.Second, Multiplier: 1.2, Max: time.Minute}
		for n := range 20 {
			want := defaults.Delay(n + 1)
			began := time.Now()
			require.Equal(t, want, b.Stats().RetryAfter)
			time.Sleep(want - 1)
			require.Zero(t, feed(b, 1, nil))
			time.Sleep(time.Nanosecond)
			require.Equal(t, 1, feed(b, 2, errOutage))
			require.Equal(t, want, time.Since(began))
		}
		time.Sleep(time.Minute)
		require.Equal(t, backoff.BreakerClosed, stateAfter(b, 2, nil))
		time.Sleep(9 * time.Second)
		feed(b, 20, errOutage)
		require.Equal(t, time.Minute, b.Stats().RetryAfter, "not healthy for a whole window")
		time.Sleep(time.Minute)
		feed(b, 2, nil)
		time.Sleep(10 * time.Second)
		feed(b, 20, errOutage)
		require.Equal(t, 5*time.Second, b.Stats().RetryAfter)
		require.Equal(t, 1, b.Stats().Openings)
	})
}

// refused is what a client gets of a service that restarts.
var refused = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}

// openAtHalf opens a circuit whose service fails with err for every other call, of
// twenty in a second.
func openAtHalf(t *testing.T, b *backoff.Breaker, err error) {
	b.Stats() // begins the phase
	time.Sleep(time.Second)
	for range 10 {
		feed(b, 1, nil)
		feed(b, 1, err)
	}
	require.Equal(t, backoff.BreakerOpen, b.State())
}

// A timeout says less than an answer. What opens the circuit early does not
// lengthen how long it is open after other failures.
func TestTheFailureThatOpensTheCircuitDecidesHowEarlyItIsProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backoff.Breaker{Jitter: backoff.NoJitter}
		openAtHalf(t, b, errOutage)
		for i, c := range []struct {
			err  error
			want time.Duration
		}{
			{nil, 5 * time.Second},
			{refused, 330 * time.Millisecond},
			{errOutage, 6 * time.Second},
			{context.DeadlineExceeded, time.Second}, // the time of twenty calls
			{backoff.OfClass(errOutage, backoff.ClassThrottled), 7200 * time.Millisecond},
			{backoff.RetryAfter(refused, 0), 19530 * time.Millisecond / 40},
		} {
			if c.err != nil {
				feed(b, 1, c.err)
			}
			require.Equal(t, c.want, b.Stats().RetryAfter, "opening %d", i+1)
			require.Equal(t, i+1, b.Stats().Openings)
			time.Sleep(c.want)
		}
		feed(b, 2, nil)
		time.Sleep(9 * time.Second)
		openAtHalf(t, b, errOutage)
		require.Equal(t, 5*time.Second, b.Stats().RetryAfter)
	})
}

func TestOnlyWhatIsCertainlyNotSentIsProbedEarly(t *testing.T) {
	slow := &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
	gaveUp := func(err error) error {
		return backoff.Policy{MaxAttempts: 1}.Do(t.Context(), func(context.Context) error { return err })
	}
	const early, late, hung = 25 * time.Millisecond, 5 * time.Second, time.Second
	for name, c := range map[string]struct {
		err  error
		want time.Duration
	}{
		"refused":                        {refused, early},
		"refused, and a policy gave up":  {gaveUp(refused), early},
		"refused, as HTTP says it":       {&url.Error{Op: "Get", URL: "http://a.test/", Err: refused}, early},
		"refused by each of two":         {errors.Join(refused, refused), early},
		"marked":                         {backoff.OfClass(errOutage, backoff.ClassNotSent), early},
		"marked after a policy gave up":  {backoff.OfClass(gaveUp(errOutage), backoff.ClassNotSent), early},
		"marked, and a policy gave up":   {gaveUp(backoff.OfClass(errOutage, backoff.ClassNotSent)), early},
		"a timeout":                      {slow, hung},
		"a timeout that is marked":       {backoff.OfClass(slow, backoff.ClassNotSent), hung},
		"refused by one, of two":         {errors.Join(refused, errOutage), late},
		"two policies gave up, of which": {errors.Join(gaveUp(refused), gaveUp(errOutage)), late},
		"marked otherwise":               {backoff.OfClass(refused, backoff.ClassRetryable), late},
		"the server asked for a minute":  {backoff.Pushback(refused, time.Minute), time.Minute},
	} {
		bubble(t, name, func(t *testing.T) {
			b := &backoff.Breaker{Jitter: backoff.NoJitter}
			openAtHalf(t, b, c.err)
			require.Equal(t, c.want, b.Stats().RetryAfter)
		})
	}
}

// Operations report the end of their context in many ways, and a policy knows that it was its own.
func TestAnAttemptsTimeoutIsATimeoutToABreakerInAnyWords(t *testing.T) {
	for _, err := range []error{
		context.DeadlineExceeded,
		backoff.ErrAttemptTimeout,
		errors.Join(errOutage, backoff.ErrAttemptTimeout),
		context.Canceled,
		fmt.Errorf("read: %w", context.Canceled),
		backoff.OfClass(context.Canceled, backoff.ClassRetryable),
	} {
		bubble(t, err.Error(), func(t *testing.T) {
			b := &backoff.Breaker{Jitter: backoff.NoJitter}
			openAtHalf(t, b, backoff.Policy{MaxAttempts: 1, AttemptTimeout: 1}.Do(t.Context(), func(ctx context.Context) error {
				<-ctx.Done()
				return err
			}))
			require.Equal(t, time.Second, b.Stats().RetryAfter)
		})
	}
}

// ReadyToTrip of other libraries is a rule of this kind.
func TestARuleOfOnesOwnProbesEarlyToo(t *testing.T) {
	for err, want := range map[error]time.Duration{refused: 250 * time.Millisecond, errOutage: 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			b := rateBreaker()
			b.OpenFor, b.TripIf = nil, func(s backoff.BreakerStats) bool { return s.ConsecutiveFailures >= 3 }
			feed(b, 3, err)
			require.Equal(t, want, b.Stats().RetryAfter)
		})
	}
}

func TestACircuitWithItsOwnOpenForIsNotProbedEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := rateBreaker()
		b.OpenFor = backoff.Linear{Initial: 2 * time.Second}
		feed(b, 20, refused)
		require.Equal(t, 2*time.Second, b.Stats().RetryAfter)
		time.Sleep(2 * time.Second)
		feed(b, 1, refused)
		require.Equal(t, 4*time.Second, b.Stats().RetryAfter)
	})
}

// A fleet may know of more openings than the breaker itself.
func TestAProcessThatTheFleetWarnedProbesEarlyToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r := hearing(isOpen)
		feed(b, 1, nil)
		time.Sleep(3 * time.Second)
		feed(b, 1, refused)
		require.Equal(t, 360*time.Millisecond, b.Stats().RetryAfter, "the third time in a row")
		time.Sleep(time.Second)
		feed(b, 1, errOutage)
		require.Equal(t, 7200*time.Millisecond, b.Stats().RetryAfter, "the third that is not early")
		require.Equal(t, []int{0, 2, 7, 3}, r.opened, "early ones lengthen those of the others neither")
	})
}

func TestBreakerCountsHealthByCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := rateBreaker()
		b.WindowCalls, b.ProbeSuccesses = 10, 1
		for _, healthy := range []bool{false, true} {
			b.Reset()
			b.Trip()
			time.Sleep(5 * time.Second)
			feed(b, 1, nil)
			time.Sleep(time.Hour)
			if healthy {
				feed(b, 9, nil)
			}
			feed(b, 1, errOutage)
			b.Trip()
			require.Equal(t, healthy, b.Stats().Openings == 1)
		}
	})
}

func TestBreakerSpreadsItsOpenTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lo, hi := time.Hour, time.Duration(0)
		for range 1000 {
			var b backoff.Breaker
			b.Trip()
			d := b.Stats().RetryAfter
			lo, hi = min(lo, d), max(hi, d)
			b.Reset() // ends its timer
		}
		require.InDelta(t, 4, lo.Seconds(), 0.1)
		require.InDelta(t, 6, hi.Seconds(), 0.1)
		require.GreaterOrEqual(t, lo, 4*time.Second)
		require.LessOrEqual(t, hi, 6*time.Second)
	})
}

func TestBreakerTakesANegativeOpenTimeAsNone(t *testing.T) {
	b := rateBreaker()
	b.Jitter = func(delay, _ time.Duration, _ float64) time.Duration { return time.Second - delay }
	b.Trip()
	require.Equal(t, backoff.BreakerHalfOpen, b.State())
}

func TestBreakerRemembersItsOpenTimeForTheJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []time.Duration
		b := rateBreaker()
		b.Rand = func() float64 { return 0.5 }
		b.Jitter = func(delay, prev time.Duration, u float64) time.Duration {
			if delay != 0 { // of Validate
				require.Equal(t, 0.5, u)
				seen = append(seen, prev)
			}
			return delay + prev
		}
		b.Trip()
		for range 2 {
			time.Sleep(b.Stats().RetryAfter)
			feed(b, 1, errOutage)
		}
		require.Equal(t, []time.Duration{0, 5 * time.Second, 11 * time.Second}, seen)
		b.Reset()
		b.Trip()
		time.Sleep(b.Stats().RetryAfter)
		feed(b, 2, nil)
		time.Sleep(10 * time.Second)
		b.Trip()
		require.Equal(t, []time.Duration{0, 0}, seen[3:], "forgotten by Reset, and in a healthy time")
	})
}

func TestBreakerStaysOpenAsLongAsTheServerAsks(t *testing.T) {
	for _, c := range []struct {
		name string
		hint error
		max  time.Duration
		want time.Duration
	}{
		{"shorter than its own time", backoff.RetryAfter(errOutage, time.Second), 0, 5 * time.Second},
		{"longer, and a twentieth for the spread", backoff.RetryAfter(errOutage, 20*time.Second), 0, 21 * time.Second},
		{"exactly", backoff.Pushback(errOutage, 20*time.Second), 0, 20 * time.Second},
		{"beyond the limit", backoff.Pushback(errOutage, time.Hour), 0, 5 * time.Minute},
		{"beyond its own limit", backoff.Pushback(errOutage, time.Hour), time.Minute, time.Minute},
		{"without limit", backoff.Pushback(errOutage, time.Hour), -1, time.Hour},
	} {
		bubble(t, c.name, func(t *testing.T) {
			b := rateBreaker()
			b.MaxRetryAfter, b.Rand = c.max, func() float64 { return 0.5 }
			feed(b, 20, c.hint)
			require.Equal(t, c.want, b.Stats().RetryAfter)
		})
	}
	bubble(t, "of an earlier failure", func(t *testing.T) {
		b := rateBreaker()
		feed(b, 1, backoff.Pushback(errOutage, time.Minute))
		time.Sleep(9 * time.Second)
		feed(b, 19, errOutage)
		require.Equal(t, 51*time.Second, b.Stats().RetryAfter)
	})
	bubble(t, "of what a policy gave up on", func(t *testing.T) {
		p := backoff.Policy{MaxAttempts: 1}
		gaveUp := p.Do(t.Context(), func(context.Context) error { return backoff.Pushback(errOutage, 20*time.Second) })
		for want, err := range map[time.Duration]error{
			20 * time.Second: gaveUp,
			30 * time.Second: backoff.Pushback(gaveUp, 30*time.Second),
			40 * time.Second: errors.Join(gaveUp, backoff.Pushback(errOutage, 40*time.Second), errOutage),
			50 * time.Second: backoff.OfClass(backoff.Pushback(gaveUp, 50*time.Second), backoff.ClassNotSent),
		} {
			b := rateBreaker()
			feed(b, 20, err)
			require.Equal(t, want, b.Stats().RetryAfter)
		}
	})
	bubble(t, "of a probe", func(t *testing.T) {
		b := halfOpenBreaker(t)
		feed(b, 1, backoff.OfClass(backoff.Pushback(errOutage, time.Minute), backoff.ClassOverloaded))
		require.Equal(t, time.Minute, b.Stats().RetryAfter)
	})
}

// A small set of probes.
func TestBreakerAdmitsNoMoreProbesThanItSays(t *testing.T) {
	for _, probes := range []int{0, 1, 3, -1, 5000} {
		bubble(t, fmt.Sprint(probes), func(t *testing.T) {
			b := halfOpenBreaker(t)
			b.MaxProbes = probes
			want := map[int]int{0: 1, 1: 1, 3: 3, -1: 1000, 5000: 1000}[probes]
			calls := max(200, want+200)
			var admitted, refused atomic.Int32
			release := make(chan struct{})
			var group sync.WaitGroup
			for range calls {
				group.Go(func() {
					err := b.Do(t.Context(), func(context.Context) error {
						admitted.Add(1)
						<-release
						return nil
					})
					if errors.Is(err, backoff.ErrOpen) {
						refused.Add(1)
					}
				})
			}
			synctest.Wait()
			require.EqualValues(t, want, admitted.Load())
			require.EqualValues(t, calls-want, refused.Load())
			require.EqualValues(t, want, b.Stats().Probes)
			close(release)
			group.Wait()
		})
	}
}

func TestBreakerOpensAgainWhenAProbeFails(t *testing.T) {
	for name, err := range map[string]error{
		"failure":    errOutage,
		"throttled":  backoff.OfClass(errOutage, backoff.ClassThrottled),
		"overloaded": backoff.OfClass(errOutage, backoff.ClassOverloaded),
		"timeout":    context.DeadlineExceeded,
	} {
		bubble(t, name, func(t *testing.T) {
			b := halfOpenBreaker(t)
			feed(b, 1, nil)
			require.Equal(t, backoff.BreakerOpen, stateAfter(b, 1, err))
			require.Equal(t, 6*time.Second, b.Stats().RetryAfter)
			time.Sleep(6 * time.Second)
			require.Equal(t, backoff.BreakerHalfOpen, stateAfter(b, 1, nil), "the success before is forgotten")
		})
	}
}

func TestBreakerIsNotWedgedByAProbe(t *testing.T) {
	bubble(t, "that panics", func(t *testing.T) {
		b := halfOpenBreaker(t)
		require.PanicsWithValue(t, "boom", func() {
			_ = b.Do(t.Context(), func(context.Context) error { panic("boom") })
		})
		require.Equal(t, backoff.BreakerOpen, b.State())
	})
	bubble(t, "that leaves its goroutine", func(t *testing.T) {
		b := halfOpenBreaker(t)
		apart(func() { _ = b.Do(t.Context(), func(context.Context) error { runtime.Goexit(); return nil }) })
		require.Equal(t, backoff.BreakerOpen, b.State())
	})
	bubble(t, "that has no consequence", func(t *testing.T) {
		b := halfOpenBreaker(t)
		require.Equal(t, 100, feed(b, 100, context.Canceled))
		require.Equal(t, backoff.BreakerHalfOpen, b.State())
		require.Equal(t, 2, feed(b, 2, nil))
		require.Equal(t, backoff.BreakerClosed, b.State())
	})
	bubble(t, "that hangs", func(t *testing.T) {
		b := halfOpenBreaker(t)
		answer := make(chan error)
		go func() { _ = b.Do(t.Context(), func(context.Context) error { return <-answer }) }()
		synctest.Wait()
		time.Sleep(5*time.Second - 1)
		require.Zero(t, feed(b, 1, nil), "its lease is as long as the circuit was open")
		time.Sleep(time.Nanosecond)
		require.Equal(t, 1, feed(b, 1, context.Canceled))
		answer <- errOutage
		synctest.Wait()
		require.Equal(t, backoff.BreakerOpen, b.State(), "a late answer counts")
	})
	bubble(t, "that is slow", func(t *testing.T) {
		b := halfOpenBreaker(t)
		for range 2 {
			require.NoError(t, b.Do(t.Context(), func(context.Context) error { time.Sleep(8 * time.Second); return nil }))
		}
		require.Equal(t, backoff.BreakerClosed, b.State(), "longer than its lease")
	})
	bubble(t, "that hangs longer than others take", func(t *testing.T) {
		b := halfOpenBreaker(t)
		answer := make(chan error)
		go func() { _ = b.Do(t.Context(), func(context.Context) error { return <-answer }) }()
		time.Sleep(5 * time.Second)
		require.Equal(t, 2, feed(b, 2, nil))
		answer <- errOutage
		synctest.Wait()
		require.Equal(t, backoff.BreakerClosed, b.State(), "the others have closed the circuit")
	})
	bubble(t, "of which nobody tells", func(t *testing.T) {
		b := halfOpenBreaker(t)
		b.ProbeTimeout = time.Minute
		permit(t, b)
		time.Sleep(time.Minute - 1)
		require.Zero(t, feed(b, 1, nil))
		time.Sleep(time.Nanosecond)
		require.Equal(t, 2, feed(b, 2, nil))
	})
}

// A token source may ask the same service as the call that it is for.
func TestAProbeMayCallTheBreakerAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := halfOpenBreaker(t)
		var kept context.Context
		require.NoError(t, b.Do(t.Context(), func(ctx context.Context) error {
			kept = ctx
			require.Equal(t, errOutage, b.Do(ctx, func(inner context.Context) error {
				require.Equal(t, ctx, inner)
				return errOutage
			}))
			require.Equal(t, 1, b.Stats().Probes)
			require.Zero(t, feed(b, 1, nil), "others do not pass")
			return nil
		}))
		require.Equal(t, backoff.BreakerHalfOpen, b.State(), "what passed does not count")
		feed(b, 1, errOutage)
		time.Sleep(time.Minute)
		permit(t, b)
		require.ErrorIs(t, b.Do(kept, nil), backoff.ErrOpen, "it was a probe once")
	})
}

// A jitter, or a fleet, may have it open for no time at all.
func TestAProbeHasTimeHoweverShortTheCircuitWasOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backoff.Breaker{ConsecutiveFailures: 3, ConsecutiveSpan: -1, Jitter: backoff.FullJitter, Rand: func() float64 { return 0 }}
		feed(b, 3, errOutage)
		for range 2 {
			require.NoError(t, b.Do(t.Context(), func(context.Context) error {
				require.Zero(t, feed(b, 1, nil), "there is one probe at a time")
				time.Sleep(5*time.Second - 1)
				return nil
			}))
		}
		require.Equal(t, backoff.BreakerClosed, b.State())
	})
}

func TestBreakerRampsUpAfterClosing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := 0.0
		b := halfOpenBreaker(t)
		b.RampUp, b.Rand = 10*time.Second, func() float64 { return u }
		require.Equal(t, backoff.BreakerClosed, stateAfter(b, 2, nil))
		for _, c := range []struct {
			u        float64
			admitted int
			after    time.Duration
		}{{0.09, 1, 0}, {0.1, 0, 0}, {0.54, 1, 5 * time.Second}, {0.55, 0, 0}, {0.99, 0, 4 * time.Second}, {0.99, 1, time.Second}, {0.99, 1, 0}} {
			time.Sleep(c.after)
			u = c.u
			require.Equal(t, c.admitted, feed(b, 1, nil), "%+v", c)
		}
	})
}

func TestBreakerTellsHowLongItRamps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := halfOpenBreaker(t)
		b.RampUp, b.Rand = 10*time.Second, func() float64 { return 0.5 }
		feed(b, 2, nil)
		time.Sleep(time.Second)
		require.EqualError(t, b.Do(t.Context(), nil), "backoff: db: circuit recovering: outage")
		b.Rand = func() float64 { return 0 }
		require.Equal(t, backoff.BreakerOpen, stateAfter(b, 20, errOutage), "it can open again")
	})
}

func TestBreakerTimesACallFromItsOwnBeginning(t *testing.T) {
	for name, ramp := range map[string]time.Duration{"closed": 0, "ramp": time.Hour} {
		bubble(t, name, func(t *testing.T) {
			b := rateBreaker()
			b.SlowCall, b.RampUp, b.Rand = time.Second, ramp, func() float64 { return 0 }
			b.Trip()
			time.Sleep(5 * time.Second)
			feed(b, 2, nil)
			time.Sleep(time.Minute)
			require.Equal(t, 1, feed(b, 1, nil))
			require.Zero(t, b.Stats().Slow)
		})
	}
}

// In each phase there are answers of calls that earlier phases admitted, while
// calls of the phase with the same numbers are under way. None has a
// consequence.
func TestBreakerIgnoresTheAnswersOfEarlierPhases(t *testing.T) {
	for _, answer := range []error{nil, errOutage} {
		bubble(t, fmt.Sprint(answer), func(t *testing.T) {
			b := rateBreaker()
			b.MinCalls, b.MaxProbes = 1, 4
			var closed, probes []func(error)
			permits := func(n int) (dones []func(error)) {
				for range n {
					dones = append(dones, permit(t, b))
				}
				return dones
			}
			late := func(what string, state backoff.BreakerState) { // an answer of each earlier phase
				before := b.Stats()
				for _, dones := range []*[]func(error){&closed, &probes} {
					if len(*dones) > 0 {
						(*dones)[0](answer)
						*dones = (*dones)[1:]
					}
				}
				require.Equal(t, state, b.State(), what)
				require.Equal(t, before, b.Stats(), what)
			}
			closed = permits(4)
			time.Sleep(time.Second) // from now on they do not count as successes
			feed(b, 1, errOutage)
			late("open", backoff.BreakerOpen)

			time.Sleep(5 * time.Second)
			probes = permits(3)
			feed(b, 1, errOutage) // the fourth
			late("open again", backoff.BreakerOpen)

			time.Sleep(10 * time.Second)
			now := permits(3)
			late("half-open", backoff.BreakerHalfOpen)
			now[0](nil)
			now[1](nil)
			require.Equal(t, backoff.BreakerClosed, b.State())
			late("closed", backoff.BreakerClosed)
		})
	}
}

func TestBreakerHearsTheSameAnswerOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := rateBreaker()
		done := permit(t, b)
		for range 30 {
			done(errOutage)
		}
		require.EqualValues(t, 1, b.Stats().Failures)

		b = halfOpenBreaker(t)
		done = permit(t, b)
		done(nil)
		done(nil)
		require.Equal(t, backoff.BreakerHalfOpen, b.State())
	})
}

func TestBreakerTellsEachTransitionOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []backoff.BreakerTransition
		b := rateBreaker()
		b.Observer = func(_ context.Context, e backoff.Event) {
			require.Equal(t, backoff.Event{Kind: backoff.EventTransition, Name: "db", Err: e.Transition.Err, Transition: e.Transition}, e)
			got = append(got, *e.Transition)
		}
		began := time.Now()
		feed(b, 20, errOutage)
		time.Sleep(6 * time.Second)
		feed(b, 1, nil)
		feed(b, 1, nil)
		b.Reset() // no transition
		b.Trip()
		b.Force(backoff.ModeForcedOpen) // no transition
		b.Force(backoff.ModeEnforce)
		require.Equal(t, []backoff.BreakerTransition{
			{Name: "db", From: backoff.BreakerClosed, To: backoff.BreakerOpen, Trigger: "rate", At: began, Generation: 1, Openings: 1, Err: errOutage, RetryAfter: 5 * time.Second},
			{Name: "db", From: backoff.BreakerOpen, To: backoff.BreakerHalfOpen, Trigger: "time", At: began.Add(6 * time.Second), Generation: 2, Openings: 1, Err: errOutage},
			{Name: "db", From: backoff.BreakerHalfOpen, To: backoff.BreakerClosed, Trigger: "probe", At: began.Add(6 * time.Second), Generation: 3, Openings: 1},
			{Name: "db", From: backoff.BreakerClosed, To: backoff.BreakerOpen, Trigger: "manual", At: began.Add(6 * time.Second), Generation: 5, Openings: 1, RetryAfter: 5 * time.Second},
			{Name: "db", From: backoff.BreakerOpen, To: backoff.BreakerClosed, Trigger: "manual", At: began.Add(6 * time.Second), Generation: 7},
		}, got)
	})
}

func TestBreakerSurvivesItsObserver(t *testing.T) {
	silence(t)
	bubble(t, "that calls the breaker", func(t *testing.T) {
		var to []backoff.BreakerState
		b := rateBreaker()
		b.Observer = onTransition(func(tr backoff.BreakerTransition) {
			to = append(to, tr.To)
			b.State()
			b.Stats()
			if len(to) == 1 {
				b.Reset()
				b.Trip()
			}
		})
		b.Trip()
		require.Equal(t, []backoff.BreakerState{backoff.BreakerOpen, backoff.BreakerClosed, backoff.BreakerOpen}, to)
	})
	for name, leave := range map[string]func(){"that panics": func() { panic("boom") }, "that leaves its goroutine": runtime.Goexit} {
		bubble(t, name, func(t *testing.T) {
			told := 0
			b := rateBreaker()
			b.Observer = onTransition(func(backoff.BreakerTransition) {
				if told++; told == 1 {
					b.Reset()
				}
				leave()
			})
			b.Trip()
			require.Equal(t, 2, told, "also of what came up meanwhile")
			b.Trip()
			require.Equal(t, 3, told)
		})
	}
	bubble(t, "that blocks", func(t *testing.T) {
		release := make(chan struct{})
		var to []backoff.BreakerState
		b := rateBreaker()
		b.Observer = onTransition(func(tr backoff.BreakerTransition) { <-release; to = append(to, tr.To) })
		tripped := make(chan struct{})
		go func() { b.Trip(); close(tripped) }()
		synctest.Wait()
		require.Zero(t, feed(b, 1, nil), "others go on")
		b.Reset()
		require.Equal(t, 1, feed(b, 1, nil))
		close(release)
		<-tripped
		require.Equal(t, []backoff.BreakerState{backoff.BreakerOpen, backoff.BreakerClosed}, to)
	})
}

// Under the simulator's clock there are no timers.
func TestBreakerGoesByTheSimulatorsClock(t *testing.T) {
	now := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	clock.Source = func() time.Time { return now }
	defer func() { clock.Source = nil }()

	b := openBreaker(t)
	now = now.Add(5*time.Second - 1)
	require.Zero(t, feed(b, 1, nil))
	now = now.Add(-time.Hour)
	require.Zero(t, feed(b, 1, nil), "it went back")
	now = now.Add(time.Hour + 1)
	require.Equal(t, 2, feed(b, 2, nil))
	require.Equal(t, backoff.BreakerClosed, b.State())
}

var errElsewhere = errors.New("others found it down")

// rumour is a fleet that says what it is told to say, and writes down what it
// is asked.
type rumour struct {
	closed, halfOpen backoff.BreakerTransition // the answers, by state
	asked            []backoff.BreakerState
	wake             func()
	lease            time.Duration
	opened           []int
	shut             int
	during           func()
}

func (r *rumour) Consult(_ context.Context, _ string, wake func()) backoff.BreakerTransition {
	r.ask(backoff.BreakerClosed)
	r.wake = wake
	return r.closed
}

func (r *rumour) Probe(_ context.Context, _ string, timeout time.Duration) backoff.BreakerTransition {
	r.ask(backoff.BreakerHalfOpen)
	r.lease = timeout
	return r.halfOpen
}

func (r *rumour) ask(s backoff.BreakerState) {
	r.asked = append(r.asked, s)
	if r.during != nil {
		r.during()
	}
}

func (r *rumour) Opened(_ string, openFor time.Duration, openings int) {
	r.opened = append(r.opened, int(openFor/time.Second), openings)
}

func (r *rumour) Closed(string) { r.shut++ }

// sharing returns a breaker that hears a rumour. It opens for exactly 5, 10, 20
// s.
func sharing(r *rumour) *backoff.Breaker {
	return &backoff.Breaker{Name: "db", Shared: r, ConsecutiveFailures: 3, ConsecutiveSpan: -1, Jitter: backoff.NoJitter}
}

// hearing returns such a breaker and its fleet, which gives this answer.
func hearing(closed backoff.BreakerTransition) (*backoff.Breaker, *rumour) {
	r := &rumour{closed: closed}
	return sharing(r), r
}

var (
	isOpen = backoff.BreakerTransition{To: backoff.BreakerOpen, RetryAfter: 3 * time.Second, Openings: 2, Err: errElsewhere}
	isHeld = backoff.BreakerTransition{To: backoff.BreakerHalfOpen, Err: errElsewhere, Openings: 2}
)

func TestABreakerAsksItsFleetOnceUntilItIsWoken(t *testing.T) {
	for name, b := range map[string]*backoff.Breaker{"": {}, "timed": {SlowCall: time.Minute}} {
		bubble(t, name, func(t *testing.T) {
			var r rumour
			b.Name, b.Shared = "db", &r
			require.Equal(t, 10, feed(b, 10, nil))
			require.Len(t, r.asked, 1)
			r.wake()
			r.wake()
			require.Equal(t, 10, feed(b, 10, nil))
			require.Len(t, r.asked, 2)
		})
	}
}

func TestAdviceOpensTheCircuitOfAProcessThatKnowsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r := hearing(isOpen)
		b.MinCalls = -1
		var seen []backoff.BreakerTransition
		b.Observer = onTransition(func(c backoff.BreakerTransition) { seen = append(seen, c) })
		err := b.Do(t.Context(), func(context.Context) error { panic("called") })
		require.ErrorIs(t, err, backoff.ErrOpen)
		require.Equal(t, errElsewhere, err.(*backoff.OpenError).Last)
		require.Len(t, seen, 1)
		require.Equal(t, "shared", seen[0].Trigger)
		require.Equal(t, 3*time.Second, seen[0].RetryAfter)
		require.Empty(t, r.opened, "what was heard is not passed on")

		time.Sleep(3 * time.Second)
		r.closed = backoff.BreakerTransition{}
		require.Equal(t, 3, feed(b, 3, nil))
		require.Equal(t, backoff.BreakerClosed, b.State())
		require.Equal(t, 1, r.shut)
	})
}

func TestTheFleetsOpeningsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r := hearing(isOpen)
		feed(b, 1, nil)
		require.Equal(t, 2, b.Stats().Openings)
		time.Sleep(3 * time.Second)
		require.Equal(t, 1, feed(b, 1, errOutage))
		require.Equal(t, []int{7, 3}, r.opened, "the third time in a row")

		r = &rumour{closed: backoff.BreakerTransition{To: backoff.BreakerOpen, RetryAfter: time.Second, Openings: 1 << 20}}
		b = sharing(r)
		feed(b, 1, nil)
		require.Equal(t, 1<<16-1, b.Stats().Openings, "as far as there are numbers")
	})
}

func TestAProcessThatThrivesTrustsItsOwnEyes(t *testing.T) {
	for name, b := range map[string]*backoff.Breaker{"window": {}, "window of calls": {WindowCalls: 30}} {
		bubble(t, name, func(t *testing.T) {
			var r rumour
			b.Name, b.Shared = "db", &r
			feed(b, 19, nil)
			r.closed = isOpen
			r.wake()
			require.Equal(t, 0, feed(b, 1, nil), "19 calls are not enough")

			b.Reset()
			r.closed = backoff.BreakerTransition{}
			feed(b, 20, nil)
			for _, hint := range []backoff.BreakerTransition{isOpen, isHeld} {
				r.closed = hint
				r.wake()
				require.Equal(t, 1, feed(b, 1, nil), "20 are")
			}
			feed(b, 1, errOutage)
			r.closed = isOpen
			r.wake()
			require.Equal(t, 0, feed(b, 1, nil), "but not after a failure")

			b.Reset()
			r.closed = backoff.BreakerTransition{}
			feed(b, 4, errOutage)
			feed(b, 16, nil)
			r.closed = isOpen
			r.wake()
			require.Equal(t, 1, feed(b, 1, nil), "20 with those that failed before")
		})
	}
}

func TestAdviceOfAHalfOpenFleetHasTheNextCallAskForTheProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rumour{closed: isHeld, halfOpen: isHeld}
		b := sharing(&r)
		var why string
		b.Observer = onTransition(func(c backoff.BreakerTransition) { why = c.Trigger })
		err := b.Do(t.Context(), func(context.Context) error { panic("called") })
		require.ErrorIs(t, err, backoff.ErrOpen)
		require.Equal(t, errElsewhere, err.(*backoff.OpenError).Last)
		require.ErrorContains(t, err, "circuit half-open")
		require.Equal(t, backoff.BreakerHalfOpen, err.(*backoff.OpenError).State)
		require.Equal(t, "shared", why)
		require.Equal(t, []backoff.BreakerState{backoff.BreakerClosed, backoff.BreakerHalfOpen}, r.asked)
		require.Equal(t, backoff.BreakerHalfOpen, b.State())
		require.Equal(t, 5*time.Second, r.lease)
		require.Equal(t, 0, feed(b, 10, nil))

		r.closed, r.halfOpen = backoff.BreakerTransition{}, backoff.BreakerTransition{}
		require.Equal(t, 10, feed(b, 10, nil))
		require.Equal(t, backoff.BreakerClosed, b.State())
		require.Equal(t, 1, r.shut)
	})
}

func TestAProbeWaitsForItsFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r := hearing(backoff.BreakerTransition{})
		feed(b, 3, errOutage)
		require.Equal(t, []int{5, 1}, r.opened)
		time.Sleep(5 * time.Second)
		r.halfOpen = isHeld
		require.Equal(t, 0, feed(b, 10, nil), "another process probes")
		r.halfOpen = isOpen
		require.Equal(t, 0, feed(b, 10, nil))
		require.Equal(t, backoff.BreakerOpen, b.State(), "and has failed")
		time.Sleep(3 * time.Second)
		r.halfOpen = backoff.BreakerTransition{To: backoff.BreakerOpen}
		require.Equal(t, 0, feed(b, 1, nil), "for no time at all is not for ever")
		require.Equal(t, backoff.BreakerHalfOpen, b.State())
		r.halfOpen = backoff.BreakerTransition{}
		require.Equal(t, 1, feed(b, 1, errOutage))
		require.Equal(t, []int{5, 1, 7, 3}, r.opened)
	})
}

func TestMaxRetryAfterBoundsTheFleetToo(t *testing.T) {
	for limit, want := range map[time.Duration]time.Duration{0: 5 * time.Minute, time.Minute: time.Minute, -1: 1000 * time.Hour} {
		bubble(t, limit.String(), func(t *testing.T) {
			b, _ := hearing(backoff.BreakerTransition{To: backoff.BreakerOpen, RetryAfter: 1000 * time.Hour})
			b.MaxRetryAfter = limit
			feed(b, 1, nil)
			require.Equal(t, want, b.Stats().RetryAfter)
		})
	}
}

func TestAdviceThatComesTooLateIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r := hearing(isOpen)
		r.during = func() { r.during = nil; b.Reset() }
		require.Equal(t, 1, feed(b, 1, nil), "the circuit that was asked for is no more")
		require.Equal(t, backoff.BreakerClosed, b.State())
		require.Equal(t, 0, feed(b, 1, nil))
		require.Equal(t, backoff.BreakerOpen, b.State())

		time.Sleep(3 * time.Second)
		require.Equal(t, backoff.BreakerHalfOpen, b.State())
		r.halfOpen = backoff.BreakerTransition{}
		r.during = func() { r.during = nil; b.Trip() }
		require.Equal(t, 0, feed(b, 1, nil), "a lease counts for its own phase only")
	})
}

func TestOnlyABreakerThatEnforcesTakesPartInAFleet(t *testing.T) {
	for _, mode := range []backoff.BreakerMode{backoff.ModeObserve, backoff.ModeForcedClosed, backoff.ModeForcedOpen} {
		bubble(t, mode.String(), func(t *testing.T) {
			r := rumour{closed: isOpen, halfOpen: isHeld}
			b := sharing(&r)
			b.OpenFor = backoff.Constant(time.Second)
			b.Force(mode)
			feed(b, 3, errOutage)
			time.Sleep(time.Second)
			feed(b, 2, nil)
			require.Empty(t, r.asked)
			require.Empty(t, r.opened)
			require.Zero(t, r.shut)
		})
	}
}

func TestTheFleetIsAskedAgainAfterARamp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r := hearing(backoff.BreakerTransition{})
		b.RampUp = 10 * time.Second
		feed(b, 3, errOutage)
		time.Sleep(5 * time.Second)
		feed(b, 2, nil)
		asked := len(r.asked)
		time.Sleep(11 * time.Second)
		feed(b, 2, nil)
		require.Len(t, r.asked, asked+1)
	})
}

func TestWakeDoesNotKeepABreakerAlive(t *testing.T) {
	var r rumour
	b := &backoff.Breaker{Name: "db", Shared: &r}
	feed(b, 1, nil)
	gone := weak.Make(b)
	b = nil
	require.Eventually(t, func() bool { runtime.GC(); return gone.Value() == nil }, 5*time.Second, time.Millisecond)
	r.wake()
}

// broken is a fleet that says so.
type broken struct{ rumour }

func (broken) Validate() error { return errElsewhere }

func TestAFleetNeedsAName(t *testing.T) {
	require.ErrorContains(t, (&backoff.Breaker{Shared: new(rumour)}).Validate(), "Breaker.Name is empty")
	require.NoError(t, sharing(new(rumour)).Validate())
	b := &backoff.Breaker{Name: "db", Shared: new(broken)}
	require.ErrorIs(t, b.Validate(), errElsewhere)
	require.ErrorIs(t, b.Do(t.Context(), func(context.Context) error { return nil }), errElsewhere)
}

// faulty is a fleet whose Validate panics at first.
type faulty struct {
	rumour
	fixed bool
}

func (f *faulty) Validate() error {
	if !f.fixed {
		panic("no store")
	}
	return nil
}

func TestAPanicOfValidateLeavesTheBreakerUsable(t *testing.T) {
	for name, use := range map[string]func(*backoff.Breaker){
		"Do":    func(b *backoff.Breaker) { feed(b, 1, nil) },
		"Allow": func(b *backoff.Breaker) { _, _ = b.Allow() },
		"Stats": func(b *backoff.Breaker) { b.Stats() },
		"Trip":  (*backoff.Breaker).Trip,
	} {
		f := new(faulty)
		b := &backoff.Breaker{Name: "db", Shared: f}
		require.PanicsWithValue(t, "no store", func() { use(b) }, name)
		f.fixed = true
		require.Equal(t, 1, feed(b, 1, nil), name)
		require.EqualValues(t, 1, b.Stats().Successes, name)
	}
}
