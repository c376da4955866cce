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
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gobackoff/backoff"
)

// clockSetBy is what a clock reads after it was set: only the time of day is another. It
// knows how a time.Time is made: the upper bit of the first word says that there is a
// monotonic reading, and the 33 below it are seconds.
func clockSetBy(t time.Time, step time.Duration) time.Time {
	word := (*uint64)(unsafe.Pointer(&t))
	if *word>>63 == 1 {
		*word += uint64(step/time.Second) << 30
	}
	return t
}

func TestClockSetBy(t *testing.T) {
	now := time.Now()
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		set := clockSetBy(now, step)
		require.Equal(t, now.Unix()+int64(step/time.Second), set.Unix())
		require.Zero(t, set.Sub(now), "the monotonic readings are the same")
	}
}

// A limitedService takes so many calls a second, and says so only by refusing the others.
type limitedService struct {
	limiter         *rate.Limiter
	served, refused int
}

func newLimitedService(perSecond float64, burst int) *limitedService {
	return &limitedService{limiter: rate.NewLimiter(rate.Limit(perSecond), burst)}
}

func (s *limitedService) serve() backoff.Outcome {
	if s.limiter.Allow() {
		s.served++
		return backoff.OutcomeSuccess
	}
	s.refused++
	return backoff.OutcomeThrottled
}

// rateWaits asks a budget for attempts, one after the other and all of them now.
func rateWaits(t *testing.T, b backoff.Budget, n int) (waits []time.Duration, tickets []backoff.Ticket) {
	t.Helper()
	for range n {
		ticket, wait, ok := b.Reserve(backoff.Attempt{Number: 1})
		require.True(t, ok)
		waits, tickets = append(waits, wait), append(tickets, ticket)
	}
	return waits, tickets
}

func rateSeconds(all ...float64) []time.Duration {
	var d []time.Duration
	for _, s := range all {
		d = append(d, time.Duration(math.Round(s*1e9)))
	}
	return d
}

func rateGiveBack(b backoff.Budget, tickets ...backoff.Ticket) {
	for _, ticket := range tickets {
		b.Done(ticket, backoff.Result{Outcome: backoff.OutcomeNotSent})
	}
}

func TestRateLimitMakesAttemptsWaitInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backoff.RateLimit{Limiter: rate.NewLimiter(2, 3)}
		got, _ := rateWaits(t, b, 6)
		require.Equal(t, rateSeconds(0, 0, 0, 0.5, 1, 1.5), got)
		time.Sleep(time.Second)
		got, _ = rateWaits(t, b, 1)
		require.Equal(t, rateSeconds(1), got)
		time.Sleep(time.Hour)
		got, _ = rateWaits(t, b, 4)
		require.Equal(t, rateSeconds(0, 0, 0, 0.5), got)
	})
}

func TestRateLimitTakesSeveralTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backoff.RateLimit{Limiter: rate.NewLimiter(10, 10), Tokens: 5}
		got, tickets := rateWaits(t, b, 4)
		require.Equal(t, rateSeconds(0, 0, 0.5, 1), got)
		rateGiveBack(b, tickets[3])
		got, _ = rateWaits(t, b, 1)
		require.Equal(t, rateSeconds(1), got)
	})
}

func TestRateLimitMayBeForRetriesOnly(t *testing.T) {
	b := &backoff.RateLimit{Limiter: rate.NewLimiter(1, 1), RetriesOnly: true}
	rateWaits(t, b, 10)
	ticket, wait, ok := b.Reserve(backoff.Attempt{Number: 2, Kind: backoff.AttemptRetry})
	require.True(t, ok)
	require.Zero(t, wait)
	b.Done(ticket, backoff.Result{})
	for _, kind := range []backoff.AttemptKind{backoff.AttemptRetry, backoff.AttemptHedge} {
		_, wait, _ = b.Reserve(backoff.Attempt{Number: 2, Kind: kind})
		require.Positive(t, wait)
	}
}

func TestRateLimitOfEveryKindOfLimiter(t *testing.T) {
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
		b := &backoff.RateLimit{Limiter: c.limiter}
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
	b := &backoff.RateLimit{Limiter: rate.NewLimiter(0, 1)}
	rateWaits(t, b, 1)
	for range 3 {
		_, _, ok := b.Reserve(backoff.Attempt{Number: 1})
		require.False(t, ok)
	}
	b.Limiter.SetLimit(1)
	got, _ := rateWaits(t, b, 1)
	require.InDelta(t, time.Second, got[0], float64(10*time.Millisecond), "a refusal has taken nothing")
}

func TestRateLimitGetsTheTokenBackOfTheLastInTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backoff.RateLimit{Limiter: rate.NewLimiter(1, 1)}
		_, tickets := rateWaits(t, b, 4) // 0 1 2 3
		rateGiveBack(b, tickets[3])
		got, tickets2 := rateWaits(t, b, 1)
		require.Equal(t, rateSeconds(3), got)
		rateGiveBack(b, tickets2[0], tickets[2])
		got, _ = rateWaits(t, b, 1)
		require.Equal(t, rateSeconds(2), got)
	})
}

