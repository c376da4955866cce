package pace_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/nightly"
	"github.com/gobackoff/backoff/limit"
	"github.com/gobackoff/backoff/pace"
)

// A program is what calls a service through a Pacer of its own, and what became
// of its calls.
type program struct {
	policy backoff.Policy
	hint   time.Duration // the wait that refusals ask for, or 0

	mu             sync.Mutex
	served, failed int
	took           []time.Duration
	asked, refused [120]int // attempts of each second
}

func newProgram(r *rand.Rand) *program {
	p := new(program)
	p.policy = backoff.Policy{Budget: new(pace.Pacer), Rand: func() float64 {
		p.mu.Lock()
		defer p.mu.Unlock()
		return r.Float64()
	}}
	return p
}

// call makes one call to a service that answers after latency, and refuses some
// attempts. It is in the given second.
func (p *program) call(ctx context.Context, second int, latency time.Duration, refuses func() bool) {
	began := time.Now()
	err := p.policy.Do(ctx, func(context.Context) error {
		time.Sleep(latency)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.asked[second]++
		if refuses() {
			p.refused[second]++
			return backoff.RetryAfter(errTooMuch, p.hint)
		}
		return nil
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.took = append(p.took, time.Since(began))
	if err != nil {
		p.failed++
	} else {
		p.served++
	}
}

// job lets workers make calls one after the other, until more returns false.
func (p *program) job(t *testing.T, workers int, latency time.Duration, more, refuses func() bool) {
	began := time.Now()
	together(workers, func(int) {
		for more() {
			p.call(t.Context(), min(int(time.Since(began)/time.Second), len(p.asked)-1), latency, refuses)
		}
	})
}

// share returns which share of the attempts from a second to another was refused.
func share(from, to int, programs ...*program) float64 {
	var asked, refused int
	for _, p := range programs {
		for s := from; s < to; s++ {
			asked, refused = asked+p.asked[s], refused+p.refused[s]
		}
	}
	return float64(refused) / float64(asked)
}

// Jobs of 20 workers that begin without a warning take at most 1.2 times the time
// that a rate limit makes them take, and half a second.
func TestAColdBulkJobGetsAlmostAllThatARateLimitedServiceGives(t *testing.T) {
	for _, c := range []struct {
		perSecond, burst, calls int
		refused                 float64       // share of the attempts
		hint                    time.Duration // the last call may be told to wait twice
	}{
		{500, 10, 2000, .15, 0}, {500, 100, 2000, .15, 0}, {200, 20, 2000, .15, 0},
		{100, 100, 1000, .15, 0}, {100, 100, 1000, .15, time.Second},
		// 20 workers meet a burst of 5, and those 5 go on before the others are refused.
		{50, 5, 100, .22, 0}, {50, 5, 600, .15, 0},
	} {
		for _, latency := range nightly.Size([]time.Duration{5 * time.Millisecond}, []time.Duration{time.Millisecond, 5 * time.Millisecond, 50 * time.Millisecond}) {
			bubble(t, fmt.Sprintf("%d of %d per second, burst %d, hint %v, %v", c.calls, c.perSecond, c.burst, c.hint, latency), func(t *testing.T) {
				limiter := rate.NewLimiter(rate.Limit(c.perSecond), c.burst)
				p := newProgram(rand.New(rand.NewPCG(1, 1)))
				p.hint = c.hint
				var begun atomic.Int64
				began := time.Now()
				p.job(t, 20, latency, func() bool { return begun.Add(1) <= int64(c.calls) }, func() bool { return !limiter.Allow() })
				ideal := max(float64(c.calls-c.burst)/float64(c.perSecond), float64(c.calls)/20*latency.Seconds())
				require.LessOrEqual(t, time.Since(began).Seconds(), 1.2*ideal+.5+c.hint.Seconds())
				require.LessOrEqual(t, share(0, len(p.asked), p), c.refused)
				require.LessOrEqual(t, p.failed, c.calls/500, "refused four times")
			})
		}
	}
}

// A program that rests between its bursts is served like one that has just started.
// The calls have five seconds, of which the limit needs at most two.
func TestBurstsAfterARestGetWhatALimitGives(t *testing.T) {
	for _, c := range []struct {
		perSecond, burst, calls int
		rest                    time.Duration
	}{
		{20, 5, 20, 10 * time.Second}, {20, 5, 20, time.Minute}, {10, 1, 20, 30 * time.Second},
		{50, 5, 50, 30 * time.Second}, {5, 5, 10, 30 * time.Second}, {50, 10, 100, 30 * time.Second},
	} {
		bubble(t, fmt.Sprintf("%d at once every %v, %d per second, burst %d", c.calls, c.rest, c.perSecond, c.burst), func(t *testing.T) {
			limiter := rate.NewLimiter(rate.Limit(c.perSecond), c.burst)
			p := newProgram(rand.New(rand.NewPCG(1, 1)))
			for range 10 {
				together(c.calls, func(int) {
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					defer cancel()
					p.call(ctx, 0, 5*time.Millisecond, func() bool { return !limiter.Allow() })
				})
				time.Sleep(c.rest)
			}
			require.LessOrEqual(t, p.failed, c.calls, "a tenth: refused four times")
		})
	}
}

// A job that says a limit of its own and is wrong by two fifths takes no longer
// than one that says none. The other budget delays calls that the Pacer has let
// go, and so asks it twice.
func TestALimitThatIsSaidTooHighSlowsNobody(t *testing.T) {
	for _, pacerFirst := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			limiter := rate.NewLimiter(500, 50)
			p := newProgram(rand.New(rand.NewPCG(1, 1)))
			p.hint = time.Second
			budgets := []backoff.Budget{&limit.Rate{Limiter: rate.NewLimiter(700, 10)}, p.policy.Budget}
			if pacerFirst {
				slices.Reverse(budgets)
			}
			p.policy.Budget = backoff.JoinBudgets(budgets...)
			var begun atomic.Int64
			began := time.Now()
			p.job(t, 20, time.Millisecond, func() bool { return begun.Add(1) <= 2000 }, func() bool { return !limiter.Allow() })
			require.Less(t, time.Since(began), 6500*time.Millisecond)
			require.LessOrEqual(t, share(0, len(p.asked), p), .03)
			require.Zero(t, p.failed)
		})
	}
}

