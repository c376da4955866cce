package guard_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
)

// All calls come at once, to a service that serves ten at a time and refuses the others. They
// are served in little more than the time that this takes at best, but for a few that have no
// attempts left: each was refused, while others were answered.
func TestABurstIsServedAboutAsFastAsTheServiceCan(t *testing.T) {
	for _, after := range []time.Duration{0, time.Second} {
		for _, calls := range []int{50, 150, 400} {
			synctest.Test(t, func(t *testing.T) {
				const places, takes = 10, 200 * time.Millisecond
				var running atomic.Int64
				d, began := new(guard.Service).With(backoff.Policy{}), time.Now()
				lost := burst(t, calls, func(ctx context.Context) error {
					return d.Do(ctx, func(context.Context) error {
						defer running.Add(-1)
						if running.Add(1) > places {
							return backoff.RetryAfter(backoff.OfClass(errBoom, backoff.ClassRetryable), after)
						}
						time.Sleep(takes)
						return nil
					})
				})
				best := time.Duration(calls/places) * takes
				require.LessOrEqual(t, len(lost), calls/15, "of %d calls, such as %.1q", calls, lost)
				require.Less(t, time.Since(began), 2*best+time.Second, "%d calls, %v at best", calls, best)
			})
		}
	}
}

// burst makes calls at once, each within 25 s, and returns their errors.
func burst(t *testing.T, calls int, call func(context.Context) error) (lost []string) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
			defer cancel()
			if err := call(ctx); err != nil {
				mu.Lock()
				defer mu.Unlock()
				lost = append(lost, fmt.Sprint(err))
			}
		})
	}
	all.Wait()
	return lost
}

// The service is down for ten seconds, so that calls make more attempts than their policies have.
// Then one attempt of each call in five fails, for which its policy has retries.
func TestTheAttemptsOfAnOutageUseUpNoRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		down := time.Now().Add(10 * time.Second)
		d := (&guard.Service{NoBudget: true}).With(backoff.Policy{})
		lost := burst(t, 200, func(ctx context.Context) error {
			fails := calls.Add(1)%5 == 0
			return d.Do(ctx, func(context.Context) error {
				time.Sleep(20 * time.Millisecond)
				if time.Now().Before(down) {
					return backoff.OfClass(errBoom, backoff.ClassRetryable)
				}
				if fails {
					fails = false
					return backoff.OfClass(errBoom, backoff.ClassRetryable)
				}
				return nil
			})
		})
		require.Empty(t, lost)
	})
}
