package guard_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/limit"
)

// A call fails, and finds the only place taken when it is to be made again. Meanwhile another call
// was answered.
func TestARetryWaitsForRoomAsAFirstAttemptDoes(t *testing.T) {
	for name, most := range map[string]int{"as often as it likes": -1, "by default": 0, "twice": 2} {
		synctest.Test(t, func(t *testing.T) {
			s := &guard.Service{Budget: &limit.Concurrency{Max: 1}}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			p := backoff.Policy{MaxAttempts: most, Schedule: backoff.Constant(20 * time.Millisecond), Jitter: backoff.NoJitter}
			take := func(d time.Duration) {
				_ = s.Do(ctx, p, func(context.Context) error { time.Sleep(d); return nil })
			}
			go func() {
				time.Sleep(11 * time.Millisecond)
				take(5 * time.Millisecond)  // between the attempts of the call below
				take(50 * time.Millisecond) // has the place when it is to be made again
			}()
			began, n := time.Now(), 0
			err := s.Do(ctx, p, func(context.Context) error {
				time.Sleep(10 * time.Millisecond)
				if n++; n == 1 {
					return errors.New("busy")
				}
				return nil
			})
			require.NoError(t, err, name)
			require.Equal(t, 76*time.Millisecond, time.Since(began), name)
		})
	}
}

// What a policy allows is not more because its retries wait for room.
func TestACallThatAlwaysFailsHasItsAttemptsAlsoIfItWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &guard.Service{NoBreaker: true, Budget: &limit.Concurrency{Max: 3}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var others sync.WaitGroup
		for range 6 {
			others.Go(func() {
				for range 1000 {
					_ = s.Do(ctx, backoff.Policy{}, func(context.Context) error { time.Sleep(10 * time.Millisecond); return nil })
				}
			})
		}
		time.Sleep(time.Second)
		n := 0
		err := s.Do(ctx, backoff.Policy{}, func(context.Context) error {
			n++
			time.Sleep(10 * time.Millisecond)
			return errors.New("busy")
		})
		require.ErrorIs(t, err, backoff.ErrExhausted)
		require.LessOrEqual(t, n, 20, "4, and some while it seems to be down")
		others.Wait()
	})
}

// Twenty callers keep a place busy nearly all the time, and none of them is overtaken for long.
func TestNoCallWaitsLongForRoomWhileOthersPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &guard.Service{Budget: &limit.Concurrency{Max: 1}}
		var longest time.Duration
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 3 * time.Millisecond)
				for range 200 {
					began := time.Now()
					err := s.Do(t.Context(), backoff.Policy{}, func(context.Context) error { time.Sleep(10 * time.Millisecond); return nil })
					took := time.Since(began)
					mu.Lock()
					longest = max(longest, took)
					mu.Unlock()
					if err != nil {
						t.Error(err)
					}
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
		all.Wait()
		require.LessOrEqual(t, longest, 2*time.Second, "in order of their coming: 200 ms")
	})
}