// A service refuses some requests whatever the rate is. Each of the callers has
// 3 s.
func TestRefusalsThatDoNotComeFromTheRateSlowNobody(t *testing.T) {
	nightly.Long(t)
	for _, perSecond := range nightly.Size([]int{10, 200}, []int{10, 200, 1000}) {
		for _, share := range []float64{.02, .05, .1} {
			for _, byChance := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v at %d per second, by chance %v", share, perSecond, byChance), func(t *testing.T) {
					seeds := uint64(1)
					if byChance {
						seeds = nightly.Size(uint64(2), 10)
					}
					var served, failed int
					for seed := range seeds {
						p := scattered(t, perSecond, share, byChance, seed)
						served, failed = served+p.served, failed+p.failed
						slices.Sort(p.took)
						require.Less(t, p.took[len(p.took)/2], 250*time.Millisecond, "seed %d: the median", seed)
					}
					require.GreaterOrEqual(t, float64(served)/float64(served+failed), nightly.Size(.97, .98))
				})
			}
		}
	}
}

// scattered makes calls at a rate for 40 s, or for 2 minutes if there are few.
func scattered(t *testing.T, perSecond int, share float64, byChance bool, seed uint64) (p *program) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(seed, 7))
		p = newProgram(rand.New(rand.NewPCG(seed, 8)))
		attempts, every := 0, int(1/share)
		refuses := func() bool {
			attempts++
			return byChance && r.Float64() < share || !byChance && attempts%every == 0
		}
		gaps := rand.New(rand.NewPCG(seed, 9))
		var group sync.WaitGroup
		for range max(1200, 40*perSecond) {
			time.Sleep(time.Duration(1e9 / float64(perSecond) * (.5 + gaps.Float64())))
			group.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				p.call(ctx, 0, 5*time.Millisecond, refuses)
			})
		}
		group.Wait()
	})
	return p
}

// To one program the refusals of a limit that it shares look as if they did not
// come from its rate.
func TestProgramsThatShareALimitKeepIt(t *testing.T) {
	for _, programs := range nightly.Size([]int{2}, []int{1, 2, 4}) {
		for seed := range nightly.Size(uint64(1), 5) {
			bubble(t, fmt.Sprintf("%d programs, seed %d", programs, seed), func(t *testing.T) {
				limiter, began := rate.NewLimiter(100, 100), time.Now()
				all := make([]*program, programs)
				var group sync.WaitGroup
				for i := range all {
					all[i] = newProgram(rand.New(rand.NewPCG(seed, uint64(i))))
					group.Go(func() {
						all[i].job(t, 20, 5*time.Millisecond, func() bool { return time.Since(began) < 2*time.Minute }, func() bool { return !limiter.Allow() })
					})
				}
				group.Wait()
				served := 0
				for _, p := range all {
					served += p.served
				}
				require.Greater(t, served, 120*98)
				require.LessOrEqual(t, share(0, 60, all...), map[int]float64{1: .08, 2: .16, 4: .2}[programs], "they begin at the same moment")
				require.LessOrEqual(t, share(60, 120, all...), map[int]float64{1: .06, 2: .15, 4: .16}[programs])
			})
		}
	}
}

