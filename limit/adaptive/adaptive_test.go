package adaptive_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/nightly"
	"github.com/gobackoff/backoff/limit/adaptive"
)

// A counter serves one call after the other, a hundred a second, also for callers who
// have gone.
type counter struct {
	mu   sync.Mutex
	free time.Time // when it has served all
	now  int       // calls at the counter
	most int       // the most of these, since it was last asked for
}

// serve is an operation.
func (c *counter) serve(ctx context.Context) error {
	c.mu.Lock()
	c.free = time.Now().Add(max(0, time.Until(c.free)) + 10*time.Millisecond)
	wait := time.Until(c.free)
	c.now++
	c.most = max(c.most, c.now)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.now--
		c.mu.Unlock()
	}()
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// peak returns the most calls that were at the counter at once, since it was last asked.
func (c *counter) peak() (most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	most, c.most = c.most, 0
	return most
}

// come makes calls at a rate for a time, each with a second, and returns the share that
// succeeds. do makes a call.
func come(t *testing.T, rate float64, length time.Duration, do func(context.Context, int) error) float64 {
	var all sync.WaitGroup
	var mu sync.Mutex
	good, calls := 0, 0
	random := rand.New(rand.NewPCG(1, 2))
	for end := time.Now().Add(length); time.Now().Before(end); calls++ {
		n := calls
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if do(ctx, n) == nil {
				mu.Lock()
				good++
				mu.Unlock()
			}
		})
		time.Sleep(time.Duration(random.ExpFloat64() / rate * float64(time.Second)))
	}
	all.Wait()
	return float64(good) / float64(calls)
}

// under returns how to call an operation under a budget.
func under(b backoff.Budget, op func(context.Context) error) func(context.Context, int) error {
	p := backoff.Policy{Budget: b, MaxAttempts: 1}
	return func(ctx context.Context, _ int) error { return p.Do(ctx, op) }
}

func TestALimitServesWhatAnOverloadedServiceCan(t *testing.T) {
	nightly.Long(t)
	synctest.Test(t, func(t *testing.T) {
		var c, unlimited counter
		var a adaptive.Limit
		require.Equal(t, 1., come(t, 60, time.Minute, under(&a, c.serve)))
		most, waiting := a.AtOnce()
		require.Equal(t, math.Inf(1), most)
		require.Zero(t, waiting)

		require.Greater(t, come(t, 150, time.Minute, under(&a, c.serve)), 0.63, "two thirds is all that there is")
		c.peak()
		var load sync.WaitGroup
		load.Go(func() { come(t, 150, 10*time.Second, under(&a, c.serve)) })
		time.Sleep(5 * time.Second)
		most, waiting = a.AtOnce()
		require.Less(t, most, 30.)
		require.Positive(t, waiting)
		require.LessOrEqual(t, c.peak(), 10)
		load.Wait()

		require.Equal(t, 1., come(t, 60, 10*time.Second, under(&a, c.serve)))
		most, _ = a.AtOnce()
		require.Equal(t, math.Inf(1), most, "the load has fallen")
		require.Less(t, come(t, 150, time.Minute, under(nil, unlimited.serve)), 0.1)
	})
}

// slower is an operation that takes longer after a minute, however many there are.
func slower(by time.Duration) func(context.Context) error {
	began := time.Now()
	return func(ctx context.Context) error {
		takes := 10 * time.Millisecond
		if time.Since(began) > time.Minute {
			takes *= by
		}
		select {
		case <-time.After(takes):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func TestALimitLeavesAServiceAloneThatIsOnlySlower(t *testing.T) {
	for _, by := range []time.Duration{3, 10, 40} {
		synctest.Test(t, func(t *testing.T) {
			var a adaptive.Limit
			do := under(&a, slower(by))
			require.Greater(t, come(t, 100, 90*time.Second, do), 0.96, "slower by %d", by)
			most, _ := a.AtOnce()
			require.Equal(t, math.Inf(1), most)
		})
	}
}

// A trial would take a few times as long as an answer.
func TestALimitTriesNothingWhereAnswersTakeLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a adaptive.Limit
		p := backoff.Policy{Budget: &a, MaxAttempts: 1}
		op := slower(300)
		var all sync.WaitGroup
		for range 100 * 90 {
			all.Go(func() { require.NoError(t, p.Do(t.Context(), op)) })
			time.Sleep(10 * time.Millisecond)
			most, _ := a.AtOnce()
			require.Equal(t, math.Inf(1), most)
		}
		all.Wait()
	})
}

