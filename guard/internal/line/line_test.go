package line_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/guard/internal/line"
	"github.com/gobackoff/backoff/internal/nightly"
)

var errDown = errors.New("down")

// call makes a call through a line, as the Patience of the root package does.
func call(ctx context.Context, l *line.Line, most int, op func() line.Result) (made int, end line.End) {
	c, wait := l.NewCall()
	r := line.Result{}
	for {
		if wait {
			if end = c.Wait(ctx, rand.IntN(line.Ranks), most, r.After); end != line.Went {
				return made, end
			}
		}
		c.Enter()
		made++
		if r = op(); r.Verdict == line.Answered {
			c.Succeed()
			return made, line.Went
		}
		if ctx.Err() != nil {
			r = line.Result{}
		}
		c.Settle(r)
		wait = true
	}
}

// However a service behaves, and whenever callers leave: no turn is lost, no
// place is lost, and as soon as the service is well all who still wait are
// served.
func TestNoTurnIsLost(t *testing.T) {
	for range nightly.Size(20, 400) {
		synctest.Test(t, func(t *testing.T) {
			draw := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
			var mu sync.Mutex
			random := func(n int) int { mu.Lock(); defer mu.Unlock(); return draw.IntN(n) }
			var l line.Line
			began, well := time.Now(), time.Duration(30)*time.Second
			bad := random(100) // per cent of the failures until the service is well
			op := func() line.Result {
				time.Sleep(time.Duration(random(300)) * time.Millisecond)
				if time.Since(began) >= well || random(100) >= bad {
					return line.Result{Verdict: line.Answered}
				}
				return line.Result{
					Verdict: []line.Verdict{line.Silent, line.Failed, line.Failed, line.Refused, line.Full, line.Throttled}[random(6)],
					NotSent: random(2) == 0,
					After:   max(0, time.Duration(random(4000)-2000)*time.Millisecond),
					Err:     errDown,
				}
			}
			var wg sync.WaitGroup
			for range 500 {
				leaves, stays := time.Duration(random(30_000))*time.Millisecond, random(2) == 0
				wg.Go(func() {
					time.Sleep(time.Duration(random(25_000)) * time.Millisecond)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					if !stays {
						time.AfterFunc(leaves, cancel)
					}
					_, end := call(ctx, &l, -1, op)
					if stays {
						require.Equal(t, line.Went, end)
						require.Less(t, time.Since(began), well+5*time.Minute)
					}
				})
			}
			wg.Wait()
			c, _ := l.NewCall()
			require.Zero(t, l.InFlight())
			require.Equal(t, line.Went, c.Wait(t.Context(), 0, 0, 0), "nobody waits any more")
		})
	}
}

// A long line costs memory for each call in it, and no time to leave it.
func TestACallLeavesALongLineFromItsMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l line.Line
		fail := func() line.Result {
			return line.Result{Verdict: line.Failed, NotSent: true, Err: errDown}
		}
		n := nightly.Size(10_000, 100_000)
		var before, after runtime.MemStats
		ctx, cancel := context.WithCancel(t.Context())
		for range 3 {
			go call(ctx, &l, -1, fail)
		}
		synctest.Wait()
		runtime.GC()
		runtime.ReadMemStats(&before)
		var wg sync.WaitGroup
		var leave []context.CancelFunc
		for range n {
			ctx, cancel := context.WithCancel(ctx)
			leave = append(leave, cancel)
			wg.Go(func() { call(ctx, &l, -1, fail) })
		}
		synctest.Wait()
		runtime.ReadMemStats(&after)
		t.Logf("%d bytes for each, with its goroutine and context", (after.HeapInuse+after.StackInuse-before.HeapInuse-before.StackInuse)/uint64(n))
		rand.Shuffle(n, func(i, j int) { leave[i], leave[j] = leave[j], leave[i] })
		for _, cancel := range leave {
			cancel()
		}
		wg.Wait()
		cancel()
	})
}

func TestALineLearnsHowManyAreUsuallyInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l line.Line
		require.Equal(t, 1, l.Most(), "at least")
		var wg sync.WaitGroup
		for range 2000 { // 10 a second, which take a second
			wg.Go(func() {
				call(t.Context(), &l, 0, func() line.Result {
					time.Sleep(time.Second)
					return line.Result{Verdict: line.Answered}
				})
			})
			time.Sleep(time.Duration(rand.ExpFloat64() * float64(100*time.Millisecond)))
		}
		wg.Wait()
		require.InDelta(t, 20, l.Most(), 10)
	})
}

// The context may end at the moment when the turn comes. Then it is the turn of
// the next call.
func TestACallThatLeavesWhenItsTurnComesGivesItBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for round := range 200 {
			var l line.Line
			fail := func() line.Result { return line.Result{Verdict: line.Full, Err: errDown} }
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wg.Go(func() { call(ctx, &l, -1, fail) })
			synctest.Wait()
			c, _ := l.NewCall()
			c.Enter()
			cancel()
			c.Succeed()
			wg.Wait()
			require.Zero(t, l.InFlight(), round)
		}
	})
}

func TestAProbeThatLeavesWhenItsTurnComesIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l line.Line
		c, _ := l.NewCall()
		c.Settle(line.Result{Verdict: line.Refused, After: time.Second, Err: errDown})
		var wg sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel) // as the probe goes
		for range 20 {
			wg.Go(func() {
				call(ctx, &l, -1, func() line.Result { return line.Result{Verdict: line.Silent} })
			})
		}
		wg.Wait()
		require.Zero(t, l.InFlight())
		left := time.Now()
		_, end := call(t.Context(), &l, -1, func() line.Result { return line.Result{Verdict: line.Answered} })
		require.Equal(t, line.Went, end)
		require.Less(t, time.Since(left), 2*time.Second, "it does not wait for the lease of the other one")
	})
}

func TestOneInSixteenAttemptsIsMeasuredHoweverManyThereWere(t *testing.T) {
	for _, others := range []int64{0, 1<<31 - 80, 1<<32 - 80} {
		require.Equal(t, 10, line.SampledAfter(others, 160), "%d", others)
	}
}
