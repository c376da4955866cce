package guard_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/internal/nightly"
)

// While a limit holds, calls that have all its places wait for calls of their own to the same
// service, which get none.
func TestCallsThatCallTheirOwnServiceOutliveAnOverload(t *testing.T) {
	nightly.Long(t)
	for range nightly.Size(1, 5) { // whether they meet so is chance
		synctest.Test(t, func(t *testing.T) {
			desks := make(chan struct{}, 10)
			serve := func(ctx context.Context) error {
				select {
				case desks <- struct{}{}:
				case <-ctx.Done():
					return ctx.Err()
				}
				time.Sleep(10 * time.Millisecond)
				<-desks
				return nil
			}
			s := &guard.Service{Name: "orders"}
			call := func() error {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				return s.Do(ctx, backoff.Policy{AttemptTimeout: 400 * time.Millisecond}, func(ctx context.Context) error {
					if err := s.Do(ctx, backoff.Policy{MaxAttempts: 1}, serve); err != nil {
						return err
					}
					return serve(ctx)
				})
			}
			come := func(callers int, d time.Duration) (failed int) {
				var wg sync.WaitGroup
				var mu sync.Mutex
				for end := time.Now().Add(d); callers > 0; callers-- {
					wg.Go(func() {
						for time.Now().Before(end) {
							if call() != nil {
								mu.Lock()
								failed++
								mu.Unlock()
							}
							time.Sleep(20 * time.Millisecond)
						}
					})
				}
				wg.Wait()
				return failed
			}
			require.Zero(t, come(5, 30*time.Second))
			require.Positive(t, come(800, nightly.Size(15*time.Second, time.Minute)), "an overload")
			come(5, time.Minute)
			require.Zero(t, come(5, 10*time.Second), "it is over")
		})
	}
}
