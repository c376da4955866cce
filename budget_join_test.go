package backoff_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/hedge"
	"github.com/gobackoff/backoff/internal/nightly"
	"github.com/gobackoff/backoff/limit"
	"github.com/gobackoff/backoff/pace"
)

// spacer is a Budget with the method Pace that writes down what it is asked.
type spacer struct {
	backoff.BudgetDefaults

	name  string
	log   *[]string
	waits []time.Duration // for one attempt after the other; -1 is a refusal
	paces []time.Duration
	asked uint64
}

func (b *spacer) next(waits *[]time.Duration) (wait time.Duration, ok bool) {
	if len(*waits) == 0 {
		return 0, true
	}
	wait = (*waits)[0]
	*waits = (*waits)[1:]
	return max(0, wait), wait >= 0
}

func (b *spacer) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	wait, ok := b.next(&b.waits)
	*b.log = append(*b.log, fmt.Sprintf("%s: reserve after %v: %v %v", b.name, a.Wait, wait, ok))
	b.asked++
	return backoff.Ticket{Word: b.asked}, wait, ok
}

func (b *spacer) Pace(t backoff.Ticket) (backoff.Ticket, time.Duration, bool) {
	wait, ok := b.next(&b.paces)
	*b.log = append(*b.log, fmt.Sprintf("%s: pace %d: %v %v", b.name, t.Word, wait, ok))
	return t, wait, ok
}

func (b *spacer) Done(t backoff.Ticket, r backoff.Result) {
	*b.log = append(*b.log, fmt.Sprintf("%s: done %d: %v", b.name, t.Word, r.Outcome == backoff.OutcomeNotSent))
}

// holder is a spacer that makes all attempts wait.
type holder struct{ spacer }

func (*holder) Hold(time.Duration) {}

func TestAJoinedBudgetIsToldHowLongTheOthersMakeAnAttemptWait(t *testing.T) {
	const s = time.Second
	for _, row := range []struct {
		waits [][]time.Duration // of a budget, another and one that holds
		paced bool
		want  []string
		wait  time.Duration
		ok    bool
	}{
		{[][]time.Duration{{0}, {0}, {0}}, true, []string{
			"d: reserve after 0s: 0s true", "b: reserve after 0s: 0s true", "c: reserve after 0s: 0s true",
		}, 0, true},
		{[][]time.Duration{{0}, {0}, {5 * s}}, true, []string{ // who holds is asked first
			"d: reserve after 0s: 5s true", "b: reserve after 5s: 0s true", "c: reserve after 5s: 0s true",
		}, 5 * s, true},
		{[][]time.Duration{{s, 0}, {3 * s}, {0}}, true, []string{ // who was told less is asked again
			"d: reserve after 0s: 0s true", "b: reserve after 0s: 1s true", "c: reserve after 1s: 3s true",
			"b: done 1: true", "b: reserve after 3s: 0s true",
		}, 3 * s, true},
		{[][]time.Duration{{3 * s}, {s}, {0}}, true, []string{
			"d: reserve after 0s: 0s true", "b: reserve after 0s: 3s true", "c: reserve after 3s: 1s true",
		}, 3 * s, true},
		{[][]time.Duration{{s}, {3 * s}, {0}}, false, []string{ // but not for a caller who never comes back
			"d: reserve after 0s: 0s true", "b: reserve after 0s: 1s true", "c: reserve after 1s: 3s true",
		}, 3 * s, true},
		{[][]time.Duration{{s, 4 * s}, {3 * s}, {0}}, true, []string{ // somebody else came between
			"d: reserve after 0s: 0s true", "b: reserve after 0s: 1s true", "c: reserve after 1s: 3s true",
			"b: done 1: true", "b: reserve after 3s: 4s true",
		}, 4 * s, true},
		{[][]time.Duration{{s, -1}, {3 * s}, {0}}, true, []string{ // a refusal gives all back
			"d: reserve after 0s: 0s true", "b: reserve after 0s: 1s true", "c: reserve after 1s: 3s true",
			"b: done 1: true", "b: reserve after 3s: 0s false", "c: done 1: true", "d: done 1: true",
		}, 0, false},
	} {
		var log []string
		b, c := &spacer{name: "b", log: &log, waits: row.waits[0]}, &spacer{name: "c", log: &log, waits: row.waits[1]}
		d := &holder{spacer{name: "d", log: &log, waits: row.waits[2]}}
		_, wait, ok := backoff.JoinBudgets(backoff.JoinBudgets(b, c), d).Reserve(backoff.Attempt{Number: 1, Paced: row.paced})
		require.Equal(t, row.want, log)
		require.Equal(t, row.ok, ok)
		require.Equal(t, row.wait, wait)
	}
}

