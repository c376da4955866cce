package foreign_test

import (
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/cmd/backoffsim/internal/foreign"
)

// offerTo calls a service at intervals, or as often as the budget allows. The
// client does not know the service's limit. offerTo returns how many calls were
// accepted and how many were refused.
func offerTo(b backoff.Budget, service *rate.Limiter, every, d time.Duration) (taken, refused int) {
	for begin := time.Now(); time.Since(begin) < d; {
		ticket, wait, _ := b.Reserve(backoff.Attempt{Number: 1})
		time.Sleep(max(wait, every))
		if service.Allow() {
			taken++
			b.Done(ticket, backoff.Result{})
		} else {
			refused++
			b.Done(ticket, backoff.Result{Failed: true, Class: backoff.ClassThrottled})
		}
	}
	return taken, refused
}

// The sequence of the SDK's TestAdaptiveRateLimit_Update: an answer every 200
// ms, throttling at 2 s and at 3.2 s.
func TestAWSRateByTheTestOfTheSDK(t *testing.T) {
	want := []float64{0.5, 0.5, 0.5, 0.5, 0.5, 0.6912, 1.0976, 1.6384, 2.3328,
		3.02848, 3.4866391734702598, 3.8218744160402554, 4.053385727709987, 4.200373108479455, 4.282036558348658,
		2.99742559084406, 3.4522263943863463}
	synctest.Test(t, func(t *testing.T) {
		b := foreign.NewAWSRate()
		begin(t, b) // the time begins
		for i, fill := range want {
			time.Sleep(200 * time.Millisecond)
			outcome := "success"
			if i == 9 || i == 15 {
				outcome = "throttled"
			}
			finish(t, b, outcome)
			if i < 9 {
				require.Equal(t, math.Inf(1), b.Rate(), "no limit before the first throttling answer")
			} else {
				require.InDelta(t, fill, b.Rate(), 1e-9, "at %v", time.Duration(i+1)*200*time.Millisecond)
			}
		}
	})
}

func TestAWSRateTakesOtherFailuresForAnswers(t *testing.T) {
	for _, o := range []string{"permanent", "failed", "timeout", "canceled"} {
		synctest.Test(t, func(t *testing.T) {
			success, other := foreign.NewAWSRate(), foreign.NewAWSRate()
			for range 100 {
				finish(t, success, "success")
				finish(t, other, o)
				time.Sleep(10 * time.Millisecond)
			}
			finish(t, success, "throttled")
			finish(t, other, "throttled")
			require.Equal(t, success.Rate(), other.Rate(), o)
			require.Positive(t, other.Rate())
			before := other.Rate()
			finish(t, other, "not sent")
			require.Equal(t, before, other.Rate(), "what was not sent was not answered")
		})
	}
}

// throttleOnce makes a limit of about 0.7 * perSecond.
func throttleOnce(t *testing.T, b *foreign.AdaptiveRate, perSecond int) {
	t.Helper()
	for range 3 * perSecond {
		finish(t, b, "success")
		time.Sleep(time.Second / time.Duration(perSecond))
	}
	finish(t, b, "throttled")
}

func TestAWSRateMakesAttemptsWaitInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := foreign.NewAWSRate()
		throttleOnce(t, b, 20)
		var waits []time.Duration
		var tickets []backoff.Ticket
		for range 40 {
			ticket, wait, ok := b.Reserve(backoff.Attempt{Number: 1})
			require.True(t, ok)
			waits, tickets = append(waits, wait), append(tickets, ticket)
		}
		require.True(t, slices.IsSorted(waits), "%v", waits)
		apart := time.Duration(float64(time.Second) / b.Rate())
		i := slices.IndexFunc(waits, func(d time.Duration) bool { return d > 0 })
		require.InDelta(t, apart, waits[i+1]-waits[i], float64(time.Millisecond))
		require.InDelta(t, time.Duration(39-i)*apart, waits[39]-waits[i], float64(time.Millisecond))

		for _, ticket := range tickets[i:] {
			b.Done(ticket, backoff.Result{NotSent: true})
		}
		_, wait, _ := b.Reserve(backoff.Attempt{Number: 1})
		require.Less(t, wait, 2*apart, "and nobody waits for those who have left")
	})
}

