package limit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/clock/clocktest"
	"github.com/gobackoff/backoff/limit"
)

// A step of a Rate's life.
type step struct {
	sleep   float64   // seconds before the step
	ended   []int     // these attempts end, by the order in which they asked
	notSent []int     // these are not made
	want    []float64 // the waits, in seconds, of the attempts that ask now
}

func TestRateThroughItsLife(t *testing.T) {
	for name, c := range map[string]struct {
		limit         rate.Limit
		burst, tokens int
		life          []step
	}{
		"attempts wait in order": {2, 3, 1, []step{
			{want: []float64{0, 0, 0, 0.5, 1, 1.5}},
			{sleep: 1, want: []float64{1}},
			{sleep: 3600, want: []float64{0, 0, 0, 0.5}},
		}},
		"an attempt may take several tokens": {10, 10, 5, []step{
			{want: []float64{0, 0, 0.5, 1}},
			{notSent: []int{3}, want: []float64{1}},
		}},
		"the last in the line gives its token back": {1, 1, 1, []step{
			{want: []float64{0, 1, 2, 3}},
			{notSent: []int{3}, want: []float64{3}},
			{notSent: []int{4, 2}, want: []float64{2}},
		}},
		// A call that leaves the middle of the line leaves a gap. Calls that ask later
		// must not overtake, so the burst must have room for the token until then.
		"a burst of 1 saves no token from the middle": {1, 1, 1, []step{
			{want: []float64{0}},
			{sleep: 3600, want: []float64{0, 1, 2, 3, 4, 5}},
			{notSent: []int{2, 4}, want: []float64{6, 7, 8}},
		}},
		"a burst of 2 saves one": {1, 2, 1, []step{
			{want: []float64{0}},
			{sleep: 3600, want: []float64{0, 0, 1, 2, 3, 4, 5}},
			{notSent: []int{3, 5}, want: []float64{5, 6, 7}},
		}},
		"a burst of 3 saves two": {1, 3, 1, []step{
			{want: []float64{0}},
			{sleep: 3600, want: []float64{0, 0, 0, 1, 2, 3, 4, 5}},
			{notSent: []int{4, 6}, want: []float64{5, 5, 6}},
		}},
		"a token that could not be saved is lost in time": {1, 1, 1, []step{
			{want: []float64{0, 1, 2, 3}},
			{notSent: []int{1}},
			{sleep: 2, ended: []int{2}, notSent: []int{3}, want: []float64{1}},
		}},
		"a token goes back after it was due": {0.1, 1, 1, []step{
			{want: []float64{0}},
			{sleep: 1, notSent: []int{0}, want: []float64{0}},
		}},
		"a token goes back once, and none after the attempt": {1, 3, 1, []step{
			{want: []float64{0, 0, 0}},
			{ended: []int{0}, notSent: []int{0, 1, 1}, want: []float64{0, 1}},
			{sleep: 3600, want: []float64{0, 0, 0, 1}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &limit.Rate{Limiter: rate.NewLimiter(c.limit, c.burst), Tokens: c.tokens}
				var tickets []backoff.Ticket
				for i, step := range c.life {
					time.Sleep(time.Duration(step.sleep * 1e9))
					for _, n := range step.ended {
						b.Done(tickets[n], backoff.Result{})
					}
					for _, n := range step.notSent {
						giveBack(b, tickets[n])
					}
					giveBack(b, backoff.Ticket{}, backoff.Ticket{Word: 99}) // of no attempt
					waits, asked := reserve(t, b, len(step.want))
					require.Equal(t, seconds(step.want...), waits, "step %d", i)
					tickets = append(tickets, asked...)
				}
			})
		})
	}
}

func TestRateMayBeForRetriesOnly(t *testing.T) {
	b := &limit.Rate{Limiter: rate.NewLimiter(1, 1), RetriesOnly: true}
	reserve(t, b, 10)
	ticket, wait, ok := b.Reserve(backoff.Attempt{Number: 2})
	require.True(t, ok)
	require.Zero(t, wait)
	b.Done(ticket, backoff.Result{})
	for _, hedge := range []bool{false, true} {
		_, wait, _ = b.Reserve(backoff.Attempt{Number: 2, Hedge: hedge})
		require.Positive(t, wait)
	}
}