func TestALimitThatFallsToATenthForHalfAMinuteIsObeyed(t *testing.T) {
	for _, burst := range []int{10, 100} {
		synctest.Test(t, func(t *testing.T) {
			limiter, began := rate.NewLimiter(100, burst), time.Now()
			time.AfterFunc(30*time.Second, func() { limiter.SetLimit(10) })
			time.AfterFunc(60*time.Second, func() { limiter.SetLimit(100) })
			p := newProgram(rand.New(rand.NewPCG(1, uint64(burst))))
			p.job(t, 20, 5*time.Millisecond, func() bool { return time.Since(began) < 90*time.Second }, func() bool { return !limiter.Allow() })
			require.LessOrEqual(t, share(30, 90, p), .1)
			require.LessOrEqual(t, share(30, 60, p), .25, "while it is low")
			full := 60
			for ; p.asked[full]-p.refused[full] < 90; full++ {
			}
			require.LessOrEqual(t, full, 65)
		})
	}
}

// A quota is used up before its time is over, and nothing is served until then. The
// refusals say so, or lie. Calls come half again as often as they may.
func TestAQuotaIsUsedWhole(t *testing.T) {
	nightly.Long(t)
	exact := func(left time.Duration) time.Duration { return left }
	rounded := func(left time.Duration) time.Duration { return left.Truncate(time.Second) + time.Second }
	short := func(time.Duration) time.Duration { return time.Second }
	long := func(time.Duration) time.Duration { return 299 * time.Second }
	for i, c := range []struct {
		quota   int
		every   time.Duration
		hint    func(left time.Duration) time.Duration
		refused float64
	}{{600, time.Minute, exact, .1}, {600, time.Minute, long, .1}, {600, time.Minute, short, .17}, {1000, 10 * time.Second, rounded, .15}} {
		synctest.Test(t, func(t *testing.T) {
			p, began, window, used := newProgram(rand.New(rand.NewPCG(1, 1))), time.Now(), 0, 0
			refuses := func() bool {
				now := time.Since(began)
				if n := int(now / c.every); n > window {
					window, used = n, 0
				}
				used++
				p.hint = c.hint(c.every - now%c.every)
				return used > c.quota
			}
			windows := nightly.Size(4, 8)
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(windows)*c.every)
			defer cancel()
			var group sync.WaitGroup
			for ctx.Err() == nil {
				time.Sleep(c.every * 2 / 3 / time.Duration(c.quota))
				group.Go(func() { p.call(ctx, 0, 5*time.Millisecond, refuses) })
			}
			group.Wait()
			require.Greater(t, p.served, windows*c.quota*97/100, i)
			require.Less(t, share(0, 1, p), c.refused, i)
		})
	}
}

// A quota is used up for 20 minutes. Each of the callers has 3 s.
func TestTheResetOfAQuotaIsFeltAtOnce(t *testing.T) {
	nightly.Long(t)
	for _, perSecond := range []float64{1, 2, 50} {
		for _, hint := range []time.Duration{0, time.Second} {
			bubble(t, fmt.Sprintf("%v per second, hint %v", perSecond, hint), func(t *testing.T) {
				const from = 30 * time.Second
				down := nightly.Size(5*time.Minute, 20*time.Minute)
				to := from + down
				p, began := newProgram(rand.New(rand.NewPCG(1, 1))), time.Now()
				p.hint = hint
				var asked, after, failed atomic.Int64
				var group sync.WaitGroup
				for time.Since(began) < to+10*time.Second {
					time.Sleep(time.Duration(1e9 / perSecond))
					group.Go(func() {
						ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
						defer cancel()
						late := time.Since(began) > to
						err := p.policy.Do(ctx, func(context.Context) error {
							if now := time.Since(began); now < from || now > to {
								return nil
							}
							asked.Add(1)
							return backoff.RetryAfter(errTooMuch, p.hint)
						})
						if late {
							after.Add(1)
						}
						if late && err != nil {
							failed.Add(1)
						}
					})
				}
				group.Wait()
				require.Less(t, float64(asked.Load()), min(1, .6*perSecond)*down.Seconds()*1.1, "at most one a second, and half of the calls")
				require.LessOrEqual(t, float64(failed.Load()), .05*float64(after.Load()))
			})
		}
	}
}

