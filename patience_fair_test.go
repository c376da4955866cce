package backoff_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

var errTooMany = backoff.OfClass(errors.New("too many requests"), backoff.ClassThrottled)

// doWithin is p.Do under a context that ends after limit.
func doWithin(t *testing.T, p backoff.Doer, limit time.Duration, op func(context.Context) error) error {
	return within(t, limit, func(ctx context.Context) error { return p.Do(ctx, op) })
}

// How long a call may take is not known from one call.
func TestOneSlowCallDoesNotKeepCallsWithLessTimeFromTrying(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(backoff.Patience)
		breakDown(t, p)
		require.NoError(t, p.Do(t.Context(), func(context.Context) error { // the probe
			time.Sleep(40 * time.Second)
			return nil
		}))
		breakDown(t, p) // and the service is back at once
		for range 100 {
			require.NoError(t, doWithin(t, p, time.Minute, func(context.Context) error { return nil }))
			time.Sleep(time.Second)
		}
	})
}

// A call that was refused once for want of room is soon let go, whatever a slow
// call took.
func TestOneSlowCallDoesNotEndCallsThatWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(backoff.Patience)
		afterARefusal := func(takes time.Duration) func(context.Context) error {
			refused := false
			return func(context.Context) error {
				if !refused {
					refused = true
					return backoff.ErrBudget
				}
				time.Sleep(takes)
				return nil
			}
		}
		require.NoError(t, p.Do(t.Context(), afterARefusal(40*time.Second)))
		served := 0
		for range 100 {
			if doWithin(t, p, time.Minute, afterARefusal(0)) == nil {
				served++
			}
			time.Sleep(time.Second)
		}
		require.Greater(t, served, 90)
	})
}

// The probe must have time for an answer. The newest call may have none.
func TestAProbeIsACallThatHasTime(t *testing.T) {
	for _, limit := range []time.Duration{time.Hour, 4 * time.Second} {
		testProbesHaveTime(t, limit)
	}
}

// testProbesHaveTime makes calls that have limit beside others that have too
// little time.
func testProbesHaveTime(t *testing.T, limit time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		p := new(backoff.Patience)
		var up atomic.Bool
		op := func(ctx context.Context) error {
			if !up.Load() {
				return syscall.ECONNREFUSED
			}
			select {
			case <-time.After(300 * time.Millisecond):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		var calls sync.WaitGroup
		var served atomic.Int64
		for i := range 3000 { // in a minute
			calls.Go(func() { _ = doWithin(t, p, 200*time.Millisecond, op) })
			if i%100 == 0 {
				calls.Go(func() {
					if doWithin(t, p, limit, op) == nil {
						served.Add(1)
					}
				})
			}
			if i == 50 {
				up.Store(true)
			}
			time.Sleep(20 * time.Millisecond)
		}
		calls.Wait()
		require.GreaterOrEqual(t, served.Load(), int64(25), "of 30")
	})
}

// comingBack is a service that is down until it is up, and counts the calls that it
// serves now.
type comingBack struct {
	up    atomic.Bool
	takes time.Duration
	now   atomic.Int64
}

func (s *comingBack) call(context.Context) error {
	if !s.up.Load() {
		return syscall.ECONNREFUSED
	}
	s.now.Add(1)
	time.Sleep(s.takes)
	s.now.Add(-1)
	return nil
}

// A connection that is cut off does not answer for minutes.
func TestCallsThatHangFromAnOutageDoNotSlowTheOthersAfterIt(t *testing.T) {
	for _, asleep := range []int{0, 60} { // calls whose policies sleep between two attempts
		synctest.Test(t, func(t *testing.T) {
			p := new(backoff.Patience)
			service := &comingBack{takes: 5 * time.Millisecond}
			slow := backoff.Stack(p, &backoff.Policy{MaxAttempts: 6, Schedule: backoff.Constant(2 * time.Second)})
			quick := backoff.Stack(p, &backoff.Policy{MaxAttempts: 1})
			var calls, old sync.WaitGroup
			service.up.Store(true)
			for range 2000 {
				calls.Go(func() { _ = quick.Do(t.Context(), service.call) })
				time.Sleep(time.Millisecond)
			}
			calls.Wait()
			service.up.Store(false)
			cut := make(chan struct{})
			for range 40 {
				old.Go(func() { _ = slow.Do(t.Context(), func(context.Context) error { <-cut; return nil }) })
			}
			for range asleep {
				old.Go(func() { _ = slow.Do(t.Context(), service.call) })
			}
			synctest.Wait()
			for range 500 {
				calls.Go(func() { _ = quick.Do(t.Context(), service.call) })
			}
			time.Sleep(time.Second)
			service.up.Store(true)
			began := time.Now()
			calls.Wait()
			require.Less(t, time.Since(began), 10*time.Second)
			close(cut)
			old.Wait()
		})
	}
}