// Whoever leaves from the middle leaves a gap that only those who ask later could fill,
// and they must not overtake: the token has to be saved until the last one has gone.
func TestRateLimitSavesATokenFromTheMiddleWhereTheBurstHasRoom(t *testing.T) {
	for _, c := range []struct {
		burst int
		want  []time.Duration // of the next three to ask
	}{
		{1, rateSeconds(6, 7, 8)},
		{2, rateSeconds(5, 6, 7)},
		{3, rateSeconds(5, 5, 6)},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := &backoff.RateLimit{Limiter: rate.NewLimiter(1, c.burst)}
			rateWaits(t, b, 1)
			time.Sleep(time.Hour) // no line is made at the beginning of time
			rateWaits(t, b, c.burst)
			_, tickets := rateWaits(t, b, 5) // 1 2 3 4 5
			rateGiveBack(b, tickets[0], tickets[2])
			got, _ := rateWaits(t, b, 3)
			require.Equal(t, c.want, got, "burst %d", c.burst)
		})
	}
}

// What could not be saved for those behind comes back once nobody is behind.
func TestRateLimitOwesNothingAfterAMassCancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backoff.RateLimit{Limiter: rate.NewLimiter(100, 1)}
		plain := rate.NewLimiter(100, 1)
		var reservations []*rate.Reservation
		_, tickets := rateWaits(t, b, 10_000)
		for range tickets {
			reservations = append(reservations, plain.Reserve())
		}
		for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(len(tickets)) {
			rateGiveBack(b, tickets[i])
			reservations[i].Cancel()
		}
		got, _ := rateWaits(t, b, 1)
		require.Zero(t, got[0])
		require.Greater(t, plain.Reserve().Delay(), time.Minute, "where a plain limiter's callers would wait for nobody")
	})
}

func TestRateLimitForgetsAGapThatTimeHasPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backoff.RateLimit{Limiter: rate.NewLimiter(1, 1)}
		_, tickets := rateWaits(t, b, 4) // 0 1 2 3
		rateGiveBack(b, tickets[1])
		time.Sleep(2 * time.Second) // the bucket was full at 1 s, and the third went at 2 s
		b.Done(tickets[2], backoff.Result{})
		rateGiveBack(b, tickets[3])
		got, _ := rateWaits(t, b, 1)
		require.Equal(t, rateSeconds(1), got)
	})
}

func TestRateLimitGetsATokenBackThatWasDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backoff.RateLimit{Limiter: rate.NewLimiter(0.1, 1)}
		_, tickets := rateWaits(t, b, 1)
		time.Sleep(time.Second) // of a backoff longer than the wait for the token
		rateGiveBack(b, tickets...)
		got, _ := rateWaits(t, b, 1)
		require.Zero(t, got[0])
	})
}

func TestRateLimitGetsTheTokenBackWhenAnotherBudgetRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := &backoff.RateLimit{Limiter: rate.NewLimiter(1, 1)}
		both := backoff.JoinBudgets(limit, &backoff.RateLimit{Limiter: new(rate.Limiter)})
		for range 100 {
			_, _, ok := both.Reserve(backoff.Attempt{Number: 1})
			require.False(t, ok)
		}
		got, _ := rateWaits(t, limit, 1)
		require.Zero(t, got[0])
	})
}

func TestRateLimitEndsAtOnceACallWhoseDeadlineItWouldPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backoff.RateLimit{Limiter: rate.NewLimiter(1, 1)}
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

func TestRateLimitGetsTheTokenBackOfACallCancelledWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backoff.RateLimit{Limiter: rate.NewLimiter(1, 1)}
		p := backoff.Policy{Budget: b}
		rateWaits(t, b, 1)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(500*time.Millisecond, cancel)
		err := p.Do(ctx, func(context.Context) error { panic("called") })
		require.ErrorIs(t, err, context.Canceled)
		got, _ := rateWaits(t, b, 1)
		require.Equal(t, rateSeconds(0.5), got)
	})
}

func TestRateLimitPacesThePoliciesThatShareIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := backoff.Policy{Budget: &backoff.RateLimit{Limiter: rate.NewLimiter(10, 1)}, MaxAttempts: 2, Schedule: backoff.Constant(0)}
		var all sync.WaitGroup
		begin := time.Now()
		for range 10 {
			all.Go(func() {
				_ = p.Do(t.Context(), func(context.Context) error { return errors.New("transient") })
			})
		}
		all.Wait()
		require.Equal(t, 1900*time.Millisecond, time.Since(begin), "20 attempts at 10 a second")
	})
}

func TestRateLimitDoneMayComeTwiceOrNever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backoff.RateLimit{Limiter: rate.NewLimiter(1, 3)}
		_, tickets := rateWaits(t, b, 3)
		b.Done(tickets[0], backoff.Result{})
		rateGiveBack(b, tickets[0], tickets[1], tickets[1])
		rateGiveBack(b, backoff.Ticket{}, backoff.Ticket{99})
		got, _ := rateWaits(t, b, 2)
		require.Equal(t, rateSeconds(0, 1), got, "one of the three came back, once")
		time.Sleep(time.Hour)
		got, _ = rateWaits(t, b, 4)
		require.Equal(t, rateSeconds(0, 0, 0, 1), got)
	})
}

// An operation that hangs must not keep the places of all that come after it.
func TestRateLimitHoldsLittleForAttemptsThatNeverEnd(t *testing.T) {
	b := &backoff.RateLimit{Limiter: rate.NewLimiter(rate.Inf, 0)}
	rateWaits(t, b, 10_000)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for range 100_000 {
		_, _, _ = b.Reserve(backoff.Attempt{Number: 1})
	}
	require.Less(t, int64(heap()-before), int64(1<<20))
	runtime.KeepAlive(b)
}