// overloaded returns a limit that has proved itself: a call waits for its place.
func overloaded(t *testing.T) (a *adaptive.Limit, stop func()) {
	var c counter
	a = new(adaptive.Limit)
	do := under(a, c.serve)
	come(t, 60, time.Minute, do)
	var load sync.WaitGroup
	load.Go(func() { come(t, 150, 10*time.Second, do) })
	time.Sleep(5 * time.Second)
	most, _ := a.AtOnce()
	require.Less(t, most, 30.)
	return a, load.Wait
}

func TestALimitRefusesAHedgeThatWouldWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, stop := overloaded(t)
		defer stop()
		refused := 0
		for range 100 {
			ticket, wait, ok := a.Reserve(backoff.Attempt{Number: 2, Hedge: true, Paced: true})
			require.Zero(t, wait)
			if !ok {
				refused++
			}
			a.Done(ticket, backoff.Result{NotSent: true})
			time.Sleep(10 * time.Millisecond)
		}
		require.Greater(t, refused, 30)
	})
}

func TestALimitKeepsHalfOfThePlacesFromBackgroundCalls(t *testing.T) {
	nightly.Long(t)
	synctest.Test(t, func(t *testing.T) {
		var c counter
		var a adaptive.Limit
		do := under(&a, c.serve)
		require.Equal(t, 1., come(t, 60, time.Minute, do))
		var mu sync.Mutex
		good := map[bool]int{}
		come(t, 150, time.Minute, func(ctx context.Context, n int) error {
			background := n%2 == 0
			if background {
				ctx = backoff.WithPriority(ctx, backoff.PriorityBackground)
			}
			err := do(ctx, n)
			if mu.Lock(); err == nil {
				good[background]++
			}
			mu.Unlock()
			return err
		})
		require.Greater(t, good[false], 5*good[true]/4, "%v", good)
		require.Greater(t, good[false]+good[true], 5600, "%v of 6,000", good)
	})
}

// A place is not lost for good with its ticket.
func TestALimitForgetsAttemptsThatNeverEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, stop := overloaded(t)
		stop()
		most, _ := a.AtOnce()
		require.Less(t, most, 100.)
		for range 100 {
			ticket, _, ok := a.Reserve(backoff.Attempt{Number: 1}) // who does not ask again
			require.True(t, ok)
			require.True(t, a.Confirm(ticket))
		}
		ticket, wait, ok := a.Reserve(backoff.Attempt{Number: 1, Paced: true})
		require.True(t, ok)
		require.Positive(t, wait)
		time.Sleep(11 * time.Second)
		ticket, wait, ok = a.Pace(ticket)
		require.True(t, ok && wait > 0)
		time.Sleep(wait)
		_, wait, ok = a.Pace(ticket)
		require.True(t, ok)
		require.Zero(t, wait)
	})
}

func TestALimitRefusesWhoHasWaitedForFiveMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, stop := overloaded(t)
		stop()
		running := make([]backoff.Ticket, 300)
		for i := range running {
			running[i], _, _ = a.Reserve(backoff.Attempt{Number: 1})
		}
		another, _, _ := a.Reserve(backoff.Attempt{Number: 1, Paced: true}) // who waits, too
		ticket, wait, ok := a.Reserve(backoff.Attempt{Number: 1, Paced: true})
		began := time.Now()
		for ; ok; ticket, wait, ok = a.Pace(ticket) {
			require.Positive(t, wait, "all places are taken")
			for left := wait; left > 0; left -= 5 * time.Second {
				time.Sleep(min(left, 5*time.Second))
				a.Pace(another)
				a.Done(running[0], backoff.Result{Failed: len(running)%4 > 0, Took: 20 * time.Millisecond})
				running = running[1:]
			}
		}
		require.InDelta(t, 5*time.Minute, time.Since(began), float64(75*time.Second))
	})
}

