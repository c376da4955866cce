package backoff_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

// Sources of numbers for tests that must come out the same every time.
func throttleSeed(seed uint64) func() float64 {
	return rand.New(rand.NewPCG(seed, 1)).Float64
}

func throttleDraw(u float64) func() float64 { return func() float64 { return u } }

// throttleAttempt makes an attempt that ends at once, and reports whether it was sent.
func throttleAttempt(b *backoff.Throttle, o backoff.Outcome) bool {
	ticket, _, ok := b.Reserve(backoff.Attempt{Number: 1})
	if ok {
		b.Done(ticket, backoff.Result{Outcome: o})
	}
	return ok
}

func TestThrottleRefusesNothingWhileTheServiceAccepts(t *testing.T) {
	b := &backoff.Throttle{Rand: throttleDraw(0)} // would refuse if there were any probability to
	for range 1000 {
		require.True(t, throttleAttempt(b, backoff.OutcomeSuccess))
		require.True(t, throttleAttempt(b, backoff.OutcomeDefinitive))
	}
	require.Equal(t, backoff.ThrottleStats{Requests: 2000, Accepts: 2000}, b.Stats())
}

func TestThrottleDrawsNothingWhileTheServiceAccepts(t *testing.T) {
	b := &backoff.Throttle{Rand: func() float64 { panic("drawn") }}
	require.True(t, throttleAttempt(b, backoff.OutcomeSuccess))
	require.True(t, throttleAttempt(b, backoff.OutcomeSuccess))
}

// The newest tenth of the window, or as much more as has ten requests.
func TestThrottleGoesByItsNewestTenRequests(t *testing.T) {
	for _, c := range []struct {
		good, bad    int
		before, want float64
	}{
		{10, 100, 3, 0},          // three bins are enough
		{10, 100, 2, 90.0 / 118}, // but not less than three
		{9, 100, 3, 91.0 / 117},  // nine requests are not
		{0, 9, 29, 9.0 / 17},     // nor is what there is left of the window
		{50, 100, 10, 0},         // of late all is well
		{0, 1000, 1, 0.95},       // never quite shut
	} {
		synctest.Test(t, func(t *testing.T) {
			b := new(backoff.Throttle)
			for range c.bad {
				b.Done(backoff.Ticket{}, backoff.Result{Outcome: backoff.OutcomeThrottled})
			}
			time.Sleep(time.Duration(c.before * 1e9))
			for range c.good {
				b.Done(backoff.Ticket{}, backoff.Result{})
			}
			require.InDelta(t, c.want, b.Stats().Probability, 1e-12, "%+v", c)
			_, wait, _ := b.Reserve(backoff.Attempt{Number: 1})
			require.Zero(t, wait)
		})
	}
}

func TestThrottleHardlyRefusesAClientWithFewCalls(t *testing.T) {
	b := &backoff.Throttle{}
	for range 2 {
		throttleAttempt(b, backoff.OutcomeThrottled)
	}
	require.Equal(t, backoff.ThrottleStats{Requests: 2, Probability: 2.0 / (2 + 8)}, b.Stats())
}

func TestThrottleCountsAsAcceptedWhatIsNotLoad(t *testing.T) {
	for o, want := range map[backoff.Outcome]backoff.ThrottleStats{
		backoff.OutcomeSuccess:    {Requests: 1, Accepts: 1},
		backoff.OutcomeDefinitive: {Requests: 1, Accepts: 1},
		backoff.OutcomeTransient:  {Requests: 1, Probability: 1.0 / 9},
		backoff.OutcomeThrottled:  {Requests: 1, Probability: 1.0 / 9},
		backoff.OutcomeTimeout:    {Requests: 1, Probability: 1.0 / 9},
		backoff.OutcomeCanceled:   {},
		backoff.OutcomeNotSent:    {},
	} {
		b := new(backoff.Throttle)
		throttleAttempt(b, o)
		require.Equal(t, want, b.Stats(), "outcome %d", o)
	}
}

