package guard_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/limit"
)

func TestWhileTheCircuitIsOpenOneProbeGoesAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := under(opensFor(10 * time.Second))
		o := newOutage(time.Minute, syscall.ECONNREFUSED)
		require.Error(t, s.Do(t.Context(), once, o.call))
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { require.NoError(t, doWithin(t, s.With(atOnce), 2*time.Minute, o.call)) })
		}
		all.Wait()
		require.Equal(t, msec(0, 10_000, 20_000), o.at[:3], "as the circuit says")
		for i, at := range o.at[3 : len(o.at)-99] {
			require.GreaterOrEqual(t, at-o.at[2+i], 10*time.Second, "probe %d", i)
		}
		require.Less(t, o.at[len(o.at)-100], 100*time.Second, "its probe succeeds, and so do all others")
	})
}

// No breaker says when. A probe goes when an eighth as much time has passed as before it.
func TestWithoutACircuitCallsThatFailedProbeMoreAndMoreSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(time.Minute, syscall.ECONNREFUSED)
		require.NoError(t, doWithin(t, under(nil).With(atOnce), 2*time.Minute, o.call))
		probes := o.at[4:]
		for i, at := range probes {
			before := o.at[3+i]
			gap := min(max(500*time.Millisecond, before/8), 30*time.Second)
			require.InDelta(t, gap, at-before, 0.2*float64(gap)+1, "probe %d", i)
		}
		require.InDelta(t, 31, len(probes), 6)
	})
}

// The usual number in flight is 2, as 20 calls a second take 100 ms each.
func TestAfterAnOutageCallsFollowByTheNumberInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &guard.Service{Budget: new(backoff.RetryBudget)}
		service := &comingBack{takes: 100 * time.Millisecond}
		service.up.Store(true)
		var served atomic.Int64
		var all sync.WaitGroup
		calls := func(n int, every time.Duration) {
			for range n {
				all.Go(func() {
					require.NoError(t, doWithin(t, s.With(backoff.Policy{}), time.Minute, service.call))
					served.Add(1)
				})
				time.Sleep(every)
			}
		}
		calls(400, 50*time.Millisecond)
		all.Wait()
		service.up.Store(false)
		calls(200, 50*time.Millisecond)
		service.most.Store(0)
		service.up.Store(true)
		served.Store(0)
		calls(20, 50*time.Millisecond) // new calls stand behind
		all.Wait()
		require.Equal(t, int64(220), served.Load())
		require.LessOrEqual(t, service.most.Load(), int64(6))
		require.GreaterOrEqual(t, service.most.Load(), int64(2))
	})
}

// comingBack is a service that is down until it is up, and counts the calls that it
// serves now.
type comingBack struct {
	up        atomic.Bool
	takes     time.Duration
	now, most atomic.Int64
}

func (s *comingBack) call(ctx context.Context) error {
	if !s.up.Load() {
		return syscall.ECONNREFUSED
	}
	n := s.now.Add(1)
	defer s.now.Add(-1)
	for was := s.most.Load(); n > was && !s.most.CompareAndSwap(was, n); was = s.most.Load() {
	}
	select {
	case <-time.After(s.takes):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestCallsThatMatterMoreGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := tripped(time.Second)
		var all sync.WaitGroup
		var mu sync.Mutex
		var order []backoff.Priority
		for _, p := range []backoff.Priority{backoff.PriorityBackground, backoff.PriorityNormal, backoff.PriorityHigh, backoff.PriorityBackground, backoff.PriorityHigh} {
			all.Go(func() {
				require.NoError(t, s.Do(backoff.WithPriority(t.Context(), p), once, func(context.Context) error {
					mu.Lock()
					order = append(order, p)
					mu.Unlock()
					return nil
				}))
			})
			synctest.Wait()
		}
		all.Wait()
		require.Equal(t, []backoff.Priority{backoff.PriorityHigh, backoff.PriorityHigh, backoff.PriorityNormal, backoff.PriorityBackground, backoff.PriorityBackground}, order)
	})
}

