package limit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/clock/clocktest"
	"github.com/gobackoff/backoff/internal/nightly"
	"github.com/gobackoff/backoff/internal/results"
	"github.com/gobackoff/backoff/limit"
)

// attempt makes an attempt that ends at once, and reports whether it was sent.
func attempt(b *limit.Throttle, o string) bool {
	ticket, _, ok := b.Reserve(backoff.Attempt{Number: 1})
	if ok {
		b.Done(ticket, results.ByName[o])
	}
	return ok
}

// answered tells a throttle of so many answers.
func answered(b *limit.Throttle, n int, o string) {
	for range n {
		b.Done(backoff.Ticket{}, results.ByName[o])
	}
}

func TestThrottleRefusesAndDrawsNothingWhileTheServiceAccepts(t *testing.T) {
	b := &limit.Throttle{Rand: func() float64 { panic("drawn") }}
	for range 1000 {
		require.True(t, attempt(b, "success"))
		require.True(t, attempt(b, "permanent"))
	}
	require.Equal(t, limit.ThrottleStats{Requests: 2000, Accepts: 2000}, b.Stats())
}

func TestThrottleCountsAsAcceptedWhatIsNotLoad(t *testing.T) {
	for o, want := range map[string]limit.ThrottleStats{
		"success":   {Requests: 1, Accepts: 1},
		"permanent": {Requests: 1, Accepts: 1},
		"failed":    {Requests: 1, Probability: 1.0 / 9},
		"throttled": {Requests: 1, Probability: 1.0 / 9},
		"timeout":   {Requests: 1, Probability: 1.0 / 9},
		"canceled":  {},
		"not sent":  {},
	} {
		b := new(limit.Throttle)
		attempt(b, o)
		require.Equal(t, want, b.Stats(), o)
	}
	b := &limit.Throttle{Rand: fixed(0)}
	attempt(b, "throttled")
	require.False(t, attempt(b, "success"))
	require.EqualValues(t, 2, b.Stats().Requests, "its own refusal is a request, too")
}

// A Throttle uses the newest tenth of the window, or as much more as has ten
// requests.
func TestThrottleTakesItsProbabilityFromKAndPadAndItsNewestTenRequests(t *testing.T) {
	for _, c := range []struct {
		k, pad                    float64
		refused, before, accepted int // so many seconds before
		want                      float64
	}{
		{0, 0, 50, 0, 50, 0},            // half is what K = 2 allows
		{0, 0, 51, 0, 49, 2.0 / 108},    //
		{0, 0, 75, 0, 25, 50.0 / 108},   //
		{0, 0, 100, 0, 0, 100.0 / 108},  //
		{0, 0, 1000, 0, 0, 0.95},        // never all of them
		{0, 0, 2, 0, 0, 2.0 / 10},       // few calls are hardly ever refused
		{0, 20, 75, 0, 25, 50.0 / 120},  //
		{1.5, 0, 50, 0, 50, 25.0 / 108}, //
		{4, 0, 75, 0, 25, 0},            //
		{0, 0, 100, 3, 10, 0},           // three bins are enough
		{0, 0, 100, 2, 10, 90.0 / 118},  // but not less than three
		{0, 0, 100, 3, 9, 91.0 / 117},   // nine requests are not
		{0, 0, 9, 29, 0, 9.0 / 17},      // nor is what there is left of the window
		{0, 0, 100, 10, 50, 0},          // of late all is well
		{0, 0, 1000, 1, 0, 0.95},        // never quite shut
	} {
		synctest.Test(t, func(t *testing.T) {
			b := &limit.Throttle{K: c.k, Pad: c.pad}
			answered(b, c.refused, "throttled")
			time.Sleep(time.Duration(c.before) * time.Second)
			answered(b, c.accepted, "success")
			require.InDelta(t, c.want, b.Stats().Probability, 1e-12, "%+v", c)
			_, wait, _ := b.Reserve(backoff.Attempt{Number: 1})
			require.Zero(t, wait)
		})
	}
}