func TestThrottleTakesItsProbabilityFromKAndPad(t *testing.T) {
	for _, c := range []struct {
		k, pad            float64
		accepted, refused int
		want              float64
	}{
		{0, 0, 50, 50, 0},            // half is what K = 2 allows
		{0, 0, 49, 51, 2.0 / 108},    //
		{0, 0, 25, 75, 50.0 / 108},   //
		{0, 0, 0, 100, 100.0 / 108},  //
		{0, 0, 0, 1000, 0.95},        // never all of them
		{0, 20, 25, 75, 50.0 / 120},  //
		{1.5, 0, 50, 50, 25.0 / 108}, //
		{4, 0, 25, 75, 0},            //
	} {
		b := &backoff.Throttle{K: c.k, Pad: c.pad}
		for range c.accepted {
			b.Done(backoff.Ticket{}, backoff.Result{})
		}
		for range c.refused {
			b.Done(backoff.Ticket{}, backoff.Result{Outcome: backoff.OutcomeThrottled})
		}
		require.InDelta(t, c.want, b.Stats().Probability, 1e-12, "%+v", c)
	}
}

func TestThrottleCountsItsOwnRefusals(t *testing.T) {
	b := &backoff.Throttle{Rand: throttleDraw(0)}
	throttleAttempt(b, backoff.OutcomeThrottled)
	require.False(t, throttleAttempt(b, backoff.OutcomeSuccess))
	require.Equal(t, uint64(2), b.Stats().Requests)
}

func TestThrottleDoneThatNeverComesIsNotCounted(t *testing.T) {
	b := new(backoff.Throttle)
	for range 100 {
		_, _, ok := b.Reserve(backoff.Attempt{Number: 1})
		require.True(t, ok)
	}
	require.Zero(t, b.Stats())
}

// A client that offers a multiple of what the service can do sends about twice what it
// accepts, of which the service must refuse the half (Google SRE book, K = 2).
func TestThrottleSendsAboutTwiceWhatIsAccepted(t *testing.T) {
	for _, offered := range []int{300, 1000} {
		synctest.Test(t, func(t *testing.T) {
			b := &backoff.Throttle{Rand: throttleSeed(1)}
			service := newLimitedService(100, 10)
			var sent, accepted float64
			for tick := range offered * 200 {
				ticket, _, ok := b.Reserve(backoff.Attempt{Number: 1})
				if ok {
					answer := service.serve()
					b.Done(ticket, backoff.Result{Outcome: answer})
					if tick > offered*60 {
						sent++
						accepted += map[backoff.Outcome]float64{backoff.OutcomeSuccess: 1}[answer]
					}
				}
				time.Sleep(time.Second / time.Duration(offered))
			}
			require.InDelta(t, 2.03, sent/accepted, 0.06, "offered %d/s", offered)
		})
	}
}

// throttleReopening is the share of the attempts that go through, of those between from
// and to after the end of an outage.
func throttleReopening(try func(backoff.Outcome) bool, every, outage, from, to time.Duration) float64 {
	const healthy = time.Minute
	begin := time.Now()
	var asked, sent float64
	for {
		passed := time.Since(begin)
		if passed > healthy+outage+to {
			return sent / asked
		}
		answer := backoff.OutcomeSuccess
		if passed >= healthy && passed < healthy+outage {
			answer = backoff.OutcomeTransient
		}
		ok := try(answer)
		if passed >= healthy+outage+from {
			asked++
			if ok {
				sent++
			}
		}
		time.Sleep(every)
	}
}

// throttleTry returns a function that makes an attempt under a new throttle.
func throttleTry(seed uint64) func(backoff.Outcome) bool {
	b := &backoff.Throttle{Rand: throttleSeed(seed)}
	return func(o backoff.Outcome) bool { return throttleAttempt(b, o) }
}

// A throttle that has been shut for longer than its window, so that it remembers nothing
// but refusals, is open within 30 s of the end of an outage.
func TestThrottleReopensWithin30Seconds(t *testing.T) {
	for _, every := range []time.Duration{time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, 333 * time.Millisecond, time.Second, 3 * time.Second} {
		for _, outage := range []time.Duration{31 * time.Second, 2 * time.Minute, 10 * time.Minute} {
			synctest.Test(t, func(t *testing.T) {
				runs := 1 + min(39, int(every/(50*time.Millisecond)))
				var share float64
				for seed := range runs {
					share += throttleReopening(throttleTry(uint64(seed)), every, outage, 28*time.Second, 32*time.Second) / float64(runs)
				}
				require.GreaterOrEqual(t, share, 0.9, "a call every %v, an outage of %v", every, outage)
			})
		}
	}
}