// The place of a probe that ends in no usual way is not lost.
func TestAnotherProbeFollowsOneThatPanicsExitsOrHangs(t *testing.T) {
	for name, op := range map[string]func(context.Context) error{
		"panic":  func(context.Context) error { panic("bug") },
		"Goexit": func(context.Context) error { runtime.Goexit(); return nil },
		"hang":   func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"cancel": func(ctx context.Context) error { return context.Canceled },
	} {
		bubble(t, name, func(t *testing.T) {
			_, s := tripped(time.Second)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			began := time.Now()
			var all sync.WaitGroup
			all.Go(func() { require.NoError(t, s.Do(t.Context(), once, okay)) })
			synctest.Wait()
			var went atomic.Bool
			go func() { // the newest call is the probe
				defer func() { _ = recover() }()
				_ = s.Do(ctx, once, func(ctx context.Context) error { went.Store(true); return op(ctx) })
			}()
			all.Wait()
			require.True(t, went.Load())
			require.Less(t, time.Since(began), 3*time.Second)
		})
	}
}

// A call that failed as a probe is not the next one again.
func TestOneBadCallDoesNotKeepTheServiceFromTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := tripped(time.Second)
		began := time.Now()
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { require.NoError(t, doWithin(t, s.With(atOnce), time.Minute, okay)) })
		}
		synctest.Wait()
		for range 3 {
			go func() {
				_ = doWithin(t, s.With(backoff.Policy{MaxAttempts: -1}), time.Hour, boom)
			}()
		}
		all.Wait()
		require.Less(t, time.Since(began), 10*time.Second)
	})
}

// A bulkhead is no outage: others pass, and each call that ends makes room.
func TestACallThatABulkheadRefusesWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &guard.Service{Budget: &limit.Concurrency{Max: 10}}
		began := time.Now()
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() {
				require.NoError(t, s.Do(t.Context(), once, func(context.Context) error { time.Sleep(100 * time.Millisecond); return nil }))
			})
		}
		all.Wait()
		require.LessOrEqual(t, time.Since(began), 4*time.Second, "2 s if all ten places are always taken")
	})
}

func TestACallObeysTheWaitThatItsServerAskedFor(t *testing.T) {
	policy := backoff.Policy{MaxAttempts: 2, MaxRetryAfter: time.Second}
	synctest.Test(t, func(t *testing.T) {
		s, began, n := under(opensFor(time.Second)), time.Now(), 0
		require.Error(t, s.Do(t.Context(), once, func(context.Context) error { return backoff.RetryAfter(errBoom, 20*time.Second) }))
		require.NoError(t, doWithin(t, s.With(policy), time.Minute, func(context.Context) error { n++; return nil }))
		require.GreaterOrEqual(t, time.Since(began), 20*time.Second)
		require.Equal(t, 1, n)

		err := doWithin(t, under(nil).With(atOnce), time.Second, func(context.Context) error { return backoff.RetryAfter(errBoom, 5*time.Second) })
		require.ErrorIs(t, err, errBoom)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

var (
	errTooMany = backoff.OfClass(errors.New("too many requests"), backoff.ClassThrottled)
	quota      = func(context.Context) error { return backoff.RetryAfter(errTooMany, time.Hour) }
)

// Others may still have theirs.
func TestAQuotaThatIsUsedUpHoldsNoOtherCall(t *testing.T) {
	for name, s := range map[string]*guard.Service{"with a breaker": under(new(backoff.Breaker)), "without": under(nil)} {
		bubble(t, name, func(t *testing.T) {
			for range 10 {
				require.Error(t, doWithin(t, s.With(atOnce), time.Minute, quota))
				time.Sleep(time.Second)
			}
			began := time.Now()
			require.NoError(t, doWithin(t, s.With(once), time.Minute, okay))
			require.Zero(t, time.Since(began))
		})
	}
}

// How long a call may take is not known from one call.
func TestOneSlowCallDoesNotKeepCallsWithLessTimeFromTrying(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, service := tripped(time.Second)
		s := service.With(once)
		require.NoError(t, doWithin(t, s, time.Hour, func(context.Context) error { time.Sleep(40 * time.Second); return nil }))
		for range 100 {
			b.Trip()
			require.NoError(t, doWithin(t, s, time.Minute, okay))
		}
	})
}

// The probe must have time for an answer. The newest call may have none.
func TestAProbeIsACallThatHasTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := tripped(time.Second)
		var first time.Duration
		var all sync.WaitGroup
		for _, limit := range []time.Duration{8 * time.Second, 10 * time.Second, 4 * time.Second, 3 * time.Second} {
			all.Go(func() {
				require.NoError(t, doWithin(t, s.With(once), limit, func(context.Context) error {
					if first == 0 {
						first = limit
					}
					return nil
				}))
			})
			synctest.Wait()
		}
		all.Wait()
		require.Equal(t, 10*time.Second, first, "the newest one with time")
	})
}