func TestWhatWasGrantedGoesBackWhileAnAttemptIsHeld(t *testing.T) {
	const s = time.Second
	for _, row := range []struct {
		hold, waits, paces []time.Duration // of the holder's Pace, and of a spacer
		want               []string
		wait               time.Duration
		ok                 bool
	}{
		{[]time.Duration{0}, []time.Duration{s}, []time.Duration{0}, []string{"h: pace 1: 0s true", "b: pace 1: 0s true"}, 0, true},
		{[]time.Duration{9 * s}, []time.Duration{s, 0}, nil, []string{"h: pace 1: 9s true", "b: done 1: true", "b: reserve after 9s: 0s true"}, 9 * s, true},
		{[]time.Duration{9 * s}, []time.Duration{s, 12 * s}, nil, []string{"h: pace 1: 9s true", "b: done 1: true", "b: reserve after 9s: 12s true"}, 12 * s, true},
		{[]time.Duration{9 * s}, []time.Duration{s, -1}, nil, []string{"h: pace 1: 9s true", "b: done 1: true", "b: reserve after 9s: 0s false"}, 9 * s, false},
		{[]time.Duration{-1}, []time.Duration{s}, nil, []string{"h: pace 1: 0s false"}, 0, false},
		{[]time.Duration{0}, []time.Duration{s}, []time.Duration{-1}, []string{"h: pace 1: 0s true", "b: pace 1: 0s false"}, 0, false},
	} {
		var log []string
		h := &holder{spacer{name: "h", log: &log, paces: row.hold}}
		b := &spacer{name: "b", log: &log, waits: row.waits, paces: row.paces}
		all := backoff.JoinBudgets(b, h)
		ticket, _, ok := all.Reserve(backoff.Attempt{Number: 1, Paced: true})
		require.True(t, ok)
		log = nil
		ticket, wait, ok := all.Pace(ticket)
		require.Equal(t, row.want, log)
		require.Equal(t, row.ok, ok)
		require.Equal(t, row.wait, wait)
		all.Done(ticket, backoff.Result{})
	}
}

// A caller may call Pace for an attempt that had nothing to wait for. While it is
// held, nobody else is asked.
func TestNobodyIsAskedForThePaceOfAnAttemptThatIsHeld(t *testing.T) {
	var log []string
	h := &holder{spacer{name: "h", log: &log, paces: []time.Duration{time.Second, 0}}}
	all := backoff.JoinBudgets(&spacer{name: "b", log: &log}, h)
	ticket, _, _ := all.Reserve(backoff.Attempt{Number: 1, Paced: true})
	for _, want := range []time.Duration{time.Second, 0} {
		_, wait, ok := all.Pace(ticket)
		require.True(t, ok)
		require.Equal(t, want, wait)
	}
	require.Equal(t, []string{"h: reserve after 0s: 0s true", "b: reserve after 0s: 0s true", "h: pace 1: 1s true", "h: pace 1: 0s true", "b: pace 1: 0s true"}, log)
}

func TestBudgetsThatNobodyIsHeldByAllocateNothing(t *testing.T) {
	all := backoff.JoinBudgets(new(backoff.RetryBudget), &limit.Rate{Limiter: rate.NewLimiter(rate.Inf, 0)}, new(pace.HoldOff))
	require.Zero(t, testing.AllocsPerRun(100, func() {
		ticket, _, _ := all.Reserve(backoff.Attempt{Number: 1, Paced: true})
		all.Confirm(ticket)
		all.Done(ticket, backoff.Result{})
	}))
}

// whimsical is a Budget that refuses and waits at random, and checks that what it
// grants comes back.
type whimsical struct {
	backoff.BudgetDefaults

	*testing.T
	refusals float64

	mu     sync.Mutex
	random *rand.Rand
	newest uint64
	out    map[uint64]bool
}

func (b *whimsical) draw() (time.Duration, bool) {
	return time.Duration(max(0, b.random.Float64()-0.5) * 4e9), b.random.Float64() >= b.refusals
}

func (b *whimsical) Reserve(backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	wait, ok := b.draw()
	if ok {
		b.newest++
		b.out[b.newest] = true
	}
	return backoff.Ticket{Word: b.newest}, wait, ok
}

func (b *whimsical) Pace(t backoff.Ticket) (backoff.Ticket, time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	require.True(b, b.out[t.Word])
	wait, ok := b.draw()
	return t, wait, ok
}

func (b *whimsical) Confirm(t backoff.Ticket) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	require.True(b, b.out[t.Word])
	_, ok := b.draw()
	return ok
}

func (b *whimsical) Done(t backoff.Ticket, _ backoff.Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.out, t.Word)
}