// Why it does not go by the formula alone.
func TestThePlainFormulaIsStillShutAfter30Seconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests, accepts [30]float64
		bin := 0
		draw := throttleSeed(1)
		plain := func(o backoff.Outcome) bool {
			if now := time.Now().Second() % 30; now != bin {
				bin, requests[now], accepts[now] = now, 0, 0
			}
			var r, a float64
			for i := range requests {
				r, a = r+requests[i], a+accepts[i]
			}
			requests[bin]++
			if draw() < min(0.95, (r-2*a)/(r+8)) {
				return false
			}
			if o == backoff.OutcomeSuccess {
				accepts[bin]++
			}
			return true
		}
		require.Less(t, throttleReopening(plain, 10*time.Millisecond, 2*time.Minute, 28*time.Second, 32*time.Second), 0.2)
	})
}

func TestThrottleReopensWithin10SecondsOfABusyClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		require.GreaterOrEqual(t, throttleReopening(throttleTry(1), 10*time.Millisecond, 2*time.Minute, 9*time.Second, 11*time.Second), 0.99)
	})
}

func TestThrottleAlwaysProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backoff.Throttle{Rand: throttleSeed(1)}
		sent := 0
		for range 100_000 {
			if throttleAttempt(b, backoff.OutcomeTransient) {
				sent++
			}
			time.Sleep(10 * time.Millisecond)
		}
		require.InDelta(t, 0.05, float64(sent)/100_000, 0.01)
	})
}

func TestThrottleForgetsWithItsWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(backoff.Throttle)
		b.Done(backoff.Ticket{}, backoff.Result{})
		time.Sleep(30*time.Second - 1)
		require.EqualValues(t, 1, b.Stats().Requests)
		time.Sleep(time.Nanosecond)
		require.Zero(t, b.Stats().Requests, "30 s by default")

		b = &backoff.Throttle{Window: 3 * time.Second}
		for range 100 {
			b.Done(backoff.Ticket{}, backoff.Result{Outcome: backoff.OutcomeThrottled})
		}
		time.Sleep(2900 * time.Millisecond)
		require.Equal(t, uint64(100), b.Stats().Requests)
		time.Sleep(100 * time.Millisecond)
		require.Zero(t, b.Stats())
		b.Done(backoff.Ticket{}, backoff.Result{Outcome: backoff.OutcomeThrottled})
		time.Sleep(time.Hour)
		require.Zero(t, b.Stats(), "after an idle time much longer than the window, too")
		b.Done(backoff.Ticket{}, backoff.Result{})
		b.Done(backoff.Ticket{}, backoff.Result{})
		require.EqualValues(t, 2, b.Stats().Requests, "and counts on from there")
		b = &backoff.Throttle{Window: 1}
		b.Done(backoff.Ticket{}, backoff.Result{})
		require.EqualValues(t, 1, b.Stats().Requests, "bins are no shorter than a nanosecond")
	})
}

// Contract row 40: where many answers say "do not retry", the client as a whole stops.
func TestRow40ManyDoNotRetryAnswersStopTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backoff.Throttle{Rand: throttleSeed(1)}
		p := backoff.Policy{Budget: b, Rand: throttleSeed(2)}
		refused := backoff.WithClass(errors.New("overloaded; don't retry"), backoff.ClassOverloaded)
		attempts, calls := 0, 0
		call := func() {
			calls++
			_ = p.Do(t.Context(), func(context.Context) error { attempts++; return refused })
		}
		for range 200 {
			call()
		}
		attempts, calls = 0, 0
		for range 1000 {
			call()
			time.Sleep(time.Millisecond)
		}
		require.LessOrEqual(t, attempts, 80, "of %d calls; a twentieth goes through to see", calls)
	})
}

func TestThrottleEndsACallBeforeItsFirstAttempt(t *testing.T) {
	b := &backoff.Throttle{Rand: throttleDraw(0)}
	b.Done(backoff.Ticket{}, backoff.Result{Outcome: backoff.OutcomeThrottled})
	p := backoff.Policy{Budget: b}
	err := p.Do(t.Context(), func(context.Context) error { panic("called") })
	require.ErrorIs(t, err, backoff.ErrBudget)
}

func TestThrottleTakesAnyNumberThatRandReturns(t *testing.T) {
	for _, u := range []float64{-1, 1, 7, math.Inf(1), math.NaN()} {
		b := &backoff.Throttle{Rand: throttleDraw(u)}
		for range 1000 {
			b.Done(backoff.Ticket{}, backoff.Result{Outcome: backoff.OutcomeThrottled})
		}
		_, _, ok := b.Reserve(backoff.Attempt{})
		require.Equal(t, u >= 1, ok, "%v", u)
	}
	require.True(t, throttleAttempt(new(backoff.Throttle), backoff.OutcomeSuccess), "nil is the default")
	b := new(backoff.Throttle)
	b.Done(backoff.Ticket{}, backoff.Result{Outcome: backoff.OutcomeThrottled})
	b.Reserve(backoff.Attempt{})
}