// Thirty calls refused together cut the rate once. In the SDK it would be 0.5 a
// second.
func TestAWSRateCutsOnceForWhatWasUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := foreign.NewAWSRate()
		throttleOnce(t, b, 100)
		var tickets []backoff.Ticket
		repeat(30, func() { tickets = append(tickets, begin(t, b)) })
		before := b.Rate()
		b.Done(tickets[0], backoff.Result{Failed: true, Class: backoff.ClassThrottled})
		once := b.Rate()
		require.InDelta(t, 0.7*before, once, 1e-9)
		for _, ticket := range tickets[1:] {
			b.Done(ticket, backoff.Result{Failed: true, Class: backoff.ClassThrottled})
		}
		require.Equal(t, once, b.Rate())
	})
}

// Throttling before anything was measured.
func TestAWSRateTakesWhatItHasForAMeasurement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := foreign.NewAWSRate()
		for range 49 {
			finish(t, b, "success")
			time.Sleep(5 * time.Millisecond)
		}
		finish(t, b, "throttled")
		require.InDelta(t, 0.7*200, b.Rate(), 5)
	})
}

// A service that throttled everything for a while has cut the rate to the
// minimum, and waiting attempts have turns for that rate, up to a minute ahead.
// Newcomers need not wait for them.
func TestAWSRateRecoversWithALineOfCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := foreign.NewAWSRate()
		service := rate.NewLimiter(100, 10)
		begin := time.Now()
		var mu sync.Mutex
		taken := make([]int, 60)
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				for time.Since(begin) < time.Minute {
					ticket, wait, _ := b.Reserve(backoff.Attempt{Number: 1})
					time.Sleep(wait + 10*time.Millisecond)
					mu.Lock()
					at := time.Since(begin)
					if down := at > 10*time.Second && at < 25*time.Second; !down && service.Allow() {
						taken[min(59, int(at/time.Second))]++
						b.Done(ticket, backoff.Result{})
					} else {
						b.Done(ticket, backoff.Result{Failed: true, Class: backoff.ClassThrottled})
					}
					mu.Unlock()
				}
			})
		}
		all.Wait()
		require.Greater(t, taken[9], 80)
		sum := 0
		for _, n := range taken[35:45] {
			sum += n
		}
		require.Greater(t, sum, 800, "within ten seconds: %v", taken)
	})
}

func TestAWSRateGetsATokenBackThatWasDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := foreign.NewAWSRate()
		finish(t, b, "not sent") // before there is a limit
		throttleOnce(t, b, 20)
		free := func() (n int) {
			for {
				ticket, wait, _ := b.Reserve(backoff.Attempt{Number: 1})
				if wait > 0 {
					b.Done(ticket, backoff.Result{NotSent: true})
					return n
				}
				defer b.Done(ticket, backoff.Result{NotSent: true})
				n++
			}
		}
		n := free()
		require.Positive(t, n)
		require.Equal(t, n, free())
	})
}

// The rate falls to the service's limit and stays near it: within 10 % by the
// curve, or 15 % of a limit so low that a few calls are a tenth. By halving it takes
// 60 % of it, as a fall is made good in eight steps or more.
func TestAdaptiveRatesFindAHiddenLimit(t *testing.T) {
	for _, c := range []struct {
		open    func() *foreign.AdaptiveRate
		limit   float64
		least   float64 // share of the limit that is accepted
		refused int     // calls in 5 minutes, at most
	}{
		{foreign.NewAWSRate, 10, 0.85, 150},
		{foreign.NewAWSRate, 40, 0.9, 100},
		{foreign.NewAWSRate, 100, 0.9, 100},
		{foreign.NewAWSRate, 400, 0.9, 100},
		{foreign.NewHalvingRate, 5, 0.6, 50},
		{foreign.NewHalvingRate, 40, 0.6, 50},
		{foreign.NewHalvingRate, 300, 0.6, 50},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := c.open()
			service := rate.NewLimiter(rate.Limit(c.limit), 1+int(c.limit/10))
			offerTo(b, service, time.Millisecond, time.Minute)
			taken, refused := 0, 0
			for range 300 {
				more, no := offerTo(b, service, time.Millisecond, time.Second)
				taken, refused = taken+more, refused+no
				require.GreaterOrEqual(t, b.Rate(), 0.3*c.limit)
				require.LessOrEqual(t, b.Rate(), 1.3*c.limit)
			}
			require.GreaterOrEqual(t, float64(taken)/300, c.least*c.limit)
			require.LessOrEqual(t, float64(taken+refused)/300, 1.15*c.limit)
			require.LessOrEqual(t, refused, c.refused)
		})
	}
}

