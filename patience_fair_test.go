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
		var jobs, calls sync.WaitGroup
		var served atomic.Int64
		for range 20 {
			jobs.Go(func() {
				if doWithin(t, p, time.Hour, op) == nil {
					served.Add(1)
				}
			})
		}
		time.Sleep(time.Second)
		up.Store(true)
		for range 3000 { // for a minute
			calls.Go(func() { _ = doWithin(t, p, 200*time.Millisecond, op) })
			time.Sleep(20 * time.Millisecond)
		}
		require.Equal(t, int64(20), served.Load())
		jobs.Wait()
		calls.Wait()
	})
}

// A connection that is cut off does not answer for minutes.
func TestCallsThatHangFromAnOutageDoNotSlowTheOthersAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(backoff.Patience)
		var calls, hanging sync.WaitGroup
		serve := func(context.Context) error { time.Sleep(5 * time.Millisecond); return nil }
		for range 2000 {
			calls.Go(func() { _ = p.Do(t.Context(), serve) })
			time.Sleep(time.Millisecond)
		}
		calls.Wait()
		cut := make(chan struct{})
		for range 40 {
			hanging.Go(func() { _ = p.Do(t.Context(), func(context.Context) error { <-cut; return nil }) })
		}
		synctest.Wait()
		var up atomic.Bool
		for range 500 {
			calls.Go(func() {
				_ = p.Do(t.Context(), func(ctx context.Context) error {
					if !up.Load() {
						return syscall.ECONNREFUSED
					}
					return serve(ctx)
				})
			})
		}
		time.Sleep(time.Second)
		up.Store(true)
		began := time.Now()
		calls.Wait()
		require.Less(t, time.Since(began), 5*time.Second)
		close(cut)
		hanging.Wait()
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
		client(backoff.WithClass(errors.New("too many requests"), backoff.ClassThrottled), 20*time.Millisecond, time.Minute)
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

// A hedge makes its own key.
func TestAPatientCallKeepsTheKeyOfItsHedge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, h := new(backoff.Patience), &backoff.Hedge{Idempotency: backoff.Keyed, Delay: time.Second}
		keys := map[string]int{}
		require.NoError(t, p.Do(t.Context(), func(ctx context.Context) error {
			_, err := backoff.HedgeValue(ctx, h, func(ctx context.Context) (int, error) {
				keys[backoff.IdempotencyKey(ctx)]++
				if len(keys) == 1 && keys[backoff.IdempotencyKey(ctx)] <= 3 {
					return 0, backoff.WithClass(errors.New("reset"), backoff.ClassRetryable)
				}
				return 0, nil
			}, nil)
			return err
		}))
		require.Len(t, keys, 1)
	})
}

// ifNotSent allows to send again what was not sent.
type ifNotSent struct{}

func (ifNotSent) Repeatable(_ context.Context, c backoff.Class) bool {
	return c == backoff.ClassNotSent
}

func TestNoHedgeRunsBesideAnAttemptThatMayHaveBeenSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &backoff.Hedge{Idempotency: ifNotSent{}, Delay: time.Second, MaxAttempts: 3, MaxExtraLoad: -1}
		attempts := 0
		_, err := backoff.HedgeValue(t.Context(), h, func(context.Context) (int, error) {
			if attempts++; attempts == 1 {
				return 0, syscall.ECONNREFUSED
			}
			time.Sleep(time.Minute)
			return 0, nil
		}, nil)
		require.NoError(t, err)
		require.Equal(t, 2, attempts)
	})
}

func TestAPatientCallDoesNotRepeatWhatItsHedgeMustNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, h := new(backoff.Patience), &backoff.Hedge{Idempotency: ifNotSent{}, Delay: time.Second}
		attempts := 0
		require.Error(t, p.Do(t.Context(), func(ctx context.Context) error {
			_, err := backoff.HedgeValue(ctx, h, func(ctx context.Context) (int, error) {
				if attempts++; attempts == 1 {
					return 0, syscall.ECONNREFUSED
				}
				return 0, backoff.WithClass(errors.New("reset"), backoff.ClassRetryable)
			}, nil)
			return err
		}))
		require.Equal(t, 2, attempts)
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