// Attempts that wait for others to the same service, which have no place, would keep each
// other waiting for ever.
func TestALimitUnderWhichNobodyIsAnsweredEnds(t *testing.T) {
	for name, result := range map[string]backoff.Result{
		"out of time": {Failed: true, TimedOut: true},
		"failed":      {Failed: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			a, stop := overloaded(t)
			stop()
			for range 100 {
				ticket, wait, _ := a.Reserve(backoff.Attempt{Number: 1, Paced: true})
				for wait > 0 {
					time.Sleep(wait)
					ticket, wait, _ = a.Pace(ticket)
				}
				a.Confirm(ticket)
				time.Sleep(400 * time.Millisecond)
				result.Took = 400 * time.Millisecond
				a.Done(ticket, result)
			}
			most, _ := a.AtOnce()
			require.True(t, math.IsInf(most, 1), "%s: %v", name, most)
		})
	}
}

func TestASecondDoneAndAnUnknownTicketChangeNothingInALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, stop := overloaded(t)
		stop()
		most, waiting := a.AtOnce()
		for range 1000 {
			a.Done(backoff.Ticket{Word: 1 << 40}, backoff.Result{NotSent: true})
			a.Confirm(backoff.Ticket{Word: 1 << 40})
			_, wait, ok := a.Pace(backoff.Ticket{Word: 1 << 40})
			require.True(t, ok && wait == 0)
		}
		now, stillWaiting := a.AtOnce()
		require.Equal(t, most, now)
		require.Equal(t, waiting, stillWaiting)
	})
}

// A service that says "too much" itself needs no limit.
func TestAThrottledResponseEndsTheLimitOfALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, stop := overloaded(t)
		ticket, _, _ := a.Reserve(backoff.Attempt{Number: 1})
		a.Done(ticket, backoff.Result{Failed: true, Class: backoff.ClassThrottled, Took: time.Millisecond})
		most, _ := a.AtOnce()
		require.Equal(t, math.Inf(1), most)
		stop()
	})
}

func TestALimitThatMeasuresNothingTakesNothing(t *testing.T) {
	var a adaptive.Limit
	p := backoff.Policy{Budget: &a}
	ctx := t.Context()
	for range 10_000 {
		require.NoError(t, p.Do(ctx, func(context.Context) error { return nil }))
	}
	granted := 0
	for range 1000 {
		if a.GrantsFirst() {
			granted++
		}
		require.NoError(t, p.Do(ctx, func(context.Context) error { return nil }))
	}
	require.Greater(t, granted, 900)
}

func TestALimitRefusesToBeNil(t *testing.T) {
	var a *adaptive.Limit
	require.False(t, a.GrantsFirst())
	require.EqualError(t, a.Validate(), "backoff: adaptive.Limit is nil")
	require.NoError(t, new(adaptive.Limit).Validate())
	err := backoff.Policy{Budget: a}.Do(t.Context(), func(context.Context) error { return nil })
	require.EqualError(t, err, "backoff: Policy.Budget holds a nil pointer")
}

func ExampleLimit() {
	limit := new(adaptive.Limit) // for all calls to the service
	search := backoff.Policy{
		Name:   "search",
		Budget: backoff.JoinBudgets(new(backoff.RetryBudget), limit),
	}
	err := search.Do(context.Background(), func(context.Context) error { return nil })
	most, waiting := limit.AtOnce()
	fmt.Println(err, most, waiting)
	// Output: <nil> +Inf 0
}