func TestThrottleIsNotMovedByAClockThatIsSet(t *testing.T) {
	b := &backoff.Throttle{Rand: throttleDraw(1)}
	for range 10 {
		b.Done(backoff.Ticket{}, backoff.Result{Outcome: backoff.OutcomeThrottled})
	}
	before := b.Stats()
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		b.Reserve(backoff.Attempt{Now: clockSetBy(time.Now(), step)})
		require.Equal(t, before, b.Stats(), "set by %v", step)
	}
}

func TestThrottleIsSafeForConcurrentUse(t *testing.T) {
	b := new(backoff.Throttle)
	var answered, refused atomic.Uint64
	var all sync.WaitGroup
	for worker := range 64 {
		all.Go(func() {
			for i := range 200 {
				if ticket, _, ok := b.Reserve(backoff.Attempt{}); !ok {
					refused.Add(1)
				} else if worker%3 == 0 {
					b.Done(ticket, backoff.Result{Outcome: backoff.OutcomeCanceled})
				} else {
					answered.Add(1)
					b.Done(ticket, backoff.Result{Outcome: backoff.Outcome(i%2) * backoff.OutcomeThrottled})
				}
			}
		})
	}
	all.Wait()
	require.Equal(t, answered.Load()+refused.Load(), b.Stats().Requests)
}

func TestThrottleAllocatesNothing(t *testing.T) {
	b := new(backoff.Throttle)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		throttleAttempt(b, backoff.OutcomeSuccess)
		throttleAttempt(b, backoff.OutcomeThrottled)
		throttleAttempt(b, backoff.OutcomeThrottled)
	}))
}

func TestThrottleValidate(t *testing.T) {
	for want, b := range map[string]*backoff.Throttle{
		"":                         {},
		"backoff: Throttle is nil": nil,
		"backoff: Throttle.K is 0.9, want 1 or more":                           {K: 0.9},
		"backoff: Throttle.K is -2, want 1 or more":                            {K: -2},
		"backoff: Throttle.K is NaN, want 1 or more":                           {K: math.NaN()},
		"backoff: Throttle.K is +Inf, want 1 or more":                          {K: math.Inf(1)},
		"backoff: Throttle.Window is -1ns, want 0 or more":                     {Window: -1},
		"backoff: Throttle.K is 1e-09, want 1 or more":                         {K: 1e-9},
		"backoff: Throttle.Pad is +Inf, want 0 or more":                        {Pad: math.Inf(1)},
		"backoff: Throttle.Pad is -1, want 0 or more":                          {Pad: -1},
		"backoff: Throttle.Pad is NaN, want 0 or more":                         {Pad: math.NaN()},
		"backoff: Throttle.MaxReject is 1, want at least 0 and less than 1":    {MaxReject: 1},
		"backoff: Throttle.MaxReject is NaN, want at least 0 and less than 1":  {MaxReject: math.NaN()},
		"backoff: Throttle.MaxReject is -0.1, want at least 0 and less than 1": {MaxReject: -0.1},
		"backoff: Throttle.MaxReject is +Inf, want at least 0 and less than 1": {MaxReject: math.Inf(1)},
	} {
		if err := b.Validate(); want == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, want)
		}
	}
	for _, k := range []float64{1, 1.5, math.MaxFloat64} {
		require.NoError(t, (&backoff.Throttle{K: k, Pad: k}).Validate())
	}
	p := backoff.Policy{Budget: &backoff.Throttle{K: -1}}
	require.ErrorContains(t, p.Validate(), "Throttle.K")
}

func ExampleThrottle() {
	throttle := &backoff.Throttle{Rand: func() float64 { return 0.5 }}
	search := backoff.Policy{Name: "search", MaxAttempts: 1, Budget: throttle}

	sent := 0
	for range 100 {
		err := search.Do(context.Background(), func(context.Context) error {
			sent++
			return backoff.WithClass(errors.New("overloaded"), backoff.ClassOverloaded)
		})
		if errors.Is(err, backoff.ErrBudget) {
			fmt.Println(err)
			break
		}
	}
	fmt.Println("sent:", sent)
	// Output:
	// backoff: search: not started: budget refused
	// sent: 9
}
