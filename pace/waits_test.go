package pace_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/hedge"
	"github.com/gobackoff/backoff/pace"
)

// Loops that reconnect are as much of a herd as calls are.
func TestReconnectLoopsGoAtThePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(pace.Pacer)
		b.Done(backoff.Ticket{}, backoff.Result{Outcome: backoff.OutcomeThrottled})
		perSecond, _ := b.Limit()
		require.InDelta(t, 0.75, perSecond, 0.01)

		ctx, cancel := context.WithCancel(t.Context())
		loop := backoff.Supervisor{Policy: backoff.Policy{Budget: b}}
		var runs atomic.Int64
		var loops sync.WaitGroup
		for range 200 {
			loops.Go(func() {
				_ = loop.Run(ctx, func(ctx context.Context) error {
					runs.Add(1)
					<-ctx.Done()
					return ctx.Err()
				})
			})
		}
		time.Sleep(10 * time.Second)
		require.LessOrEqual(t, runs.Load(), int64(8))
		time.Sleep(20 * time.Second)
		require.Greater(t, runs.Load(), int64(8))
		cancel()
		loops.Wait()
		_, waiting := b.Limit()
		require.Zero(t, waiting, "and leave the line when they end")
	})
}

// An attempt in the line of a HoldOff that is too long for it ends its call.
func TestAReconnectLoopAsksAgainIfItIsHeldOffForTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &pace.HoldOff{MaxWait: 20 * time.Second}
		h.Hold(10 * time.Second)
		for after := 5 * time.Second; after < 40*time.Second; after += 5 * time.Second {
			time.AfterFunc(after, func() { h.Hold(20 * time.Second) })
		}
		began, refusals := time.Now(), 0
		p := backoff.Policy{Budget: h, Observer: func(_ context.Context, e backoff.Event) {
			if e.Kind == backoff.EventRefused {
				refusals++
			}
		}}
		require.ErrorIs(t, backoff.Supervisor{Policy: p, MaxRuns: 1}.Run(t.Context(), func(context.Context) error {
			require.GreaterOrEqual(t, time.Since(began), 55*time.Second)
			return errors.New("closed")
		}), backoff.ErrExhausted)
		require.Positive(t, refusals)
	})
}

// A server asks for 33 s while a hedge waits for its turn.
func TestAHedgeDoesNotGoIntoAHold(t *testing.T) {
	for name, longer := range map[string]bool{"that is made longer": true, "for which it is told to wait": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := new(pace.HoldOff)
				time.AfterFunc(time.Second, func() { h.Hold(6 * time.Second) })
				if longer {
					time.AfterFunc(3*time.Second, func() { h.Hold(33 * time.Second) })
				}
				hedged := &hedge.Hedge{Delay: 2 * time.Second, Budget: h, MaxExtraLoad: -1}
				var mu sync.Mutex
				var went []time.Duration
				began := time.Now()
				_, err := hedge.Value(t.Context(), hedged, func(ctx context.Context) (int, error) {
					mu.Lock()
					went = append(went, time.Since(began))
					mu.Unlock()
					if hedge.Number(ctx) == 0 {
						<-ctx.Done()
					}
					return 0, ctx.Err()
				}, nil)
				require.NoError(t, err)
				require.Len(t, went, 2)
				require.GreaterOrEqual(t, went[1], map[bool]time.Duration{false: 7 * time.Second, true: 36 * time.Second}[longer])
			})
		})
	}
}

// While a service wants to be left alone, nothing is throttled because nothing is
// sent. If others succeed meanwhile, it did not mean them.
func TestAPaceLastsThroughTheRestThatTheServiceAskedFor(t *testing.T) {
	for name, others := range map[string]bool{"nothing is sent": false, "others succeed": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := new(pace.Pacer)
				b.Done(backoff.Ticket{}, backoff.Result{Outcome: backoff.OutcomeThrottled, RetryAfter: 33 * time.Second})
				time.Sleep(2 * time.Second)
				if others {
					ticket, _, ok := b.Reserve(backoff.Attempt{Number: 1, Paced: true})
					require.True(t, ok)
					b.Done(ticket, backoff.Result{})
				}
				for _, at := range []time.Duration{11 * time.Second, 42 * time.Second, 44 * time.Second} {
					time.Sleep(at - time.Duration(time.Now().Second())*time.Second)
					perSecond, _ := b.Limit()
					require.Equal(t, !others && at < 43*time.Second, perSecond < 100, "after %v", at)
				}
			})
		})
	}
}
