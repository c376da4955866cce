package line_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/guard/internal/line"
)

var errDown = errors.New("down")

// wait has a call that ended with v wait in a line, for a time at most.
func wait(ctx context.Context, l *line.Line, v line.Verdict, limit time.Duration) (line.Call, line.End) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c, _ := l.NewCall()
	r := line.Result{Verdict: v, Err: errDown}
	c.Settle(r)
	return c, c.Wait(ctx, rand.IntN(line.Ranks), -1, r)
}

// A long line takes no time to leave.
func TestACallLeavesALongLineFromItsMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l line.Line
		var all sync.WaitGroup
		var leave []context.CancelFunc
		for range 10_000 {
			ctx, cancel := context.WithCancel(t.Context())
			leave = append(leave, cancel)
			all.Go(func() { wait(ctx, &l, line.Refused, time.Hour) })
		}
		synctest.Wait()
		require.Equal(t, 10_000, l.Waiting())
		rand.Shuffle(len(leave), func(i, j int) { leave[i], leave[j] = leave[j], leave[i] })
		for _, cancel := range leave {
			cancel()
		}
		all.Wait()
		require.Zero(t, l.Waiting())
		require.Zero(t, l.InFlight())
	})
}

// The context may end at the moment when the turn comes. Then it is the turn of the
// next call.
func TestACallThatLeavesWhenItsTurnComesGivesItBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 200 {
			var l line.Line
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			all.Go(func() {
				if c, end := wait(ctx, &l, line.Full, time.Hour); end == line.Went {
					c.Settle(line.Result{})
				}
			})
			synctest.Wait()
			c, _ := l.NewCall()
			cancel()
			c.Succeed()
			all.Wait()
			require.Zero(t, l.InFlight())
			require.Zero(t, l.Waiting())
		}
	})
}

func TestAProbeThatLeavesWhenItsTurnComesIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := line.Line{Circuit: open{}}
		var all sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range 20 {
			all.Go(func() {
				c, end := wait(ctx, &l, line.Refused, time.Minute)
				if end == line.Went {
					cancel()
					c.Settle(line.Result{})
				}
			})
		}
		all.Wait()
		require.Zero(t, l.InFlight())
		left := time.Now()
		_, end := wait(t.Context(), &l, line.Refused, time.Minute)
		require.Equal(t, line.Went, end)
		require.Less(t, time.Since(left), time.Second, "it does not wait for the lease of the other one")
	})
}

// open is a circuit that may be probed at any time.
type open struct{}

func (open) Closed() bool        { return false }
func (open) Left() time.Duration { return 0 }
func (open) Usual() float64      { return 0 }
func (open) Share() float64      { return 0 }