func TestRateOfEveryKindOfLimiter(t *testing.T) {
	for _, c := range []struct {
		name    string
		limiter *rate.Limiter
		granted int // of 3
	}{
		{"none", nil, 3},
		{"without a limit", rate.NewLimiter(rate.Inf, 0), 3},
		{"without a rate", rate.NewLimiter(0, 2), 2},
		{"without a burst", rate.NewLimiter(10, 0), 0},
		{"zero", new(rate.Limiter), 0},
	} {
		b := &limit.Rate{Limiter: c.limiter}
		granted := 0
		for range 3 {
			ticket, wait, ok := b.Reserve(backoff.Attempt{Number: 1})
			if ok {
				granted++
				require.Zero(t, wait, c.name)
				b.Done(ticket, backoff.Result{Outcome: backoff.OutcomeNotSent})
				_, _, ok = b.Reserve(backoff.Attempt{Number: 1})
				require.True(t, ok, "%s: what is given back may be taken again", c.name)
			}
		}
		require.Equal(t, c.granted, granted, c.name)
	}
	b := &limit.Rate{Limiter: rate.NewLimiter(0, 1)}
	reserve(t, b, 1)
	for range 3 {
		_, _, ok := b.Reserve(backoff.Attempt{Number: 1})
		require.False(t, ok)
	}
	b.Limiter.SetLimit(1)
	got, _ := reserve(t, b, 1)
	require.InDelta(t, time.Second, got[0], float64(10*time.Millisecond), "a refusal has taken nothing")
}

func TestRateEndsAtOnceACallWhoseDeadlineItWouldPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &limit.Rate{Limiter: rate.NewLimiter(1, 1)}
		p := backoff.Policy{Budget: b}
		succeed := func(context.Context) error { return nil }
		require.NoError(t, p.Do(t.Context(), succeed))

		ctx, cancel := context.WithTimeout(t.Context(), 900*time.Millisecond)
		defer cancel()
		begin := time.Now()
		for range 10 {
			err := p.Do(ctx, succeed)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		require.Zero(t, time.Since(begin), "without a wait")

		require.NoError(t, p.Do(t.Context(), succeed))
		require.Equal(t, time.Second, time.Since(begin), "and the others' tokens are back")
	})
}

func TestRateGetsTheTokenBackOfACallCancelledWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &limit.Rate{Limiter: rate.NewLimiter(1, 1)}
		p := backoff.Policy{Budget: b}
		reserve(t, b, 1)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(500*time.Millisecond, cancel)
		err := p.Do(ctx, func(context.Context) error { panic("called") })
		require.ErrorIs(t, err, context.Canceled)
		got, _ := reserve(t, b, 1)
		require.Equal(t, seconds(0.5), got)
	})
}

func TestRateSpacesTheRunsOfAllLoopsThatShareIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const loops = 1000
		ctx, cancel := context.WithCancel(t.Context())
		p := backoff.Policy{Budget: &limit.Rate{Limiter: rate.NewLimiter(100, 1)}}
		var mu sync.Mutex
		var began []time.Time
		var all sync.WaitGroup
		for range loops {
			all.Go(func() {
				backoff.Supervisor{Policy: p}.Run(ctx, func(ctx context.Context) error {
					mu.Lock()
					began = append(began, time.Now())
					mu.Unlock()
					return hold(ctx, time.Hour) // cut off together
				})
			})
		}
		time.Sleep(90 * time.Minute)
		cancel()
		all.Wait()
		require.Len(t, began, 2*loops)
		for i := range began[1:] {
			require.GreaterOrEqual(t, began[i+1].Sub(began[i]), 10*time.Millisecond-time.Microsecond)
		}
		require.Less(t, began[2*loops-1].Sub(began[loops]), 11*time.Second)
	})
}

// An operation that hangs must not keep the reservations of all that come after
// it.
func TestRateHoldsLittleForAttemptsThatNeverEnd(t *testing.T) {
	b := &limit.Rate{Limiter: rate.NewLimiter(rate.Inf, 0)}
	reserve(t, b, 10_000)
	before := heapInUse()
	for range 100_000 {
		_, _, _ = b.Reserve(backoff.Attempt{Number: 1})
	}
	require.Less(t, int64(heapInUse()-before), int64(1<<20))
	runtime.KeepAlive(b)
}

