package pace_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/hedge"
	"github.com/gobackoff/backoff/internal/clock"
	"github.com/gobackoff/backoff/internal/results"
	"github.com/gobackoff/backoff/pace"
)

var errFlood = errors.New("flood protection")

// begins calls op of a policy, and returns when the first attempt began, after
// now.
func begins(ctx context.Context, b backoff.Budget) (time.Duration, error) {
	at, began := time.Duration(-1), time.Now()
	err := backoff.Policy{Budget: b}.Do(ctx, func(context.Context) error {
		at = time.Since(began)
		return nil
	})
	return at, err
}

func TestACallKeepsItsPlaceWhereItAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &pace.HoldOff{MaxWait: -1}
		h.Hold(time.Minute)
		for range 100 {
			ticket, first, _ := h.Reserve(firstAttempt)
			for range 3 {
				again, wait := askAgain(t, h, ticket)
				require.Equal(t, first, wait)
				require.Equal(t, ticket, again)
			}
		}
	})
}

// One call is told, and all that share the HoldOff wait: one that sleeps already,
// the one that was told, and the next one.
func TestWhatAServerTellsOneCallHoldsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := new(pace.HoldOff)
		began := time.Now()
		var group sync.WaitGroup
		call := func(name string, first error) {
			group.Go(func() {
				failed := false
				policy := backoff.Policy{Budget: h, Schedule: backoff.Constant(3 * time.Second), Jitter: backoff.NoJitter}
				require.NoError(t, policy.Do(t.Context(), func(context.Context) error {
					if first != nil && !failed {
						failed = true
						return first
					}
					require.GreaterOrEqual(t, time.Since(began), 21*time.Second, name)
					require.LessOrEqual(t, time.Since(began), 23*time.Second, name)
					return nil
				}))
			})
			time.Sleep(time.Second)
		}
		call("asleep", errFlood)
		call("told", backoff.RetryAfter(errFlood, 20*time.Second))
		call("next", nil)
		group.Wait()
		time.Sleep(5 * time.Second)
		at, err := begins(t.Context(), h)
		require.NoError(t, err)
		require.Zero(t, at, "it is over")
		require.True(t, h.GrantsFirst())
	})
}

// The spread does not depend on when a call came, or those that come at the end
// of a long wait would go together.
func TestCallsThatWereHeldOffDoNotComeBackTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for asked, spread := range map[time.Duration]time.Duration{
			time.Minute: 6 * time.Second, 100 * time.Millisecond: 100 * time.Millisecond,
		} {
			h := new(pace.HoldOff)
			h.Hold(asked)
			time.Sleep(asked - time.Millisecond)
			var tenths [10]int
			for range 1000 {
				_, wait := reserve(t, h, firstAttempt)
				after := wait - time.Millisecond
				require.GreaterOrEqual(t, after, time.Duration(0))
				require.Less(t, after, spread)
				tenths[after*10/spread]++
			}
			for _, n := range tenths {
				require.InDelta(t, 100, n, 50, "%v", tenths)
			}
		}
	})
}

func TestACallThatWasToldIsNotPutOffTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, calls := time.Now(), 0
		policy := backoff.Policy{Budget: new(pace.HoldOff)}
		require.NoError(t, policy.Do(t.Context(), func(context.Context) error {
			if calls++; calls == 1 {
				return backoff.Pushback(errFlood, 20*time.Second)
			}
			return nil
		}))
		require.Equal(t, 20*time.Second, time.Since(began), "the wait is exact")
	})
}

func TestNonsenseHoldsNobodyOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := new(pace.HoldOff)
		for _, r := range []backoff.Result{
			{}, {Failed: true, Class: backoff.ClassThrottled}, {Failed: true, Class: backoff.ClassThrottled, RetryAfter: -time.Second},
			{Failed: true, Class: backoff.ClassThrottled, RetryAfter: 5*time.Minute + 1},
			{Failed: true, Class: backoff.ClassThrottled, RetryAfter: math.MaxInt64},
			{NotSent: true, RetryAfter: time.Minute},                               // a circuit is open
			{Failed: true, Class: backoff.ClassPermanent, RetryAfter: time.Minute}, // a card was declined
		} {
			h.Done(backoff.Ticket{}, r)
			require.True(t, h.GrantsFirst(), "%+v", r)
		}
		for most, want := range map[time.Duration]bool{time.Second: false, time.Minute: true, -1: true} {
			bounded := &pace.HoldOff{MaxWait: most}
			bounded.Done(backoff.Ticket{}, backoff.Result{Failed: true, RetryAfter: time.Minute})
			require.Equal(t, want, !bounded.GrantsFirst(), "%v", most)
		}
		for _, o := range []string{"success", "failed", "canceled"} {
			r := results.ByName[o]
			r.RetryAfter = time.Minute
			told := new(pace.HoldOff)
			told.Done(backoff.Ticket{}, r)
			require.False(t, told.GrantsFirst(), "whatever became of the call: %v", o)
		}
	})
}

func TestACallThatCannotWaitEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := new(pace.HoldOff)
		h.Hold(time.Minute)
		h.Hold(time.Second) // the latest moment counts
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		_, err := begins(ctx, h)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.EqualError(t, err, "backoff: not started: the Budget makes it wait until after the deadline")
		err = backoff.Policy{Budget: h, MaxElapsed: time.Second}.Do(t.Context(), failing)
		require.ErrorIs(t, err, backoff.ErrExhausted)
		require.Zero(t, time.Since(began))
	})
}

// A server that says "in five minutes" again and again keeps no call for ever.
func TestNoCallIsPutOffForLongerThanMaxWait(t *testing.T) {
	for most, want := range map[time.Duration]time.Duration{0: 5 * time.Minute, time.Minute: time.Minute, -1: 0} {
		synctest.Test(t, func(t *testing.T) {
			h := &pace.HoldOff{MaxWait: most}
			h.Hold(time.Minute)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			go func() {
				for ctx.Err() == nil {
					time.Sleep(30 * time.Second)
					h.Hold(time.Minute)
				}
			}()
			began := time.Now()
			_, err := begins(ctx, h)
			took := time.Since(began)
			cancel()
			time.Sleep(time.Minute)
			if want == 0 {
				require.ErrorIs(t, err, context.DeadlineExceeded)
				return
			}
			require.ErrorIs(t, err, backoff.ErrBudget)
			require.LessOrEqual(t, took, want+want/10)
			require.GreaterOrEqual(t, took, min(want, 4*time.Minute))
		})
	}
}

// The clock is set by an hour while a call is put off. The seconds of the day are in the
// first word of a time.Time, from bit 30 on; what has passed is counted apart from them.
func TestAClockThatIsSetEndsNoCallThatIsPutOff(t *testing.T) {
	set := uint64(0)
	clock.Source = func() time.Time {
		now := time.Now()
		*(*uint64)(unsafe.Pointer(&now)) += set << 30
		return now
	}
	defer func() { clock.Source = nil }()
	h := new(pace.HoldOff)
	h.Hold(time.Second)
	ticket, _, _ := h.Reserve(firstAttempt)
	set = 3600
	h.Hold(2 * time.Second)
	_, wait := askAgain(t, h, ticket)
	require.InDelta(t, 2, wait.Seconds(), .5)
}

// A retry that waits for its own reasons is put off no longer than others.
func TestARetryIsPutOffFromTheEndOfItsOwnWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &pace.HoldOff{MaxWait: time.Minute}
		began, calls := time.Now(), 0
		policy := backoff.Policy{Budget: h, Schedule: backoff.Constant(time.Hour), Jitter: backoff.NoJitter}
		time.AfterFunc(time.Hour-time.Second, func() { h.Hold(time.Minute) })
		require.NoError(t, policy.Do(t.Context(), func(context.Context) error {
			if calls++; calls == 1 {
				return errFlood
			}
			return nil
		}))
		require.GreaterOrEqual(t, time.Since(began), time.Hour+59*time.Second)
		require.LessOrEqual(t, time.Since(began), time.Hour+65*time.Second)
	})
}

func TestConnectionsHearWhatTheServerToldOneOfThem(t *testing.T) {
	for _, ready := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h := new(pace.HoldOff)
			loop := backoff.Supervisor{Policy: backoff.Policy{Budget: h}, MaxRuns: 1}
			require.ErrorIs(t, loop.RunReady(t.Context(), func(_ context.Context, tell func()) error {
				if ready {
					tell()
				}
				time.Sleep(time.Second)
				return backoff.RetryAfter(errFlood, time.Minute)
			}), errFlood)
			at, err := begins(t.Context(), h)
			require.NoError(t, err)
			require.GreaterOrEqual(t, at, time.Minute, "ready: %v", ready)
		})
	}
}

func TestHedgedCallsHearAndAreHeldOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hedged := &hedge.Hedge{Delay: time.Hour, MaxAttempts: 1, Budget: new(pace.HoldOff)}
		call := func() (at time.Duration) {
			began := time.Now()
			_, _ = hedge.Value(t.Context(), hedged, func(context.Context) (int, error) {
				at = time.Since(began)
				return 0, backoff.RetryAfter(errFlood, time.Minute)
			}, nil)
			return at
		}
		require.Zero(t, call())
		require.GreaterOrEqual(t, call(), time.Minute)
	})
}

func TestAHoldOffOfNilIsInvalid(t *testing.T) {
	var h *pace.HoldOff
	require.EqualError(t, backoff.Policy{Budget: h}.Do(t.Context(), failing), "backoff: Policy.Budget holds a nil pointer")
	require.False(t, h.GrantsFirst())
}

func TestAHoldOffIsSafeForConcurrentUse(t *testing.T) {
	h := &pace.HoldOff{MaxWait: -1}
	began := time.Now()
	together(8, func(n int) {
		for i := range 2000 {
			ticket, wait := reserve(t, h, firstAttempt)
			require.GreaterOrEqual(t, wait, time.Duration(0))
			h.Pace(ticket)
			h.GrantsFirst()
			h.Done(ticket, backoff.Result{Failed: true, Class: backoff.ClassThrottled, RetryAfter: time.Duration(n*2000+i) * time.Second})
		}
	})
	_, wait, _ := h.Reserve(firstAttempt)
	require.GreaterOrEqual(t, wait, 15_999*time.Second-time.Since(began), "the longest of all counts")
}

// BenchmarkHoldOffSuccess is what a success costs while nothing is held.
func BenchmarkHoldOffSuccess(b *testing.B) {
	b.ReportAllocs()
	policy := backoff.Policy{Budget: new(pace.HoldOff)}
	for b.Loop() {
		_ = policy.Do(b.Context(), func(context.Context) error { return nil })
	}
}

// An API tells one of its callers to leave it alone for a while. Both policies
// of the client obey.
func ExampleHoldOff() {
	var flood pace.HoldOff
	read := backoff.Policy{Name: "read", Budget: &flood}
	write := backoff.Policy{Name: "write", Budget: backoff.JoinBudgets(&flood, new(backoff.RetryBudget))}

	began, calls := time.Now(), 0
	err := write.Do(context.Background(), func(context.Context) error {
		if calls++; calls == 1 {
			return backoff.RetryAfter(errors.New("flood protection"), 20*time.Millisecond)
		}
		return nil
	})
	fmt.Println(err, time.Since(began) >= 20*time.Millisecond)

	err = read.Do(context.Background(), func(context.Context) error {
		flood.Hold(30 * time.Millisecond) // an answer that is no failure says so, too
		return nil
	})
	began = time.Now()
	fmt.Println(err, read.Do(context.Background(), func(context.Context) error { return nil }), time.Since(began) >= 30*time.Millisecond)
	// Output:
	// <nil> true
	// <nil> <nil> true
}

// Loops that reconnect are as much of a herd as calls are.
func TestReconnectLoopsGoAtThePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(pace.Pacer)
		b.Done(backoff.Ticket{}, backoff.Result{Failed: true, Class: backoff.ClassThrottled})
		require.InDelta(t, 0.75, rateOf(b), 0.01)

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
		require.Zero(t, waitingIn(b), "and leave the line when they end")
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
		bubble(t, name, func(t *testing.T) {
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
	}
}

// While a service wants to be left alone, nothing is throttled because nothing is
// sent. If others succeed meanwhile, it did not mean them.
func TestAPaceLastsThroughTheRestThatTheServiceAskedFor(t *testing.T) {
	for name, others := range map[string]bool{"nothing is sent": false, "others succeed": true, "it asked for less than nothing": true} {
		bubble(t, name, func(t *testing.T) {
			b, asked := new(pace.Pacer), 33*time.Second
			if name == "it asked for less than nothing" {
				asked = -1
			}
			b.Done(backoff.Ticket{}, backoff.Result{Failed: true, Class: backoff.ClassThrottled, RetryAfter: asked})
			time.Sleep(2 * time.Second)
			if others && asked > 0 {
				ticket, _ := reserve(t, b, backoff.Attempt{Number: 1, Paced: true})
				b.Done(ticket, backoff.Result{})
			}
			for _, at := range []time.Duration{11 * time.Second, 42 * time.Second, 44 * time.Second} {
				time.Sleep(at - time.Duration(time.Now().Second())*time.Second)
				require.Equal(t, !others && at < 43*time.Second, rateOf(b) < 100, "after %v", at)
			}
		})
	}
}