// joinAtRandom returns limits that are joined in any order, with a check of what
// they hold at the end, when so many attempts have been made.
func joinAtRandom(t *testing.T, random *rand.Rand) (all backoff.Budget, running *limit.Concurrency, check func(attempts int)) {
	const burst = 5
	running = &limit.Concurrency{Max: 4}
	limiter := rate.NewLimiter(20, burst)
	odd := &whimsical{T: t, refusals: 0.05 * random.Float64(), random: rand.New(rand.NewPCG(random.Uint64(), 0)), out: map[uint64]bool{}}
	hold, retries := new(pace.HoldOff), &backoff.RetryBudget{Ratio: 1}
	members := []backoff.Budget{running, &limit.Rate{Limiter: limiter}, odd, hold, retries, &limit.Rate{Limiter: rate.NewLimiter(30, 1)}, &limit.Sleeping{}}
	random.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	began := time.Now()
	return backoff.JoinBudgets(members...), running, func(attempts int) {
		require.Zero(t, running.Load(), "no slot is lost")
		odd.mu.Lock()
		require.Empty(t, odd.out, "and no grant")
		odd.mu.Unlock()
		require.LessOrEqual(t, float64(attempts), burst+20*time.Since(began).Seconds()+1e-6, "no token is doubled")
		time.Sleep(time.Minute)
		require.InDelta(t, burst, limiter.Tokens(), 1e-6, "and none is lost")
		require.Zero(t, retries.Stats().Retries)
	}
}

// Whatever members are joined, and whatever ends the calls, no token and no slot
// is lost or doubled.
func TestJoinedBudgetsLoseAndDoubleNothing(t *testing.T) {
	for seed := range nightly.Size[uint64](60, 2000) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 29))
			all, running, check := joinAtRandom(t, random)
			var attempts, now atomic.Int64
			op := func(ctx context.Context) error {
				attempts.Add(1)
				require.LessOrEqual(t, now.Add(1), int64(running.Max))
				defer now.Add(-1)
				switch u := rand.Float64(); {
				case u < 0.1:
					return backoff.RetryAfter(errBoom, time.Duration(rand.Float64()*3e9))
				case u < 0.3:
					return errBoom
				case u < 0.35:
					return backoff.OfClass(errBoom, backoff.ClassThrottled)
				}
				time.Sleep(time.Duration(rand.Float64() * 2e8))
				return ctx.Err()
			}
			policy := backoff.Policy{Budget: all, MaxAttempts: 4, Schedule: backoff.Constant(300 * time.Millisecond)}
			hedged := &hedge.Hedge{Budget: all, Delay: 50 * time.Millisecond, MaxExtraLoad: -1}
			var calls sync.WaitGroup
			for i := range 60 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.Float64()*8e9))
				calls.Go(func() {
					defer cancel()
					switch i % 4 {
					case 0:
						_, _ = hedge.Value(ctx, hedged, func(ctx context.Context) (int, error) { return 0, op(ctx) }, nil)
					case 1:
						_ = supervise(policy, ctx, op)
					case 2:
						run := policy.Start(ctx)
						for ctx := range run.Attempts() {
							err := op(ctx)
							if err == nil {
								break
							}
							run.Fail(err)
						}
					default:
						if err := policy.Do(ctx, op); err != nil {
							require.False(t, errors.Is(err, context.Canceled))
						}
					}
				})
				time.Sleep(time.Duration(random.Float64() * 1e8))
			}
			calls.Wait()
			time.Sleep(time.Second) // for hedges that lost
			synctest.Wait()
			check(int(attempts.Load()))
		})
	}
}

// The answer of another attempt may put a hedge off that was granted.
func TestAHedgeThatIsPutOffGivesItsTokenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		b := &spacer{name: "b", log: &log, waits: []time.Duration{0, 3 * time.Second}}
		h := &hedge.Hedge{Delay: time.Second, Budget: b, MaxExtraLoad: -1}
		began := time.Now()
		_, err := hedge.Value(t.Context(), h, func(ctx context.Context) (int, error) {
			if hedge.Number(ctx) == 0 {
				time.Sleep(2 * time.Second)
				return 0, backoff.RetryAfter(errBoom, 10*time.Second)
			}
			require.Equal(t, 12*time.Second, time.Since(began))
			return 0, nil
		}, nil)
		require.NoError(t, err)
		require.Equal(t, []string{
			"b: reserve after 0s: 0s true", "b: reserve after 0s: 3s true", "b: done 1: false", "b: done 2: true",
			"b: reserve after 0s: 0s true", "b: done 3: false",
		}, log)
	})
}

// late grants each attempt after a wait, and refuses it when that is over.
type late struct {
	backoff.BudgetDefaults

	wait time.Duration
}