// The bound and the order hold, however calls ask, go, and leave the queue.
func TestRateHoldsItsBoundAndItsOrder(t *testing.T) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 3))
			perSecond, burst := 1+9*random.Float64(), 1+random.IntN(6)
			b := &limit.Rate{Limiter: rate.NewLimiter(rate.Limit(perSecond), burst)}
			type waiter struct {
				ticket backoff.Ticket
				at     time.Duration
			}
			var waiting []waiter
			var went []time.Duration
			begin := time.Now()
			for range 300 {
				now := time.Since(begin)
				switch i := random.IntN(10); {
				case i < 5:
					ticket, wait, ok := b.Reserve(backoff.Attempt{Number: 1})
					require.True(t, ok)
					for _, w := range waiting {
						if w.at > now+wait {
							require.Fail(t, "a later reservation is due before an earlier one")
						}
					}
					waiting = append(waiting, waiter{ticket, now + wait})
				case i < 8 && len(waiting) > 0:
					i := random.IntN(len(waiting))
					giveBack(b, waiting[i].ticket)
					waiting = slices.Delete(waiting, i, i+1)
				default:
					time.Sleep(time.Duration(random.Int64N(int64(time.Second))))
				}
				waiting = slices.DeleteFunc(waiting, func(w waiter) bool {
					gone := w.at <= time.Since(begin)
					if gone {
						went = append(went, w.at)
						if random.IntN(2) == 0 {
							b.Done(w.ticket, backoff.Result{})
						}
					}
					return gone
				})
			}
			slices.Sort(went)
			for i := range went {
				for j := i; j < len(went); j++ {
					if most := float64(burst) + perSecond*(went[j]-went[i]).Seconds(); float64(j-i+1) > most+1e-4 {
						require.Fail(t, "too many", "from %v to %v: %d, not %v", went[i], went[j], j-i+1, most)
					}
				}
			}
		})
	}
}

// Once all calls that wait have left, it is as if they had never asked. After
// 10,000 of them it also drops the memory of the line.
func TestRateLosesNoTokens(t *testing.T) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 4))
			burst, waiting := 1+random.IntN(5), 10+random.IntN(30)
			if seed == 0 {
				waiting = 10_000
			}
			b := &limit.Rate{Limiter: rate.NewLimiter(1, burst)}
			untouched := rate.NewLimiter(1, burst)
			for range random.IntN(burst + 1) {
				_, made := reserve(t, b, 1)
				b.Done(made[0], backoff.Result{})
				untouched.Allow()
			}
			_, tickets := reserve(t, b, waiting)
			for _, i := range random.Perm(len(tickets)) {
				giveBack(b, tickets[i])
			}
			require.InDelta(t, untouched.Tokens(), b.Limiter.Tokens(), 1e-6)
			got, _ := reserve(t, b, 1)
			require.InDelta(t, untouched.Reserve().Delay(), got[0], 10)
		})
	}
}

func TestRateIsNotMovedByAClockThatIsSet(t *testing.T) {
	b := &limit.Rate{Limiter: rate.NewLimiter(1, 1)}
	ask := func(now time.Time) time.Duration {
		_, wait, ok := b.Reserve(backoff.Attempt{Number: 1, Now: now})
		require.True(t, ok)
		return wait
	}
	now := time.Now()
	require.Equal(t, 0*time.Second, ask(now))
	require.Equal(t, 1*time.Second, ask(clocktest.Set(now, time.Hour)))
	require.Equal(t, 2*time.Second, ask(clocktest.Set(now, -time.Hour)))
	require.Equal(t, 3*time.Second, ask(now.Add(-time.Millisecond)), "a reading that comes late")
	require.Equal(t, 4*time.Second, ask(now))

	// Without a monotonic reading the time stands still, and goes on from
	// there.
	back := now.Add(-time.Hour)
	require.Equal(t, 5*time.Second, ask(back))
	require.Equal(t, 5*time.Second, ask(back.Add(time.Second)))
	require.Equal(t, 0*time.Second, ask(back.Add(24*time.Hour)))
	require.Equal(t, 1*time.Second, ask(back.Add(24*time.Hour)), "one burst, not a day's tokens")
}

func TestALongLineOfARateIsLeftInLinearTime(t *testing.T) {
	const calls = 30_000
	var asking, leaving time.Duration
	for _, burst := range []int{1, calls / 50, calls, 20 * calls} {
		l := &limit.Rate{Limiter: rate.NewLimiter(1000, burst)}
		l.Limiter.ReserveN(time.Now(), burst)
		began := time.Now()
		_, tickets := reserve(t, l, calls)
		asked := time.Now()
		for i, next := range rand.New(rand.NewPCG(1, 2)).Perm(calls / 2) { // the front half in order, the other one not
			giveBack(l, tickets[i], tickets[calls/2+next])
		}
		asking, leaving = asking+asked.Sub(began), leaving+time.Since(asked)
	}
	require.Less(t, leaving, 20*asking) // it takes no longer, and a hundred times as long if each call looks at all
}