func TestRateLimitLetsTheMemoryOfALongLineGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backoff.RateLimit{Limiter: rate.NewLimiter(10, 1)}
		_, tickets := rateWaits(t, b, 10_000)
		slices.Reverse(tickets)
		rateGiveBack(b, tickets...)
		got, _ := rateWaits(t, b, 2)
		require.Equal(t, rateSeconds(0, 0.1), got)
	})
}

// The bound and the order, under any sequence of asking, going, and leaving the line.
func TestRateLimitHoldsItsBoundAndItsOrder(t *testing.T) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 3))
			limit, burst := 1+9*random.Float64(), 1+random.IntN(6)
			b := &backoff.RateLimit{Limiter: rate.NewLimiter(rate.Limit(limit), burst)}
			type waiter struct {
				ticket backoff.Ticket
				at     time.Duration
			}
			var line []waiter
			var went []time.Duration
			begin := time.Now()
			for range 300 {
				now := time.Since(begin)
				switch i := random.IntN(10); {
				case i < 5:
					ticket, wait, ok := b.Reserve(backoff.Attempt{Number: 1})
					require.True(t, ok)
					for _, w := range line {
						if w.at > now+wait {
							require.Fail(t, "somebody overtakes")
						}
					}
					line = append(line, waiter{ticket, now + wait})
				case i < 8 && len(line) > 0:
					i := random.IntN(len(line))
					rateGiveBack(b, line[i].ticket)
					line = slices.Delete(line, i, i+1)
				default:
					time.Sleep(time.Duration(random.Int64N(int64(time.Second))))
				}
				line = slices.DeleteFunc(line, func(w waiter) bool {
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
					if most := float64(burst) + limit*(went[j]-went[i]).Seconds(); float64(j-i+1) > most+1e-4 {
						require.Fail(t, "too many", "from %v to %v: %d, not %v", went[i], went[j], j-i+1, most)
					}
				}
			}
		})
	}
}

// And nothing is lost: where all who wait leave, it is as if they had never asked.
func TestRateLimitLosesNoTokens(t *testing.T) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 4))
			burst := 1 + random.IntN(5)
			b := &backoff.RateLimit{Limiter: rate.NewLimiter(1, burst)}
			untouched := rate.NewLimiter(1, burst)
			for range random.IntN(burst + 1) {
				rateWaits(t, b, 1)
				untouched.Allow()
			}
			_, tickets := rateWaits(t, b, 10+random.IntN(30))
			for _, i := range random.Perm(len(tickets)) {
				rateGiveBack(b, tickets[i])
			}
			require.InDelta(t, untouched.Tokens(), b.Limiter.Tokens(), 1e-6)
		})
	}
}

func TestRateLimitIsNotMovedByAClockThatIsSet(t *testing.T) {
	b := &backoff.RateLimit{Limiter: rate.NewLimiter(1, 1)}
	ask := func(now time.Time) time.Duration {
		_, wait, ok := b.Reserve(backoff.Attempt{Number: 1, Now: now})
		require.True(t, ok)
		return wait
	}
	now := time.Now()
	require.Equal(t, 0*time.Second, ask(now))
	require.Equal(t, 1*time.Second, ask(clockSetBy(now, time.Hour)))
	require.Equal(t, 2*time.Second, ask(clockSetBy(now, -time.Hour)))
	require.Equal(t, 3*time.Second, ask(now.Add(-time.Millisecond)), "a reading that comes late")
	require.Equal(t, 4*time.Second, ask(now))

	// Without a monotonic reading it stands still, and goes on from there.
	back := now.Add(-time.Hour)
	require.Equal(t, 5*time.Second, ask(back))
	require.Equal(t, 5*time.Second, ask(back.Add(time.Second)))
	require.Equal(t, 0*time.Second, ask(back.Add(24*time.Hour)))
	require.Equal(t, 1*time.Second, ask(back.Add(24*time.Hour)), "one burst, not a day's tokens")
}

