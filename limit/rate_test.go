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
	"github.com/gobackoff/backoff/hedge"
	"github.com/gobackoff/backoff/internal/clock/clocktest"
	"github.com/gobackoff/backoff/limit"
	"github.com/gobackoff/backoff/pace"
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
				b.Done(ticket, backoff.Result{NotSent: true})
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
		b.Done(second, backoff.Result{NotSent: true})
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
		b.Done(ticket, backoff.Result{NotSent: true, Cost: 1})
		require.InDelta(t, 0, limiter.Tokens(), 1e-9, "an attempt that was not made costs nothing")

		_, _, ok = reserve(6)
		require.False(t, ok, "more than the burst")
		_, _, ok = reserve(math.MaxInt)
		require.False(t, ok, "and more than an int can hold")
		require.LessOrEqual(t, limiter.Tokens(), 0.0)
	})
}

// paced are the limits that space attempts, at 10 a second.
var paced = map[string]func() backoff.Budget{
	"Rate": func() backoff.Budget { return tenPerSecond() },
	"joined": func() backoff.Budget {
		return backoff.JoinBudgets(tenPerSecond(), &limit.Concurrency{})
	},
}

// eachPaced runs a test with each of paced, in virtual time.
func eachPaced(t *testing.T, test func(t *testing.T, b backoff.Budget)) {
	for name, open := range paced {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, open()) })
		})
	}
}

func tenPerSecond() *limit.Rate { return &limit.Rate{Limiter: rate.NewLimiter(10, 1)} }

// A service that is down tells everybody to come back at the same time. Their
// retries have waited for that, and not for the rate.
func TestCallsThatAreToldToComeBackAtTheSameTimeComeBackAtTheRate(t *testing.T) {
	eachPaced(t, func(t *testing.T, b backoff.Budget) {
		back := time.Now().Add(time.Minute)
		p := backoff.Policy{Budget: b, MaxAttempts: 2, Jitter: backoff.NoJitter}
		var mu sync.Mutex
		var retried []time.Duration
		var calls sync.WaitGroup
		for range 100 {
			calls.Go(func() {
				told := false
				require.NoError(t, p.Do(t.Context(), func(context.Context) error {
					if !told {
						told = true
						return backoff.Pushback(errCut, time.Until(back))
					}
					mu.Lock()
					retried = append(retried, time.Since(back))
					mu.Unlock()
					time.Sleep(time.Second) // the next ones come while it is running
					return nil
				}))
			})
			time.Sleep(200 * time.Millisecond)
		}
		calls.Wait()
		require.Len(t, retried, 100)
		for i, at := range retried {
			require.InDelta(t, time.Duration(i)*100*time.Millisecond, at, 100_000)
		}
	})
}

// Nobody else waits for the token of a retry that waits for its own reasons.
func TestARetryTakesNoTokenBeforeItsBackoffIsOver(t *testing.T) {
	eachPaced(t, func(t *testing.T, b backoff.Budget) {
		var waiting []backoff.Ticket
		for range 100 {
			ticket, wait, ok := b.Reserve(backoff.Attempt{Number: 2, Wait: time.Minute})
			require.True(t, ok)
			require.Zero(t, wait)
			waiting = append(waiting, ticket)
		}
		got, _ := reserve(t, b, 2)
		require.Equal(t, seconds(0, 0.1), got)
		giveBack(b, waiting...)

		_, wait, _ := b.Reserve(backoff.Attempt{Number: 2, Wait: 200 * time.Millisecond})
		require.Equal(t, 200*time.Millisecond, wait, "in the line, as the line is as long as the backoff")
		got, _ = reserve(t, b, 1)
		require.Equal(t, seconds(0.3), got)
	})
}

func TestARetryThatThePaceWouldKeepTooLongEndsAtOnceAndGivesTheTokenBack(t *testing.T) {
	eachPaced(t, func(t *testing.T, b backoff.Budget) {
		p := backoff.Policy{Budget: b, Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter, MaxElapsed: 1500 * time.Millisecond}
		time.AfterFunc(time.Second-time.Nanosecond, func() { reserve(t, b, 9) }) // 0.9 s of line
		began := time.Now()
		err := p.Do(t.Context(), failing)
		var gave *backoff.Error
		require.ErrorAs(t, err, &gave)
		require.Equal(t, backoff.ReasonElapsed, gave.Reason)
		require.ErrorIs(t, err, errCut)
		require.Equal(t, time.Second, time.Since(began))
		got, _ := reserve(t, b, 1)
		require.InDelta(t, 900*time.Millisecond, got[0], 10)
	})
}

