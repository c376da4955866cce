package recipes

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/limit"
)

var (
	places    = &guard.Service{NoBreaker: true, Budget: &limit.Concurrency{Max: 10}} // a call waits for a place
	thumbnail = &guard.Service{Name: "thumbnail", FailFast: true}                    // while it is down, a call ends at once
	onePlace  = backoff.Policy{MaxAttempts: 1}
	quickly   = backoff.Policy{MaxAttempts: 2, AttemptTimeout: 300 * time.Millisecond}
)

func thumbnailOr(ctx context.Context, fallback string, resize func(context.Context) (string, error)) string {
	image, err := backoff.DoValue(ctx, places.With(onePlace), func(ctx context.Context) (string, error) {
		return backoff.DoValue(ctx, thumbnail.With(quickly), resize)
	})
	if err != nil {
		return fallback
	}
	return image
}

// 200 callers share ten places. The function hangs from second 5 to 8.
func TestCallersGetTheirThumbnailOrTheFallbackSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		places = &guard.Service{NoBreaker: true, Budget: &limit.Concurrency{Max: 10}}
		thumbnail = &guard.Service{Name: "thumbnail", FailFast: true}
		began := time.Now()
		var running, most atomic.Int64
		resize := func(ctx context.Context) (string, error) {
			defer running.Add(-1)
			most.Store(max(most.Load(), running.Add(1)))
			if age := time.Since(began); age > 5*time.Second && age < 8*time.Second {
				<-ctx.Done()
				return "", ctx.Err()
			}
			time.Sleep(5 * time.Millisecond)
			return "small", nil
		}
		var fallbacks, atOnce [13]atomic.Int64 // by second
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() {
				for time.Since(began) < 12*time.Second {
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
					asked := time.Now()
					if thumbnailOr(ctx, "large", resize) == "large" {
						second := int(time.Since(began) / time.Second)
						fallbacks[second].Add(1)
						if time.Since(asked) < 10*time.Millisecond {
							atOnce[second].Add(1)
						}
					}
					cancel()
					time.Sleep(200 * time.Millisecond)
				}
			})
		}
		all.Wait()
		if most.Load() > 10 {
			t.Errorf("%d at once", most.Load())
		}
		for _, second := range []int{0, 1, 2, 3, 4, 9, 10, 11, 12} {
			if n := fallbacks[second].Load(); n > 0 {
				t.Errorf("%d fallbacks in second %d, while the function works", n, second)
			}
		}
		if n := atOnce[7].Load(); n < 300 {
			t.Errorf("%d fallbacks at once in second 7, while the circuit is open", n)
		}
	})
}