func TestRateLimitUnder64Goroutines(t *testing.T) {
	const limit, burst = 10_000, 10
	b := &backoff.RateLimit{Limiter: rate.NewLimiter(limit, burst)}
	begin := time.Now()
	var mu sync.Mutex
	var at []time.Duration
	var all sync.WaitGroup
	for worker := range 64 {
		all.Go(func() {
			for i := range 100 {
				ticket, wait, ok := b.Reserve(backoff.Attempt{Number: 1})
				now := time.Since(begin)
				switch {
				case !ok:
					t.Error("refused")
				case (worker+i)%4 == 0:
					b.Done(ticket, backoff.Result{Outcome: backoff.OutcomeNotSent})
					b.Done(ticket, backoff.Result{Outcome: backoff.OutcomeNotSent})
				default:
					mu.Lock()
					at = append(at, now+wait)
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	most := burst + limit*slices.Max(at).Seconds()
	require.LessOrEqual(t, float64(len(at)), most+1)
}

func TestRateLimitAllocatesNothing(t *testing.T) {
	b := &backoff.RateLimit{Limiter: rate.NewLimiter(1000, 1)}
	hanging, _, _ := b.Reserve(backoff.Attempt{Number: 1})
	require.Zero(t, testing.AllocsPerRun(10_000, func() {
		first, _, _ := b.Reserve(backoff.Attempt{Number: 1})
		second, _, _ := b.Reserve(backoff.Attempt{Number: 1})
		b.Done(first, backoff.Result{})
		b.Done(second, backoff.Result{Outcome: backoff.OutcomeNotSent})
	}))
	b.Done(hanging, backoff.Result{})
}

func TestRateLimitValidate(t *testing.T) {
	for want, b := range map[string]*backoff.RateLimit{
		"backoff: RateLimit is nil":                                                        nil,
		"backoff: RateLimit.Limiter is nil":                                                {},
		"backoff: RateLimit.Tokens is -1, want 0 (for 1) or more":                          {Limiter: rate.NewLimiter(1, 1), Tokens: -1},
		"backoff: RateLimit.Limiter has a burst of 0, want at least what an attempt takes": {Limiter: rate.NewLimiter(1, 0)},
		"backoff: RateLimit.Limiter has a burst of 2, want at least what an attempt takes": {Limiter: rate.NewLimiter(1, 2), Tokens: 3},
	} {
		require.EqualError(t, b.Validate(), want)
		require.EqualError(t, (&backoff.Policy{Budget: b}).Validate(), want)
	}
	require.NoError(t, (&backoff.RateLimit{Limiter: rate.NewLimiter(rate.Inf, 0)}).Validate())
	require.NoError(t, (&backoff.RateLimit{Limiter: rate.NewLimiter(1, 3), Tokens: 3}).Validate())
}

// rateAdverse makes n attempts, one after the other, that are refused by the service.
func rateAdverse(t *testing.T, b *backoff.AdaptiveRate, n int) {
	t.Helper()
	for range n {
		_, tickets := rateWaits(t, b, 1)
		b.Done(tickets[0], backoff.Result{Outcome: backoff.OutcomeThrottled})
	}
}

// Contract row 78: backoff as the control of a rate. Each adverse event halves it.
func TestRow78AdaptiveRateHalvesOnEachAdverseEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backoff.AdaptiveRate{Max: 64, Min: 1}
		require.EqualValues(t, 64, b.Limit())
		for _, want := range []rate.Limit{32, 16, 8, 4, 2, 1, 1, 1} {
			rateAdverse(t, b, 1)
			require.InDelta(t, float64(want), float64(b.Limit()), 1e-6)
		}
	})
}

// What was sent in the last full second, or in as much as there is.
func TestAdaptiveRateBeginsWithHalfOfWhatWasSent(t *testing.T) {
	for want, send := range map[rate.Limit]func(attempts func(int)){
		5:   func(attempts func(int)) { attempts(10); time.Sleep(time.Second) },
		2.5: func(attempts func(int)) { attempts(10); time.Sleep(2 * time.Second) },
		6: func(attempts func(int)) {
			attempts(12)
			time.Sleep(time.Second)
			attempts(1)
			time.Sleep(time.Second / 2)
		},
		1:    func(attempts func(int)) { attempts(12); time.Sleep(time.Second); attempts(2); time.Sleep(time.Second) },
		1000: func(attempts func(int)) { attempts(3) },
	} {
		synctest.Test(t, func(t *testing.T) {
			b := new(backoff.AdaptiveRate)
			send(func(n int) { rateWaits(t, b, n) })
			b.SlowDown(time.Time{})
			require.InDelta(t, float64(want), float64(b.Limit()), 1e-6)
		})
	}
}

func TestAdaptiveRateTakesAnyHintUntilItHasFallen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backoff.AdaptiveRate{Max: 8}
		rateWaits(t, b, 1)
		b.SlowDown(time.Now().Add(-time.Hour))
		require.InDelta(t, 4, float64(b.Limit()), 1e-6)
		b.SlowDown(time.Now().Add(-time.Nanosecond))
		require.InDelta(t, 4, float64(b.Limit()), 1e-6, "sent before the fall")
		b.SlowDown(time.Now())
		require.InDelta(t, 2, float64(b.Limit()), 1e-6)
	})
}

func TestAdaptiveRateHearsOfAttemptsThatWereDueLongAgo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backoff.AdaptiveRate{Max: 10}
		_, slow := rateWaits(t, b, 1)
		time.Sleep(time.Second)
		rateWaits(t, b, 1)
		b.Done(slow[0], backoff.Result{Outcome: backoff.OutcomeThrottled})
		require.InDelta(t, 5, float64(b.Limit()), 1e-6)
	})
}

func TestAdaptiveRateIsAsPatientAfterItHasRecovered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backoff.AdaptiveRate{Recovery: backoff.Constant(10 * time.Second)}
		b.SlowDown(time.Time{})
		time.Sleep(80 * time.Second)
		require.EqualValues(t, 1, b.Limit())
		time.Sleep(80*time.Second - 1)
		require.EqualValues(t, 1, b.Limit())
		time.Sleep(time.Nanosecond)
		require.Equal(t, rate.Inf, b.Limit())
	})
}