// A loop that goes to sleep gives back the place that it took, and no other.
func TestLoopsThatGoToSleepLetNoStampedeGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(backoff.Patience)
		service := &comingBack{takes: time.Second}
		loop := &backoff.Policy{MaxAttempts: 2, Schedule: backoff.Constant(10 * time.Second)}
		cut := make(chan struct{})
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() {
				attempts := 0
				_ = p.Do(t.Context(), func(ctx context.Context) error {
					return loop.Do(ctx, func(context.Context) error {
						if attempts++; attempts > 1 {
							return nil
						}
						<-cut
						return errDown
					})
				})
			})
		}
		synctest.Wait()
		for range 100 {
			all.Go(func() { _ = p.Do(t.Context(), service.call) })
		}
		time.Sleep(2 * time.Second)
		service.up.Store(true)
		for service.now.Load() == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(1100 * time.Millisecond) // the first ones were served
		before := service.now.Load()
		close(cut)
		time.Sleep(10 * time.Millisecond)
		require.Less(t, service.now.Load(), before+10)
		all.Wait()
	})
}

// A response that throttles may be about one caller.
func TestAThrottledCallerDoesNotKeepTheOthersWaitingAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := backoff.Stack(new(backoff.Patience), &backoff.Policy{MaxAttempts: 1})
		ctx, stop := context.WithCancel(t.Context())
		var down atomic.Bool
		var worst, throttled atomic.Int64
		var all sync.WaitGroup
		client := func(answer error, every, has time.Duration) {
			call := func() {
				ctx, cancel := context.WithTimeout(ctx, has)
				defer cancel()
				began := time.Now()
				_ = service.Do(ctx, func(context.Context) error {
					time.Sleep(5 * time.Millisecond)
					if down.Load() {
						return syscall.ECONNREFUSED
					}
					if answer != nil {
						throttled.Add(1)
					}
					return answer
				})
				if answer == nil {
					worst.Store(max(worst.Load(), int64(time.Since(began))))
				}
			}
			all.Go(func() {
				for ; ctx.Err() == nil; time.Sleep(every) {
					all.Go(call)
				}
			})
		}
		client(nil, 100*time.Millisecond, 2*time.Minute)
		client(errTooMany, 20*time.Millisecond, time.Minute)
		time.Sleep(30 * time.Second)
		down.Store(true)
		time.Sleep(20 * time.Second)
		down.Store(false)
		time.Sleep(2 * time.Minute)
		worst.Store(0)
		throttled.Store(0)
		time.Sleep(time.Minute)
		require.Less(t, time.Duration(worst.Load()), 5*time.Second)
		require.Less(t, throttled.Load(), int64(60*50*10), "a call is throttled once, and some ten times more in its minute")
		stop()
		all.Wait()
	})
}

// A gateway may throttle one caller while the service behind it is down.
func TestAThrottledCallerDoesNotEndTheJobsOfOthersInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := backoff.Stack(new(backoff.Patience), &backoff.Policy{MaxAttempts: 1})
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		var failed atomic.Int64
		for range 20 {
			all.Go(func() {
				_ = service.Do(ctx, func(context.Context) error {
					time.Sleep(5 * time.Millisecond)
					failed.Add(1)
					return backoff.OfClass(errDown, backoff.ClassRetryable)
				})
				require.Error(t, ctx.Err(), "it was given up")
			})
		}
		time.Sleep(10 * time.Second)
		failed.Store(0)
		for range 6000 { // in ten minutes
			all.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
				defer cancel()
				_ = service.Do(ctx, func(context.Context) error {
					time.Sleep(5 * time.Millisecond)
					return errTooMany
				})
			})
			time.Sleep(100 * time.Millisecond)
		}
		require.Less(t, failed.Load(), int64(600))
		stop()
		all.Wait()
	})
}

