package recipes

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
)

var errNoPlace = errors.New("no place within a second")

// turns are the places of attempts.
type turns chan struct{}

func (t turns) Do(ctx context.Context, attempt func(context.Context) error) error {
	select {
	case t <- struct{}{}: // waits for a place
	case <-time.After(time.Second):
		return backoff.Permanent(errNoPlace) // or the policy would wait for a place again
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-t }() // the policy waits without it
	return attempt(ctx)
}

// Of 20 shards four are down and one hangs. They are asked first. The others are
// answered in four rounds of 50 ms. Before, the one that hangs has a place.
func TestAShardThatIsDownHoldsNoPlaceWhileItsCallWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := backoff.Policy{Name: "shard", Jitter: backoff.NoJitter}

		places := make(turns, 5)                                                         // five attempts at a time
		placed := backoff.Policy{MaxAttempts: 1, AttemptTimeout: 300 * time.Millisecond} // an attempt that has its place
		asking := func(ctx context.Context, ask func(context.Context) error) error {
			return policy.Do(ctx, func(ctx context.Context) error { return places.Do(ctx, placed.Wrap(ask)) })
		}

		var all sync.WaitGroup
		var last atomic.Int64
		began := time.Now()
		for shard := range 20 {
			ask := func(ctx context.Context) error {
				if shard == 0 {
					<-ctx.Done()
					return ctx.Err()
				}
				time.Sleep(50 * time.Millisecond)
				if shard < 5 {
					return errors.New("down")
				}
				last.Store(int64(time.Since(began)))
				return nil
			}
			all.Go(func() {
				if err := asking(t.Context(), ask); err != nil && !errors.Is(err, backoff.ErrExhausted) {
					t.Error(err)
				}
			})
			synctest.Wait() // the shards are asked in order
		}
		all.Wait()
		if answered := time.Duration(last.Load()); answered < 200*time.Millisecond || answered > 250*time.Millisecond {
			t.Errorf("the last shard that is up was answered after %v", answered)
		}
	})
}