func TestAdaptiveRateIsUsedByHalfAndNotByLess(t *testing.T) {
	for perSecond, grows := range map[int]bool{60: true, 45: false} {
		synctest.Test(t, func(t *testing.T) {
			b := new(backoff.AdaptiveRate)
			send := func(n, seconds int) {
				for range n * seconds {
					rateWaits(t, b, 1)
					time.Sleep(time.Second / time.Duration(n))
				}
			}
			send(100, 3)
			b.SlowDown(time.Time{})
			require.InDelta(t, 50, float64(b.Limit()), 1)
			send(perSecond, 12)
			require.Equal(t, grows, b.Limit() > 105, "%d of 100", perSecond)
		})
	}
}

func TestAdaptiveRateSavesNothingOverAFall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backoff.AdaptiveRate{Max: 10, Burst: 10}
		rateWaits(t, b, 1)
		time.Sleep(time.Minute)
		b.SlowDown(time.Time{})
		waits, _ := rateWaits(t, b, 2)
		require.Equal(t, rateSeconds(0.2, 0.4), waits)

		b = &backoff.AdaptiveRate{Max: 10}
		b.SlowDown(time.Time{})
		time.Sleep(time.Minute)
		waits, _ = rateWaits(t, b, 2)
		require.Equal(t, rateSeconds(0, 0.1), waits, "and one again later")
	})
}

func TestAdaptiveRateIsTaughtNothingByALimitThatIsNotReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backoff.AdaptiveRate{Min: 1}
		for range 2 {
			b.SlowDown(time.Time{})
			time.Sleep(7 * time.Second)
			require.EqualValues(t, 1, b.Limit(), "the count starts again with each fall")
		}
		time.Sleep(time.Second)
		require.Equal(t, rate.Inf, b.Limit())
	})
}

func TestAdaptiveRateMakesGoodForAFallFromWhereItHadGrownTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(backoff.AdaptiveRate)
		rateAdverse(t, b, 1)
		rateOffer(t, b, newLimitedService(1e6, 1e6), 40*time.Second)
		high := float64(b.Limit())
		rateAdverse(t, b, 1)
		time.Sleep(8 * time.Second)
		require.InEpsilon(t, high, float64(b.Limit()), 0.1, "unused meanwhile")
		time.Sleep(7 * time.Second)
		require.InEpsilon(t, high, float64(b.Limit()), 0.1)
	})
}

func TestAdaptiveRateWaitsAsLongBeforeEveryStepUntilItHasRecovered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backoff.AdaptiveRate{Max: 64, Recovery: backoff.Linear{Initial: 10 * time.Second}}
		for range 2 {
			rateAdverse(t, b, 2)
			for step := range 16 {
				require.InDelta(t, 16*math.Pow(2, float64(step)/8), float64(b.Limit()), 1e-6)
				time.Sleep(20*time.Second - 1)
				require.InDelta(t, 16*math.Pow(2, float64(step)/8), float64(b.Limit()), 1e-6)
				time.Sleep(time.Nanosecond)
			}
			require.EqualValues(t, 64, b.Limit())
			time.Sleep(time.Hour)
		}
	})
}

func TestAdaptiveRateDecreasesByWhatItIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backoff.AdaptiveRate{Max: 100, Decrease: 0.9}
		for _, want := range []rate.Limit{90, 81, 72.9} {
			rateAdverse(t, b, 1)
			require.InDelta(t, float64(want), float64(b.Limit()), 1e-6)
		}
	})
}

// A hundred attempts that were under way together are one event, not a hundred.
func TestAdaptiveRateFallsOnceForWhatWasUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backoff.AdaptiveRate{Max: 100, Burst: 100}
		_, tickets := rateWaits(t, b, 100)
		for _, ticket := range tickets {
			b.Done(ticket, backoff.Result{Outcome: backoff.OutcomeThrottled})
			b.Done(ticket, backoff.Result{Outcome: backoff.OutcomeThrottled})
		}
		require.InDelta(t, float64(50), float64(b.Limit()), 1e-6)
		rateAdverse(t, b, 1)
		require.InDelta(t, float64(25), float64(b.Limit()), 1e-6)
	})
}

func TestAdaptiveRateFallsOnlyForThrottling(t *testing.T) {
	b := &backoff.AdaptiveRate{Max: 1000, Burst: 10}
	for _, o := range []backoff.Outcome{backoff.OutcomeSuccess, backoff.OutcomeDefinitive, backoff.OutcomeTransient,
		backoff.OutcomeTimeout, backoff.OutcomeCanceled, backoff.OutcomeNotSent} {
		_, tickets := rateWaits(t, b, 1)
		b.Done(tickets[0], backoff.Result{Outcome: o})
		b.Done(tickets[0], backoff.Result{Outcome: backoff.OutcomeThrottled}) // a second Done
	}
	b.Done(backoff.Ticket{}, backoff.Result{Outcome: backoff.OutcomeThrottled})
	b.Done(backoff.Ticket{77}, backoff.Result{Outcome: backoff.OutcomeThrottled})
	require.EqualValues(t, 1000, b.Limit())
}

// Contract row 79: events, then quiet. The rate rises in steps, more slowly than it fell.
func TestRow79AdaptiveRateRecoversInSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backoff.AdaptiveRate{Max: 64}
		rateAdverse(t, b, 2)
		for step := range 16 {
			require.InDelta(t, float64(16*math.Pow(2, float64(step)/8)), float64(b.Limit()), 1e-6)
			time.Sleep(999 * time.Millisecond)
			require.InDelta(t, float64(16*math.Pow(2, float64(step)/8)), float64(b.Limit()), 1e-6, "not before its time")
			time.Sleep(time.Millisecond)
		}
		require.InDelta(t, float64(64), float64(b.Limit()), 1e-6)
		time.Sleep(time.Hour)
		require.InDelta(t, float64(64), float64(b.Limit()), 1e-6)
	})
}