// A service that is back may be full: it throttles, and nobody is served yet.
func TestAServiceThatThrottlesEverybodyAfterAnOutageIsNotFlooded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := backoff.Stack(new(backoff.Patience), &backoff.Policy{MaxAttempts: 1})
		var answer atomic.Pointer[error]
		set := func(err error) { answer.Store(&err) }
		set(syscall.ECONNREFUSED)
		var all sync.WaitGroup
		var sent, served atomic.Int64
		for range 2000 {
			all.Go(func() {
				if service.Do(t.Context(), func(context.Context) error {
					time.Sleep(5 * time.Millisecond)
					sent.Add(1)
					return *answer.Load()
				}) == nil {
					served.Add(1)
				}
			})
		}
		time.Sleep(20 * time.Second)
		set(errTooMany)
		time.Sleep(30 * time.Second)
		sent.Store(0)
		time.Sleep(time.Minute)
		require.Less(t, sent.Load(), int64(60))
		set(nil)
		time.Sleep(30 * time.Second)
		require.Equal(t, int64(2000), served.Load())
		all.Wait()
	})
}

func TestACallThatWasThrottledOnceIsNotKeptByCallsThatAreSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(backoff.Patience)
		ctx, stop := context.WithCancel(t.Context())
		var all, calls sync.WaitGroup
		all.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
				_ = p.Do(ctx, func(context.Context) error { time.Sleep(5 * time.Millisecond); return nil })
			}
		})
		time.Sleep(5 * time.Minute)
		for range 20 {
			all.Go(func() { _ = p.Do(ctx, func(context.Context) error { time.Sleep(2 * time.Minute); return nil }) })
		}
		time.Sleep(time.Second)
		for range 10 {
			calls.Go(func() {
				throttled := false
				require.NoError(t, doWithin(t, p, 30*time.Second, func(context.Context) error {
					if !throttled {
						throttled = true
						return errTooMany
					}
					return nil
				}))
			})
		}
		calls.Wait()
		stop()
		all.Wait()
	})
}

// The key of a step is not that of the call.
func TestAPatientCallKeepsItsOwnKey(t *testing.T) {
	for _, ofStep := range []func(context.Context) context.Context{
		func(ctx context.Context) context.Context { return backoff.WithIdempotencyKey(ctx, "step") },
		func(context.Context) context.Context { return context.Background() },
	} {
		for _, idempotency := range []backoff.Idempotency{backoff.Keyed, backoff.Idempotent} {
			synctest.Test(t, func(t *testing.T) {
				p, step := new(backoff.Patience), &backoff.Policy{MaxAttempts: 1, Idempotency: idempotency}
				var keys []string
				ctx := backoff.WithIdempotencyKey(t.Context(), "call")
				require.NoError(t, p.Do(ctx, func(ctx context.Context) error {
					keys = append(keys, backoff.IdempotencyKey(ctx))
					return step.Do(ofStep(ctx), func(context.Context) error {
						if len(keys) < 3 {
							return syscall.ECONNREFUSED
						}
						return nil
					})
				}))
				require.Equal(t, []string{"call", "call", "call"}, keys)
			})
		}
	}
}

// madeElsewhere is the Idempotency of a call whose key somebody else has made.
type madeElsewhere struct{ backoff.Idempotency }

func (madeElsewhere) MadeKey() string { return "made" }

func TestAPatientCallKeepsTheKeyThatWasMadeElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := &backoff.Policy{MaxAttempts: 2, Idempotency: madeElsewhere{backoff.Idempotent}}
		var keys []string
		require.NoError(t, new(backoff.Patience).Do(t.Context(), func(ctx context.Context) error {
			keys = append(keys, backoff.IdempotencyKey(ctx))
			return policy.Do(ctx, func(context.Context) error {
				if len(keys) < 3 {
					return syscall.ECONNREFUSED
				}
				return nil
			})
		}))
		require.Equal(t, []string{"", "made", "made"}, keys)
	})
}

// carelessError panics when it is asked.
type carelessError struct{}

func (carelessError) Error() string             { return "careless" }
func (carelessError) RetryAfter() time.Duration { panic("careless") }

func TestACallWhoseErrorPanicsHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(backoff.Patience)
		for range 3 {
			time.Sleep(time.Second)
			require.Panics(t, func() { _ = p.Do(t.Context(), func(context.Context) error { return carelessError{} }) })
		}
		began := time.Now()
		require.NoError(t, p.Do(t.Context(), func(context.Context) error { return nil }))
		require.Positive(t, time.Since(began), "the service was taken for down, and the call for a probe")
	})
}