func TestRateAllocatesNothing(t *testing.T) {
	b := &limit.Rate{Limiter: rate.NewLimiter(1000, 1)}
	hanging, _, _ := b.Reserve(backoff.Attempt{Number: 1})
	require.Zero(t, testing.AllocsPerRun(10_000, func() {
		first, _, _ := b.Reserve(backoff.Attempt{Number: 1})
		second, _, _ := b.Reserve(backoff.Attempt{Number: 1})
		b.Done(first, backoff.Result{})
		b.Done(second, backoff.Result{Outcome: backoff.OutcomeNotSent})
	}))
	b.Done(hanging, backoff.Result{})
}

func TestRateValidate(t *testing.T) {
	for want, b := range map[string]*limit.Rate{
		"backoff: limit.Rate.Tokens is -1, want 0 (for 1) or more":                          {Limiter: rate.NewLimiter(1, 1), Tokens: -1},
		"backoff: limit.Rate.Limiter has a burst of 0, want at least what an attempt takes": {Limiter: rate.NewLimiter(1, 0)},
		"backoff: limit.Rate.Limiter has a burst of 2, want at least what an attempt takes": {Limiter: rate.NewLimiter(1, 2), Tokens: 3},
	} {
		require.EqualError(t, b.Validate(), want)
		require.EqualError(t, (&backoff.Policy{Budget: b}).Validate(), want)
	}
	require.NoError(t, (&limit.Rate{Limiter: rate.NewLimiter(rate.Inf, 0)}).Validate())
	require.NoError(t, (&limit.Rate{Limiter: rate.NewLimiter(1, 3), Tokens: 3}).Validate())
}

func ExampleRate() {
	// At most 3 attempts of all calls at once, and then one a minute.
	limiter := rate.NewLimiter(rate.Every(time.Minute), 3)
	policy := backoff.Policy{Name: "fetch", Budget: &limit.Rate{Limiter: limiter}}

	for range 3 {
		fmt.Println(policy.Do(context.Background(), func(context.Context) error { return nil }))
	}

	// A call whose deadline is before its turn ends at once.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := policy.Do(ctx, func(context.Context) error { return nil })
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output:
	// <nil>
	// <nil>
	// <nil>
	// true
}

// Attempts may cost more than one another, as requests of different size do.
func TestRateTakesWhatAnAttemptCosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := rate.NewLimiter(10, 10)
		b := &limit.Rate{Limiter: limiter, Tokens: 2}
		reserve := func(cost int) (backoff.Ticket, time.Duration, bool) {
			return b.Reserve(backoff.Attempt{Number: 1, Cost: cost})
		}
		ticket, wait, ok := reserve(4)
		require.True(t, ok)
		require.Zero(t, wait)
		require.InDelta(t, 2, limiter.Tokens(), 1e-9)

		b.Done(ticket, backoff.Result{Cost: 3})
		require.InDelta(t, 4, limiter.Tokens(), 1e-9, "what it did not cost came back")
		b.Done(ticket, backoff.Result{Cost: 3})
		require.InDelta(t, 4, limiter.Tokens(), 1e-9, "once")
		dear, _, _ := reserve(1)
		b.Done(dear, backoff.Result{Cost: 100})
		require.InDelta(t, -8, limiter.Tokens(), 1e-9, "beyond that a whole burst is taken")
		time.Sleep(1200 * time.Millisecond)

		ticket, _, _ = reserve(0)
		require.InDelta(t, 2, limiter.Tokens(), 1e-9, "0 counts as 1")
		b.Done(ticket, backoff.Result{Cost: 2})
		require.InDelta(t, 0, limiter.Tokens(), 1e-9, "what it cost besides is taken")

		ticket, wait, ok = reserve(5)
		require.True(t, ok)
		require.Equal(t, time.Second, wait)
		b.Done(ticket, backoff.Result{Outcome: backoff.OutcomeNotSent, Cost: 1})
		require.InDelta(t, 0, limiter.Tokens(), 1e-9, "an attempt that was not made costs nothing")

		_, _, ok = reserve(6)
		require.False(t, ok, "more than the burst")
		_, _, ok = reserve(math.MaxInt)
		require.False(t, ok, "and more than an int can hold")
		require.LessOrEqual(t, limiter.Tokens(), 0.0)
	})
}