// Contract row 80: the time of recovery may itself back off.
func TestRow80AdaptiveRateRecoveryMayGrow(t *testing.T) {
	for name, c := range map[string]struct {
		recovery backoff.Schedule
		want     []time.Duration // per step, after that many falls
	}{
		"30, 60, 90": {backoff.Linear{Initial: 30 * time.Second, Max: -1}, rateSeconds(30, 60, 90)},
		"doubling":   {backoff.Exponential{Initial: time.Second}, rateSeconds(1, 2, 4)},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := &backoff.AdaptiveRate{Max: 1024, Steps: 1, Recovery: c.recovery}
			var low rate.Limit
			for i, want := range c.want {
				rateAdverse(t, b, 1) // before the rate has recovered
				low = b.Limit()
				time.Sleep(want - time.Millisecond)
				require.Equal(t, low, b.Limit(), "%s: after %d falls", name, i+1)
			}
			time.Sleep(time.Millisecond)
			require.InDelta(t, float64(2*low), float64(b.Limit()), 1e-6, "%s", name)
			time.Sleep(time.Hour)
			require.InDelta(t, 1024.0, float64(b.Limit()), 1e-6)
			rateAdverse(t, b, 1)
			time.Sleep(c.want[0])
			require.InDelta(t, 1024.0, float64(b.Limit()), 1e-6, "%s: once recovered, the count starts again", name)
		})
	}
}

// Contract row 81: a service may ask for less on a success, if the caller listens.
func TestRow81AdaptiveRateTakesAHintOnASuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backoff.AdaptiveRate{Max: 10}
		p := backoff.Policy{Budget: b}
		call := func() {
			require.NoError(t, p.Do(t.Context(), func(context.Context) error {
				sent := time.Now()
				time.Sleep(time.Millisecond)
				b.SlowDown(sent) // as the answer asked
				return nil
			}))
		}
		call()
		require.InDelta(t, float64(5), float64(b.Limit()), 1e-6)
		begin := time.Now()
		call()
		require.Greater(t, time.Since(begin), 150*time.Millisecond, "the next one waits")
		require.InDelta(t, float64(2.5), float64(b.Limit()), 1e-6)

		b.SlowDown(begin) // of one that was under way then
		require.InDelta(t, float64(2.5), float64(b.Limit()), 1e-6)
		b.SlowDown(time.Time{})
		require.InDelta(t, float64(1.25), float64(b.Limit()), 1e-6)
	})
}

// rateOffer makes a call every millisecond, or as often as the budget lets, and reports
// what was sent.
func rateOffer(t *testing.T, b backoff.Budget, s *limitedService, d time.Duration) (sent int) {
	for begin := time.Now(); time.Since(begin) < d; sent++ {
		ticket, wait, ok := b.Reserve(backoff.Attempt{Number: 1})
		require.True(t, ok)
		time.Sleep(max(wait, time.Millisecond))
		b.Done(ticket, backoff.Result{Outcome: s.serve()})
	}
	return sent
}

// Contract rows 79 and 83: it finds a limit that nobody told it, and swings about it
// within bounds.
func TestRow83AdaptiveRateFindsAHiddenLimit(t *testing.T) {
	for _, hidden := range []float64{5, 40, 300} {
		synctest.Test(t, func(t *testing.T) {
			b := new(backoff.AdaptiveRate)
			s := newLimitedService(hidden, 1+int(hidden/10))
			require.Equal(t, rate.Inf, b.Limit(), "no limit before there is a reason")
			rateOffer(t, b, s, 10*time.Second)

			s.served, s.refused = 0, 0
			low, high := rate.Inf, rate.Limit(0)
			for range 300 {
				rateOffer(t, b, s, time.Second)
				low, high = min(low, b.Limit()), max(high, b.Limit())
			}
			require.GreaterOrEqual(t, float64(low), 0.4*hidden)
			require.LessOrEqual(t, float64(high), 1.2*hidden)
			require.InDelta(t, 0.78, float64(s.served)/300/hidden, 0.1)
			require.LessOrEqual(t, s.refused, 300/6, "a step up takes a second, and a fall is made good in eight")
		})
	}
}

func TestAdaptiveRateStaysCloserWithASmallerDecrease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backoff.AdaptiveRate{Decrease: 0.9, Steps: 2}
		s := newLimitedService(100, 5)
		rateOffer(t, b, s, 30*time.Second)
		s.served, s.refused = 0, 0
		rateOffer(t, b, s, 300*time.Second)
		require.InDelta(t, 0.95, float64(s.served)/300/100, 0.05)
		require.Less(t, float64(s.refused)/float64(s.served), 0.05)
	})
}