// A connection that is cut off does not answer for minutes.
func TestCallsThatHangFromAnOutageDoNotSlowTheOthersAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &guard.Service{Budget: new(backoff.RetryBudget)}
		service := &comingBack{takes: 5 * time.Millisecond}
		service.up.Store(true)
		var calls, old sync.WaitGroup
		for range 2000 {
			calls.Go(func() { _ = s.Do(t.Context(), once, service.call) })
			time.Sleep(time.Millisecond)
		}
		calls.Wait()
		service.up.Store(false)
		cut := make(chan struct{})
		for range 40 {
			old.Go(func() { _ = s.Do(t.Context(), once, func(context.Context) error { <-cut; return nil }) })
		}
		for range 500 {
			calls.Go(func() { require.NoError(t, doWithin(t, s.With(atOnce), time.Minute, service.call)) })
			time.Sleep(4 * time.Millisecond)
		}
		service.up.Store(true)
		began := time.Now()
		calls.Wait()
		require.Less(t, time.Since(began), 10*time.Second)
		close(cut)
		old.Wait()
	})
}

// A call inside a call does not wait while the one around it has its turn.
func TestCallsOfAServiceNest(t *testing.T) {
	for name, same := range map[string]bool{"another": false, "the same": true} {
		bubble(t, name, func(t *testing.T) {
			outer := under(nil)
			inner := outer
			if !same {
				inner = under(nil)
			}
			o := newOutage(20*time.Second, errDown)
			var all sync.WaitGroup
			for range 30 {
				all.Go(func() {
					require.NoError(t, doWithin(t, outer.With(atOnce), time.Minute, func(ctx context.Context) error {
						return inner.Do(ctx, atOnce, o.call)
					}))
				})
			}
			all.Wait()
			require.Less(t, time.Since(o.began), 60*time.Second)
		})
	}
}

// carelessError panics when it is asked.
type carelessError struct{}

func (carelessError) Error() string             { return "careless" }
func (carelessError) RetryAfter() time.Duration { panic("careless") }

func TestACallWhoseErrorPanicsGivesItsTurnBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := opensFor(time.Second)
		s := under(b).With(once)
		for range 3 {
			b.Trip()
			require.Panics(t, func() { _ = s.Do(t.Context(), func(context.Context) error { return carelessError{} }) })
		}
		require.NoError(t, s.Do(t.Context(), okay))
	})
}

func TestACallInsideOneThatHasItsTurnIsNotKeptBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s := tripped(time.Second)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				require.NoError(t, s.Do(t.Context(), once, func(ctx context.Context) error {
					if b.State() != backoff.BreakerClosed {
						return nil
					}
					began := time.Now()
					defer func() { require.Zero(t, time.Since(began)) }()
					return s.Do(ctx, once, okay)
				}))
			})
		}
		all.Wait()
	})
}

// A bulkhead that lets those go first who have waited longest would serve nobody: each
// would have a moment left.
func TestACallThatWaitedForRoomGoesOnlyWithTimeForAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := new(guard.Service).With(backoff.Policy{Budget: &limit.Concurrency{Max: 2}})
		var served atomic.Int64
		var all sync.WaitGroup
		for range 2000 { // 200 calls a second, of which the service can serve 100
			time.Sleep(5 * time.Millisecond)
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if client.Do(ctx, func(ctx context.Context) error { time.Sleep(20 * time.Millisecond); return ctx.Err() }) == nil {
					served.Add(1)
				}
			})
		}
		all.Wait()
		require.Greater(t, served.Load(), int64(900))
	})
}

// A token source may call the same service as the call that needs the token. All places
// are then held by calls that wait for another one.
func TestACallInsideAnotherNeedsNoRoomOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := guard.Service{Budget: &limit.Concurrency{Max: 2}}
		began := time.Now()
		var all sync.WaitGroup
		var inner atomic.Int32
		for range 2 {
			all.Go(func() {
				require.NoError(t, s.Do(deadline(t.Context(), time.Hour), once, func(ctx context.Context) error {
					time.Sleep(time.Second) // both hold a place
					return s.Do(ctx, once, func(context.Context) error { inner.Add(1); return nil })
				}))
			})
		}
		all.Wait()
		require.EqualValues(t, 2, inner.Load())
		require.Equal(t, time.Second, time.Since(began))
		require.Zero(t, s.Budget.(*limit.Concurrency).Load())

		var other guard.Service
		require.ErrorIs(t, s.Do(t.Context(), once, func(ctx context.Context) error {
			return other.Do(ctx, once, func(ctx context.Context) error { return s.Do(ctx, once, boom) })
		}), errBoom, "a failure is returned")
	})
}