// limited returns a rate that has served 1,000 calls a second for 2 s.
func limited(t *testing.T) *foreign.AdaptiveRate {
	b := foreign.NewHalvingRate()
	serve(t, b, 2*time.Second)
	return b
}

// serve makes a call every millisecond, which succeeds.
func serve(t *testing.T, b backoff.Budget, d time.Duration) {
	for range d / time.Millisecond {
		time.Sleep(time.Millisecond)
		finish(t, b, "success")
	}
}

func TestHalvingRateHalvesOnEachThrottledResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := limited(t)
		require.Equal(t, math.Inf(1), b.Rate(), "no limit before there is a reason")
		for _, want := range []float64{500, 250, 125, 62.5} {
			finish(t, b, "throttled")
			require.InEpsilon(t, want, b.Rate(), 0.01)
		}
		for range 20 {
			finish(t, b, "throttled")
		}
		require.Equal(t, 0.5, b.Rate(), "but no further")
	})
}

// A fall takes one response, and eight quiet seconds make good for it.
func TestHalvingRateRisesInStepsMoreSlowlyThanItFell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := limited(t)
		finish(t, b, "throttled")
		low := b.Rate()
		for step := range 8 {
			serve(t, b, time.Second-time.Millisecond)
			require.InDelta(t, low*math.Exp2(float64(step)/8), b.Rate(), 1e-6, "not before its time")
			serve(t, b, time.Millisecond)
			require.InDelta(t, low*math.Exp2(float64(step+1)/8), b.Rate(), 1e-6)
		}
		serve(t, b, time.Minute)
		require.LessOrEqual(t, b.Rate(), 2005.0, "twice what is served")
	})
}

func TestHalvingRatesShareALimitFairly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients = 4
		service := rate.NewLimiter(200, 20)
		var sent [clients]float64
		var all sync.WaitGroup
		for i := range clients {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 7 * time.Second) // late ones must find room
				taken, refused := offerTo(foreign.NewHalvingRate(), service, 3*time.Millisecond, 5*time.Minute)
				sent[i] = float64(taken + refused)
			})
		}
		all.Wait()
		fair := (sent[0] + sent[1] + sent[2] + sent[3]) / clients
		for i, n := range sent {
			require.InDelta(t, 1, n/fair, 0.35, "client %d of %v", i, sent)
		}
	})
}

func TestAWSRateGivesNoTurnToAnAttemptThatOnlyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := foreign.NewAWSRate()
		throttleOnce(t, b, 4)
		time.Sleep(time.Second)
		var tickets []backoff.Ticket
		for range 20 {
			ticket, wait, ok := b.Reserve(backoff.Attempt{Number: 2, Wait: time.Minute, Paced: true})
			require.True(t, ok)
			require.Zero(t, wait)
			tickets = append(tickets, ticket)
		}
		_, wait, _ := b.Reserve(backoff.Attempt{Number: 1, Paced: true})
		require.Zero(t, wait)
		b.Done(tickets[19], backoff.Result{NotSent: true})
		time.Sleep(time.Minute)

		var last time.Duration
		for _, ticket := range tickets[:18] {
			own, wait, ok := b.Pace(ticket)
			require.True(t, ok)
			require.GreaterOrEqual(t, wait, last)
			same, again, _ := b.Pace(own)
			require.Equal(t, own, same)
			require.InDelta(t, wait, again, float64(time.Microsecond), "it has its turn")
			last = wait
		}
		require.Greater(t, last, 3*time.Second)
		before := b.Rate()
		b.Done(tickets[18], backoff.Result{Failed: true, Class: backoff.ClassThrottled})
		require.Less(t, b.Rate(), before, "one that went without its turn is heard")
		_, wait, _ = b.Pace(tickets[18])
		require.Zero(t, wait, "and forgotten")
	})
}