// Contract row 83, fairness: clients that know nothing of each other share a limit.
func TestRow83AdaptiveRatesShareALimitFairly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, hidden = 4, 200
		s := newLimitedService(hidden, 20)
		var sent [clients]int
		var all sync.WaitGroup
		var mu sync.Mutex
		for i := range clients {
			all.Go(func() {
				b := new(backoff.AdaptiveRate)
				time.Sleep(time.Duration(i) * 7 * time.Second) // late ones must find room
				for begin := time.Now(); time.Since(begin) < 5*time.Minute; {
					ticket, wait, _ := b.Reserve(backoff.Attempt{Number: 1})
					time.Sleep(max(wait, 3*time.Millisecond))
					mu.Lock()
					b.Done(ticket, backoff.Result{Outcome: s.serve()})
					sent[i]++
					mu.Unlock()
				}
			})
		}
		all.Wait()
		fair := float64(sent[0]+sent[1]+sent[2]+sent[3]) / clients
		for i, n := range sent {
			require.InDelta(t, 1, float64(n)/fair, 0.3, "client %d of %v", i, sent)
		}
	})
}

func TestAdaptiveRateIsFreeAgainWhenNothingNeedsALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(backoff.AdaptiveRate)
		rateOffer(t, b, newLimitedService(1e6, 1e6), 3*time.Second)
		require.Equal(t, rate.Inf, b.Limit())
		rateAdverse(t, b, 1)
		require.InDelta(t, 500, float64(b.Limit()), 1, "half of what was sent")
		time.Sleep(8 * time.Second)
		require.InDelta(t, 1000, float64(b.Limit()), 1, "made good, though nothing was sent meanwhile")
		time.Sleep(7 * time.Second)
		require.InDelta(t, 1000, float64(b.Limit()), 1, "not more, for the same reason")
		time.Sleep(time.Second)
		require.Equal(t, rate.Inf, b.Limit())
		waits, _ := rateWaits(t, b, 1000)
		require.Zero(t, slices.Max(waits))
		time.Sleep(time.Second)
		rateOffer(t, b, newLimitedService(1e6, 1e6), 3*time.Second)
		rateAdverse(t, b, 1)
		require.InDelta(t, 500, float64(b.Limit()), 1, "as if it had never fallen")
	})
}

// A first burst is over before it can be measured: the rate must be found from below, and
// the limit must not fall away before that.
func TestAdaptiveRateGrowsAsFarAsItIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(backoff.AdaptiveRate)
		s := newLimitedService(1e6, 1e6)
		rateAdverse(t, b, 1)
		require.InDelta(t, 0.5, float64(b.Limit()), 1e-6)
		rateOffer(t, b, s, 80*time.Second)
		require.InEpsilon(t, 0.5*math.Pow(2, 80.0/8), float64(b.Limit()), 0.1)
		rateOffer(t, b, s, 40*time.Second)
		require.Equal(t, rate.Inf, b.Limit(), "more than twice what is offered, for 8 s")
	})
}

func TestAdaptiveRateNeverFallsBelowMin(t *testing.T) {
	for _, c := range []struct {
		max, min, want rate.Limit
	}{{0, 0, 0.5}, {0, 3, 3}, {100, 0, 0.5}, {0.2, 0, 0.2}, {10, 10, 10}} {
		synctest.Test(t, func(t *testing.T) {
			b := &backoff.AdaptiveRate{Max: c.max, Min: c.min}
			rateAdverse(t, b, 50)
			require.InDelta(t, float64(c.want), float64(b.Limit()), 1e-6, "%+v", c)
			time.Sleep(8 * time.Second)
			require.GreaterOrEqual(t, b.Limit(), 0.92*min(2*c.want, max(c.want, c.max)), "and rises from there at once")
		})
	}
}

// A service that refused all for a while has taken the rate to the bottom, and those who
// wait were told so, minutes ahead. Others need not wait for them.
func TestAdaptiveRateRecoversWithALineOfCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(backoff.AdaptiveRate)
		s := newLimitedService(100, 10)
		begin := time.Now()
		var mu sync.Mutex
		served := 0
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				for time.Since(begin) < 3*time.Minute {
					ticket, wait, _ := b.Reserve(backoff.Attempt{Number: 1})
					time.Sleep(wait + 10*time.Millisecond)
					mu.Lock()
					at, o := time.Since(begin), backoff.OutcomeThrottled
					if at < 10*time.Second || at > 25*time.Second {
						o = s.serve()
					}
					if at > 2*time.Minute && at < 3*time.Minute && o == backoff.OutcomeSuccess {
						served++
					}
					b.Done(ticket, backoff.Result{Outcome: o})
					mu.Unlock()
				}
			})
		}
		all.Wait()
		require.Greater(t, served, 60*60, "in the third minute")
	})
}

func TestAdaptiveRateGetsTokensBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backoff.AdaptiveRate{Max: 1}
		_, tickets := rateWaits(t, b, 4)
		rateGiveBack(b, tickets[3], tickets[3], tickets[2])
		got, _ := rateWaits(t, b, 2)
		require.Equal(t, rateSeconds(2, 3), got)
	})
}

func TestAdaptiveRateIsNotMovedByAClockThatIsSet(t *testing.T) {
	b := &backoff.AdaptiveRate{Max: 64, Recovery: backoff.Constant(time.Hour)}
	rateAdverse(t, b, 1)
	for _, step := range []time.Duration{2 * time.Hour, -2 * time.Hour} {
		_, _, _ = b.Reserve(backoff.Attempt{Number: 1, Now: clockSetBy(time.Now(), step)})
		require.InDelta(t, float64(32), float64(b.Limit()), 1e-6)
	}
}