func (b late) Reserve(backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	return backoff.Ticket{}, b.wait, true
}
func (late) Pace(t backoff.Ticket) (backoff.Ticket, time.Duration, bool) {
	return t, 0, false
}

// heldUp grants each attempt after a wait.
type heldUp struct{ late }

func (heldUp) Pace(t backoff.Ticket) (backoff.Ticket, time.Duration, bool) { return t, 0, true }

// retriesOnly does not ask a budget for first attempts.
type retriesOnly struct{ backoff.Budget }

func (retriesOnly) GrantsFirst() bool { return true }

func TestATokenGoesBackIfAnotherBudgetRefusesAfterTheWait(t *testing.T) {
	failing := func(context.Context) error { return errDown }
	for name, call := range map[string]func(ctx context.Context, b backoff.Budget){
		"policy": func(ctx context.Context, b backoff.Budget) {
			_ = backoff.Policy{Budget: retriesOnly{b}}.Do(ctx, failing)
		},
		"nested": func(ctx context.Context, b backoff.Budget) {
			_ = backoff.Policy{Budget: retriesOnly{backoff.JoinBudgets(retriesOnly{b})}}.Do(ctx, failing)
		},
		"hedge": func(ctx context.Context, b backoff.Budget) {
			h := &hedge.Hedge{Budget: retriesOnly{b}, Delay: time.Millisecond}
			_, _ = hedge.Value(ctx, h, func(context.Context) (int, error) { time.Sleep(time.Second); return 0, nil }, nil)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			tokens := rate.NewLimiter(rate.Every(time.Hour), 10)
			call(t.Context(), backoff.JoinBudgets(&limit.Rate{Limiter: tokens, RetriesOnly: true}, late{wait: 2 * time.Second}))
			time.Sleep(time.Minute)
			require.Greater(t, tokens.Tokens(), 9.99, name)
		})
	}
}

// A budget that draws a lot, such as a Throttle, draws it once for an attempt.
func TestABudgetThatHoldsNothingIsNotAskedAgain(t *testing.T) {
	var log []string
	draws := &drawing{}
	slow := &spacer{name: "slow", log: &log, waits: []time.Duration{time.Second}}
	all := backoff.JoinBudgets(draws, slow, new(pace.HoldOff))
	ticket, wait, ok := all.Reserve(backoff.Attempt{Number: 1, Paced: true})
	require.True(t, ok)
	require.Equal(t, time.Second, wait)
	_, _, ok = all.Pace(ticket)
	require.True(t, ok)
	require.Equal(t, 1, draws.made)
}

// drawing counts its draws.
type drawing struct {
	backoff.BudgetDefaults

	made int
}

func (d *drawing) Reserve(backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	d.made++
	return backoff.Ticket{}, 0, true
}

// A budget that another one makes ask again must not take the second question
// for another call's.
func TestABudgetIsAskedAgainForItsSpareRetry(t *testing.T) {
	for _, others := range [][]backoff.Budget{nil, {heldUp{late{wait: time.Second}}}, {new(pace.HoldOff)}} {
		synctest.Test(t, func(t *testing.T) {
			p := backoff.Policy{Budget: backoff.JoinBudgets(append(others, new(pace.Pacer))...)}
			if len(others) > 0 {
				if h, ok := others[0].(*pace.HoldOff); ok {
					p.Schedule, p.Jitter = backoff.Constant(time.Second), backoff.NoJitter
					time.AfterFunc(time.Minute+500*time.Millisecond, func() { h.Hold(2 * time.Second) })
				}
			}
			for range 3 {
				require.NoError(t, p.Do(t.Context(), func(context.Context) error { return nil }))
			}
			time.Sleep(time.Minute)
			failed := false
			require.NoError(t, p.Do(t.Context(), func(context.Context) error {
				if !failed {
					failed = true
					return errDown
				}
				return nil
			}))
			time.Sleep(time.Minute)
		})
	}
}

func TestTheKeysOfBudgetsGiveTheFirstCallAllItsAttemptsHoweverManyAreJoined(t *testing.T) {
	for _, joined := range []int{1, 4, 5, 9} {
		synctest.Test(t, func(t *testing.T) {
			budgets := &backoff.Budgets{New: func(string) backoff.Budget {
				all := make([]backoff.Budget, joined)
				for i := range all {
					all[i] = new(backoff.RetryBudget)
				}
				return backoff.JoinBudgets(all...)
			}}
			attempts := func(key string) (n int) {
				_ = backoff.Policy{Budget: budgets.For(key)}.Do(t.Context(), func(context.Context) error { n++; return errDown })
				return n
			}
			require.Equal(t, 4, attempts("one"), joined)
			require.Equal(t, 2, attempts("another"), joined)
		})
	}
}