func TestARetryCancelledWhileItKeepsThePaceGivesTheTokenBack(t *testing.T) {
	eachPaced(t, func(t *testing.T, b backoff.Budget) {
		ctx, cancel := context.WithCancel(t.Context())
		p := backoff.Policy{Budget: b, Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter}
		time.AfterFunc(time.Second-time.Nanosecond, func() { reserve(t, b, 9) })
		time.AfterFunc(1500*time.Millisecond, cancel)
		require.ErrorIs(t, p.Do(ctx, failing), context.Canceled)
		got, _ := reserve(t, b, 1)
		require.InDelta(t, 400*time.Millisecond, got[0], 10)
	})
}

func TestARetryEndsWhereTheLimiterWasShutDuringItsBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := tenPerSecond()
		p := backoff.Policy{Budget: backoff.JoinBudgets(new(limit.Concurrency), b), Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter}
		time.AfterFunc(500*time.Millisecond, func() {
			b.Limiter.SetLimit(0)
			b.Limiter.Allow()
		})
		err := p.Do(t.Context(), failing)
		require.ErrorIs(t, err, backoff.ErrBudget)
		require.ErrorIs(t, err, errCut)
		b.Limiter.SetLimit(10)
		got, _ := reserve(t, b, 1)
		require.Equal(t, seconds(0.1), got, "and owes nothing")
	})
}

// A caller with a loop of its own may sleep itself, and never ask. Its retries
// are paid for when they have been made.
func TestARetryThatDidNotKeepThePaceIsPaidForAfterwards(t *testing.T) {
	eachPaced(t, func(t *testing.T, b backoff.Budget) {
		p := backoff.Policy{Budget: b, MaxAttempts: -1, Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter}
		for range 5 { // at the same time
			r := p.Start(t.Context())
			_, ok := r.Tried(errCut)
			require.True(t, ok)
			defer r.Tried(nil)
			time.AfterFunc(time.Second, func() { r.Tried(errCut) })
		}
		time.Sleep(time.Second)
		synctest.Wait()
		got, _ := reserve(t, b, 1)
		require.Equal(t, seconds(0.5), got)
	})
}

func TestARetryThatDidNotKeepThePaceIsPaidForAtItsOwnCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for told, want := range map[int]time.Duration{0: 500 * time.Millisecond, 3: 500 * time.Millisecond, 7: 700 * time.Millisecond} {
			b := &limit.Rate{Limiter: rate.NewLimiter(10, 10)}
			ticket, _, ok := b.Reserve(backoff.Attempt{Number: 2, Cost: 5, Wait: time.Minute})
			require.True(t, ok)
			b.Limiter.AllowN(time.Now(), 9) // the tenth is for the last one in the line
			b.Done(ticket, backoff.Result{Cost: told})
			got, _ := reserve(t, b, 1)
			require.Equal(t, want, got[0], "a cost of 5, and of %d in the end", told)
		}
	})
}

func TestPaceAnswersHowMuchOfTheWaitForATokenIsLeft(t *testing.T) {
	eachPaced(t, func(t *testing.T, b backoff.Budget) {
		left := func(ticket backoff.Ticket) time.Duration {
			same, wait, ok := b.Pace(ticket)
			require.True(t, ok)
			require.Equal(t, ticket, same)
			return wait
		}
		_, tickets := reserve(t, b, 3)
		for _, ticket := range []backoff.Ticket{tickets[0], {}, {Word: 99}} {
			require.Zero(t, left(ticket), "it has its token, or needs none")
		}
		for _, want := range seconds(0.2, 0.15, 0.1, 0.05, 0, 0) {
			require.Equal(t, want, left(tickets[2]))
			time.Sleep(50 * time.Millisecond)
		}
	})
}

func sixPerSecond() *limit.Rate { return &limit.Rate{Limiter: rate.NewLimiter(6, 1)} }

// held runs a test with a Rate of 6 a second joined with a HoldOff, in both
// orders, and with more members than a Ticket has room for.
func held(t *testing.T, test func(t *testing.T, b backoff.Budget, hold *pace.HoldOff)) {
	for order, join := range map[string]func(r, h backoff.Budget) backoff.Budget{
		"rate first": func(r, h backoff.Budget) backoff.Budget { return backoff.JoinBudgets(r, h) },
		"hold first": func(r, h backoff.Budget) backoff.Budget { return backoff.JoinBudgets(h, r) },
		"among others": func(r, h backoff.Budget) backoff.Budget {
			unlimited := &limit.Rate{Limiter: rate.NewLimiter(rate.Inf, 0)}
			return backoff.JoinBudgets(&limit.Concurrency{}, &limit.Concurrency{}, r, h, &limit.Throttle{}, unlimited)
		},
	} {
		t.Run(order, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hold := new(pace.HoldOff)
				test(t, join(sixPerSecond(), hold), hold)
			})
		})
	}
}