func TestAdaptiveRateUnder64Goroutines(t *testing.T) {
	b := &backoff.AdaptiveRate{Max: 1e6, Burst: 1000, Recovery: backoff.Constant(time.Millisecond)}
	var all sync.WaitGroup
	for worker := range 64 {
		all.Go(func() {
			for i := range 100 {
				ticket, _, ok := b.Reserve(backoff.Attempt{Number: 1})
				if !ok {
					t.Error("refused")
				}
				b.Done(ticket, backoff.Result{Outcome: backoff.Outcome((worker + i) % 7)})
				if i%50 == 0 {
					b.SlowDown(time.Now())
				}
			}
		})
	}
	all.Wait()
	require.LessOrEqual(t, b.Limit(), rate.Limit(1e6))
	require.GreaterOrEqual(t, b.Limit(), rate.Limit(0.5))
}

func TestAdaptiveRateAllocatesNothing(t *testing.T) {
	b := &backoff.AdaptiveRate{Max: 1000}
	require.Zero(t, testing.AllocsPerRun(10_000, func() {
		ticket, _, _ := b.Reserve(backoff.Attempt{Number: 1})
		b.Done(ticket, backoff.Result{Outcome: backoff.OutcomeThrottled})
	}))
}

func TestAdaptiveRateValidate(t *testing.T) {
	nan, inf := rate.Limit(math.NaN()), rate.Limit(math.Inf(1))
	for want, b := range map[string]*backoff.AdaptiveRate{
		"backoff: AdaptiveRate is nil":                                                   nil,
		"backoff: AdaptiveRate.Max is -1, want 0 (for none) or more":                     {Max: -1},
		"backoff: AdaptiveRate.Max is NaN, want 0 (for none) or more":                    {Max: nan},
		"backoff: AdaptiveRate.Max is +Inf, want 0 (for none) or more":                   {Max: inf},
		"backoff: AdaptiveRate.Min is -1, want 0 (for 0.5) or more, up to Max":           {Min: -1},
		"backoff: AdaptiveRate.Min is NaN, want 0 (for 0.5) or more, up to Max":          {Min: nan},
		"backoff: AdaptiveRate.Min is 11, want 0 (for 0.5) or more, up to Max":           {Min: 11, Max: 10},
		"backoff: AdaptiveRate.Burst is -1, want 0 (for 1) or more":                      {Burst: -1},
		"backoff: AdaptiveRate.Decrease is 1, want 0 (for 0.5) or more, and less than 1": {Decrease: 1},
		"backoff: AdaptiveRate.Steps is -1, want 0 (for 8) or more":                      {Steps: -1},
		"backoff: AdaptiveRate.Recovery: Linear.Initial is -1s, want 0 or more":          {Recovery: backoff.Linear{Initial: -time.Second}},
	} {
		require.EqualError(t, b.Validate(), want)
	}
	for want, b := range map[string]*backoff.AdaptiveRate{
		"AdaptiveRate.Decrease is -0.5": {Decrease: -0.5}, "AdaptiveRate.Min is 2": {Min: 2, Max: 1}, "AdaptiveRate.Min is +Inf": {Min: inf},
	} {
		require.ErrorContains(t, b.Validate(), want)
	}
	for _, b := range []*backoff.AdaptiveRate{{}, {Min: 1}, {Min: 10, Max: 10}, {Min: rate.Inf, Max: rate.Inf}} {
		require.NoError(t, b.Validate())
	}
}

// Contract row 49: one hot key does not slow another.
func TestRow49RatesKeptPerKeyAreIndependent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tables := backoff.Budgets{New: func(string) backoff.Budget { return new(backoff.AdaptiveRate) }}
		hot, cold := newLimitedService(10, 1), newLimitedService(1e6, 1e6)
		var all sync.WaitGroup
		var sent int
		all.Go(func() { rateOffer(t, tables.For("hot"), hot, time.Minute) })
		all.Go(func() { sent = rateOffer(t, tables.For("cold"), cold, time.Minute) })
		all.Wait()
		require.Less(t, hot.served+hot.refused, 800)
		require.Equal(t, 60_000, sent, "a call every millisecond, as offered")
	})
}

func ExampleAdaptiveRate() {
	indexes := backoff.Budgets{New: func(string) backoff.Budget { return &backoff.AdaptiveRate{Max: 100} }}

	index := indexes.For("index-7").(*backoff.AdaptiveRate)
	search := backoff.Policy{Name: "search", Budget: index}
	attempts := 0
	err := search.Do(context.Background(), func(context.Context) error {
		if attempts++; attempts == 1 {
			return backoff.WithClass(errors.New("too many requests"), backoff.ClassThrottled)
		}
		return nil
	})
	fmt.Println(err, attempts)
	fmt.Printf("%.0f a second to index-7\n", index.Limit())
	fmt.Printf("%.0f a second to index-8\n", indexes.For("index-8").(*backoff.AdaptiveRate).Limit())
	// Output:
	// <nil> 2
	// 50 a second to index-7
	// 100 a second to index-8
}

func ExampleRateLimit() {
	// Of all attempts of all calls, 3 at once, and then one a minute.
	limiter := rate.NewLimiter(rate.Every(time.Minute), 3)
	policy := backoff.Policy{Name: "fetch", Budget: &backoff.RateLimit{Limiter: limiter}}

	for range 3 {
		fmt.Println(policy.Do(context.Background(), func(context.Context) error { return nil }))
	}

	// A call that cannot wait does not.
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