// A client that offers a multiple of what the service can do sends about twice
// what the service accepts, and the service refuses half of that (Google SRE
// book, K = 2).
func TestThrottleSendsAboutTwiceWhatIsAccepted(t *testing.T) {
	for _, offered := range []int{300, 1000} {
		synctest.Test(t, func(t *testing.T) {
			b := &limit.Throttle{Rand: seeded(1)}
			service := rate.NewLimiter(100, 10)
			var sent, accepted float64
			for tick := range offered * 200 {
				if tick == offered*60 {
					sent, accepted = 0, 0
				}
				if ticket, _, ok := b.Reserve(firstAttempt); ok {
					sent++
					answer := "throttled"
					if service.Allow() {
						accepted++
						answer = "success"
					}
					b.Done(ticket, results.ByName[answer])
				}
				time.Sleep(time.Second / time.Duration(offered))
			}
			require.InDelta(t, 2.03, sent/accepted, 0.06, "offered %d/s", offered)
		})
	}
}

// reopening returns the share of the attempts that a new throttle lets through,
// of those made from 2 s before at to 2 s after it. The outage ends at 0.
func reopening(seed uint64, every, outage, at time.Duration) float64 {
	const healthy = time.Minute
	b := &limit.Throttle{Rand: seeded(seed)}
	var asked, sent float64
	for now := -outage - healthy; now <= at+2*time.Second; now += every {
		answer := "success"
		if now >= -outage && now < 0 {
			answer = "failed"
		}
		ok := attempt(b, answer)
		if now >= at-2*time.Second {
			asked++
			if ok {
				sent++
			}
		}
		time.Sleep(every)
	}
	return sent / asked
}

// A throttle that has refused for longer than its window remembers nothing but
// refusals. It is open within 30 s of the end of the outage all the same, and
// within 10 s where there are many calls.
func TestThrottleReopensSoonAfterAnOutage(t *testing.T) {
	nightly.Long(t)
	const ms = time.Millisecond
	requireOpen := func(t *testing.T, least float64, every, outage, at time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			runs := 1 + min(39, int(every/(50*ms)))
			var share float64
			for seed := range runs {
				share += reopening(uint64(seed), every, outage, at) / float64(runs)
			}
			require.GreaterOrEqual(t, share, least, "a call every %v, an outage of %v", every, outage)
		})
	}
	for _, every := range []time.Duration{ms, 10 * ms, 100 * ms, 333 * ms, 1000 * ms, 3000 * ms} {
		for _, outage := range []time.Duration{31 * time.Second, 2 * time.Minute, 10 * time.Minute} {
			requireOpen(t, 0.9, every, outage, 30*time.Second)
		}
	}
	requireOpen(t, 0.99, 10*ms, 2*time.Minute, 12*time.Second)
}

func TestThrottleForgetsWithItsWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(limit.Throttle)
		b.Done(backoff.Ticket{}, backoff.Result{})
		time.Sleep(30*time.Second - 1)
		require.EqualValues(t, 1, b.Stats().Requests)
		time.Sleep(time.Nanosecond)
		require.Zero(t, b.Stats().Requests, "30 s by default")

		b = &limit.Throttle{Window: 3 * time.Second}
		answered(b, 100, "throttled")
		time.Sleep(2900 * time.Millisecond)
		require.Equal(t, uint64(100), b.Stats().Requests)
		time.Sleep(100 * time.Millisecond)
		require.Zero(t, b.Stats())
		answered(b, 1, "throttled")
		time.Sleep(time.Hour)
		require.Zero(t, b.Stats(), "after an idle time much longer than the window, too")
		answered(b, 2, "success")
		require.EqualValues(t, 2, b.Stats().Requests, "and counts on from there")
		b = &limit.Throttle{Window: 1}
		b.Done(backoff.Ticket{}, backoff.Result{})
		require.EqualValues(t, 1, b.Stats().Requests, "bins are no shorter than a nanosecond")
	})
}

func TestThrottleIsNotMovedByAClockThatIsSet(t *testing.T) {
	b := &limit.Throttle{Rand: fixed(1)}
	answered(b, 10, "throttled")
	before := b.Stats()
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		b.Reserve(backoff.Attempt{Now: clocktest.Set(time.Now(), step)})
		require.Equal(t, before, b.Stats(), "set by %v", step)
	}
}

func TestThrottleAllocatesNothing(t *testing.T) {
	b := new(limit.Throttle)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		attempt(b, "success")
		attempt(b, "throttled")
		attempt(b, "throttled")
	}))
}