// Workers that were told to come back rest, and do not use the rate. Then its refusals
// are no share of the calls that the service refuses at any rate.
func TestALimitThatAsksForWaitsIsNotTakenForAShare(t *testing.T) {
	var failed, attempts, refused atomic.Int64
	for _, latency := range []time.Duration{10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond} {
		for seed := range uint64(10) {
			synctest.Test(t, func(t *testing.T) {
				p, limiter := newProgram(rand.New(rand.NewPCG(seed, 1))), rate.NewLimiter(100, 100)
				together(10, func(int) {
					for range 100 {
						err := p.policy.Do(t.Context(), func(context.Context) error {
							attempts.Add(1)
							served := limiter.Allow()
							if time.Sleep(latency); served {
								return nil
							}
							refused.Add(1)
							return backoff.RetryAfter(errTooMuch, time.Second)
						})
						if err != nil {
							failed.Add(1)
						}
					}
				})
			})
		}
	}
	require.LessOrEqual(t, failed.Load(), int64(2), "of 30,000 calls")
	require.Less(t, float64(refused.Load()), .028*float64(attempts.Load()))
}

// For an hour a service throttles every call, and then none.
func TestAPacerRecoversFromAnHourOfThrottling(t *testing.T) {
	nightly.Long(t)
	synctest.Test(t, func(t *testing.T) {
		const end = time.Hour + 2*time.Minute
		p, began, late := newProgram(rand.New(rand.NewPCG(1, 1))), time.Now(), 0
		p.job(t, 50, 100*time.Millisecond, func() bool { return time.Since(began) < end }, func() bool {
			d := time.Since(began)
			if d > end-time.Minute {
				late++
			}
			return d > time.Second && d < time.Hour
		})
		require.Greater(t, late, 60*500*9/10, "a minute later all is as it was")
	})
}

// It says "too much" once every nine seconds, for ever.
func TestAServiceThatThrottlesNowAndThenLosesLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, began := newProgram(rand.New(rand.NewPCG(1, 1))), time.Now()
		next := began.Add(9 * time.Second)
		p.job(t, 1, 20*time.Millisecond, func() bool { return time.Since(began) < 10*time.Minute }, func() bool {
			throttles := time.Now().After(next)
			if throttles {
				next = time.Now().Add(9 * time.Second)
			}
			return throttles
		})
		require.Zero(t, p.failed)
		require.Greater(t, p.served, 600*50*85/100)
	})
}

// A program that has called ten times in a day has a rate of one call in two
// hours. That says nothing about the calls that it makes now.
func TestARareProgramIsNotStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProgram(rand.New(rand.NewPCG(1, 1)))
		for range 10 {
			p.call(t.Context(), 0, 0, func() bool { return false })
			time.Sleep(2 * time.Hour)
		}
		began := time.Now()
		var calls, attempts atomic.Int64
		p.job(t, 5, 100*time.Millisecond, func() bool { return calls.Add(1) <= 20 }, func() bool { return attempts.Add(1) == 1 })
		require.Less(t, time.Since(began), 2*time.Minute)
		require.Equal(t, 30, p.served)
	})
}

// A replica that hangs says nothing of a limit that throttled no call for ten
// seconds.
func TestTimeoutsAloneKeepNoPace(t *testing.T) {
	for _, every := range []int64{3, 10} {
		synctest.Test(t, func(t *testing.T) {
			b := new(pace.Pacer)
			p := backoff.Policy{Budget: b, MaxAttempts: 1, AttemptTimeout: 100 * time.Millisecond}
			var throttles atomic.Bool
			var calls atomic.Int64
			op := func(ctx context.Context) error {
				switch {
				case throttles.Load():
					return errTooMuch
				case calls.Add(1)%every == 0:
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			}
			run := func(d time.Duration) { // 50 calls a second
				var all sync.WaitGroup
				for range d / (20 * time.Millisecond) {
					all.Go(func() { _ = p.Do(t.Context(), op) })
					time.Sleep(20 * time.Millisecond)
				}
				all.Wait()
			}
			run(30 * time.Second)
			throttles.Store(true)
			run(time.Second)
			require.False(t, isCalm(b))
			throttles.Store(false)
			run(30 * time.Second)
			require.True(t, isCalm(b), rateOf(b))
		})
	}
}