// callers makes calls, every so often, and returns when they went, once all
// have.
func callers(t *testing.T, b backoff.Budget, n int, every time.Duration) (went []time.Duration) {
	p := backoff.Policy{Budget: b}
	began := time.Now()
	var mu sync.Mutex
	var calls sync.WaitGroup
	for range n {
		calls.Go(func() {
			require.NoError(t, p.Do(t.Context(), func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				went = append(went, time.Since(began))
				return nil
			}))
		})
		time.Sleep(every)
	}
	calls.Wait()
	slices.Sort(went)
	return went
}

// requireSpaced requires that all went at 6 a second at most, and none between
// from and to, in which they were held.
func requireSpaced(t *testing.T, went []time.Duration, from, to time.Duration) {
	t.Helper()
	for i, at := range went {
		require.False(t, at > from && at < to, "%v", at)
		if i > 0 {
			require.GreaterOrEqual(t, at-went[i-1], time.Second/6-time.Microsecond, "%v", went)
		}
	}
}

// A hold may begin while they are in the line of the rate, and it may be made
// longer.
func TestCallsThatAreHeldOffWhileTheyWaitGoAtTheRate(t *testing.T) {
	held(t, func(t *testing.T, b backoff.Budget, hold *pace.HoldOff) {
		time.AfterFunc(3*time.Second, func() { hold.Hold(10 * time.Second) })
		time.AfterFunc(12*time.Second, func() { hold.Hold(8 * time.Second) })
		went := callers(t, b, 60, 0)
		requireSpaced(t, went, 3*time.Second, 20*time.Second)
		require.Less(t, went[59], 33*time.Second)
	})
}

func TestCallsThatAreHeldOffTakeNoToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, hold := sixPerSecond(), new(pace.HoldOff)
		hold.Hold(33 * time.Second)
		go callers(t, backoff.JoinBudgets(b, hold), 30, 0)
		synctest.Wait()
		began := time.Now()
		callers(t, b, 2, 0)
		require.InDelta(t, time.Second/6, time.Since(began), float64(time.Microsecond))
		time.Sleep(time.Minute)
	})
}

func TestCallsThatWaitForASlowRateTakeNoTokenOfAFastOne(t *testing.T) {
	for _, fastFirst := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			fast := &limit.Rate{Limiter: rate.NewLimiter(10, 1)}
			slow := &limit.Rate{Limiter: rate.NewLimiter(1, 1)}
			both := backoff.JoinBudgets(slow, fast)
			if fastFirst {
				both = backoff.JoinBudgets(fast, slow)
			}
			went := make([]time.Duration, 10)
			var others sync.WaitGroup
			for i := range went { // one after the other: a call that is between its two lines is in both
				others.Go(func() { went[i] = callers(t, both, 1, 0)[0] })
				synctest.Wait()
			}
			began := time.Now()
			callers(t, fast, 2, 0)
			require.Equal(t, 200*time.Millisecond, time.Since(began))
			others.Wait()
			require.Equal(t, seconds(0, 1, 2, 3, 4, 5, 6, 7, 8, 9), went, "fast first: %v", fastFirst)
		})
	}
}

// Two rates whose lines are both long must not make a call give up its place in
// the one for its place in the other.
func TestACallGetsThroughTwoLongLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &limit.Rate{Limiter: rate.NewLimiter(1, 1)}, &limit.Rate{Limiter: rate.NewLimiter(1, 1)}
		var others sync.WaitGroup
		keepBusy := func(r *limit.Rate, line int) {
			reserve(t, r, line)
			for range 120 {
				time.Sleep(time.Second)
				reserve(t, r, 1)
			}
		}
		others.Go(func() { keepBusy(a, 60) })
		others.Go(func() { keepBusy(b, 30) })
		synctest.Wait()
		began := time.Now()
		callers(t, backoff.JoinBudgets(a, b), 1, 0)
		require.LessOrEqual(t, time.Since(began), 92*time.Second)
		others.Wait()
	})
}

// A hedge takes its slot when it is sent, too, and so does the first attempt of
// a hedged call.
func TestAHedgeThatOnlyWaitsHoldsNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		concurrency, slow := &limit.Concurrency{Max: 1}, &limit.Rate{Limiter: rate.NewLimiter(1, 1)}
		slow.Limiter.Allow()
		h := &hedge.Hedge{Delay: time.Hour, Budget: backoff.JoinBudgets(concurrency, slow)}
		go hedge.Value(t.Context(), h, func(context.Context) (int, error) {
			require.Equal(t, 1, concurrency.Load())
			return 0, nil
		}, nil)
		synctest.Wait()
		require.Zero(t, concurrency.Load())
		time.Sleep(time.Second)
		synctest.Wait()
		require.Zero(t, concurrency.Load())
	})
}