func TestThrottleValidate(t *testing.T) {
	for want, b := range map[string]*limit.Throttle{
		"": {},
		"backoff: limit.Throttle.K is 0.9, want 1 or more":                           {K: 0.9},
		"backoff: limit.Throttle.K is -2, want 1 or more":                            {K: -2},
		"backoff: limit.Throttle.K is NaN, want 1 or more":                           {K: math.NaN()},
		"backoff: limit.Throttle.K is +Inf, want 1 or more":                          {K: math.Inf(1)},
		"backoff: limit.Throttle.Window is -1ns, want 0 or more":                     {Window: -1},
		"backoff: limit.Throttle.K is 1e-09, want 1 or more":                         {K: 1e-9},
		"backoff: limit.Throttle.Pad is +Inf, want 0 or more":                        {Pad: math.Inf(1)},
		"backoff: limit.Throttle.Pad is -1, want 0 or more":                          {Pad: -1},
		"backoff: limit.Throttle.Pad is NaN, want 0 or more":                         {Pad: math.NaN()},
		"backoff: limit.Throttle.MaxReject is 1, want at least 0 and less than 1":    {MaxReject: 1},
		"backoff: limit.Throttle.MaxReject is NaN, want at least 0 and less than 1":  {MaxReject: math.NaN()},
		"backoff: limit.Throttle.MaxReject is -0.1, want at least 0 and less than 1": {MaxReject: -0.1},
		"backoff: limit.Throttle.MaxReject is +Inf, want at least 0 and less than 1": {MaxReject: math.Inf(1)},
	} {
		if err := b.Validate(); want == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, want)
		}
	}
	for _, k := range []float64{1, 1.5, math.MaxFloat64} {
		require.NoError(t, (&limit.Throttle{K: k, Pad: k}).Validate())
	}
	p := backoff.Policy{Budget: &limit.Throttle{K: -1}}
	require.ErrorContains(t, p.Validate(), "Throttle.K")
}

func ExampleThrottle() {
	throttle := &limit.Throttle{Rand: func() float64 { return 0.5 }}
	search := backoff.Policy{Name: "search", MaxAttempts: 1, Budget: throttle}

	sent := 0
	for range 100 {
		err := search.Do(context.Background(), func(context.Context) error {
			sent++
			return backoff.OfClass(errors.New("overloaded"), backoff.ClassOverloaded)
		})
		if errors.Is(err, backoff.ErrBudget) {
			fmt.Println(err)
			break
		}
	}
	fmt.Println("sent:", sent)
	// Output:
	// backoff: search: not started: budget refused (Budget)
	// sent: 9
}

func ExampleThrottleStats() {
	throttle := new(limit.Throttle)
	policy := backoff.Policy{Budget: throttle, MaxAttempts: 1}
	for range 10 {
		_ = policy.Do(context.Background(), func(context.Context) error {
			return backoff.OfClass(errors.New("down"), backoff.ClassOverloaded)
		})
	}
	stats := throttle.Stats()
	fmt.Printf("%d of %d accepted, refuses %.0f %%\n", stats.Accepts, stats.Requests, 100*stats.Probability)
	// Output: 0 of 10 accepted, refuses 56 %
}

// Where a throttle must refuse some calls, it refuses those that can wait.
func TestAThrottleSparesTheUrgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := backoff.Policy{MaxAttempts: 1, Budget: &limit.Throttle{Rand: seeded(84)}}
		refused := map[backoff.Priority]int{}
		for i := range 6000 {
			priority := []backoff.Priority{backoff.PriorityHigh, backoff.PriorityNormal, backoff.PriorityBackground}[i%3]
			err := policy.Do(backoff.WithPriority(t.Context(), priority), func(context.Context) error {
				if i%4 == 0 {
					return nil
				}
				return backoff.OfClass(errors.New("busy"), backoff.ClassThrottled)
			})
			if errors.Is(err, backoff.ErrBudget) {
				refused[priority]++
			}
			time.Sleep(10 * time.Millisecond)
		}
		require.Less(t, 20*refused[backoff.PriorityHigh], 19*refused[backoff.PriorityNormal])
		require.Less(t, refused[backoff.PriorityNormal], refused[backoff.PriorityBackground])
	})
}
