package recipes

import (
	"context"
	"errors"
	"sync"
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
	quickly   = backoff.Policy{
		MaxAttempts:    2,
		AttemptTimeout: 130 * time.Millisecond,
		Schedule:       backoff.Exponential{Initial: 20 * time.Millisecond},
	}
)

// thumbnailOr returns within 300 ms, also if resize ignores its context.
func thumbnailOr(ctx context.Context, fallback string, resize func(context.Context) (string, error)) string {
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	result := make(chan string, 1)
	go func() {
		image := fallback
		_ = places.Do(ctx, onePlace, func(ctx context.Context) error {
			if made, err := backoff.DoValue(ctx, thumbnail.With(quickly), resize); err == nil {
				image = made
			}
			return nil // never the error of resize, which would slow this Service down
		})
		result <- image
	}()
	select {
	case image := <-result:
		return image
	case <-ctx.Done():
		return fallback // a resize that still runs keeps its place
	}
}

// An outage is a service that is up for 5 s, down for 3 s, and up again.
type outage struct {
	down  func(context.Context) error
	began time.Time

	mu            sync.Mutex
	running, most int
}

func (o *outage) resize(ctx context.Context) (string, error) {
	o.count(1)
	defer o.count(-1)
	if at := time.Since(o.began); at >= 5*time.Second && at < 8*time.Second {
		return "", o.down(ctx)
	}
	time.Sleep(50 * time.Millisecond)
	return "small", nil
}

func (o *outage) count(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.running += n
	o.most = max(o.most, o.running)
}

// calls makes n calls, one in each interval. It returns when those began that fell back, and how
// long they took.
func (o *outage) calls(ctx context.Context, n int, interval time.Duration) map[time.Duration]time.Duration {
	failed := make(map[time.Duration]time.Duration)
	var mu sync.Mutex
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			start := time.Since(o.began)
			if thumbnailOr(ctx, "large", o.resize) == "large" {
				mu.Lock()
				defer mu.Unlock()
				failed[start] = time.Since(o.began) - start
			}
		})
		time.Sleep(interval)
	}
	all.Wait()
	return failed
}

// Of the calls at once ten run, and the others wait. Each falls back within 300 ms. While the
// service is down, all do. Of those of the next two seconds some do, and then none.
func TestABulkheadWithAFallbackWaitsOnlyWhileTheServiceIsUp(t *testing.T) {
	for name, down := range map[string]func(context.Context) error{
		"refuses":    func(context.Context) error { time.Sleep(time.Millisecond); return errors.New("down") },
		"hangs":      func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"is ignored": func(context.Context) error { time.Sleep(time.Second); return errors.New("down") },
	} {
		synctest.Test(t, func(t *testing.T) {
			o := &outage{down: down, began: time.Now()}
			places = &guard.Service{NoBreaker: true, Budget: &limit.Concurrency{Max: 10}}
			thumbnail = &guard.Service{Name: "thumbnail", FailFast: true}
			if failed := o.calls(t.Context(), 50, 0); len(failed) > 0 {
				t.Errorf("%s: of 50 calls to a good service some fell back: %v", name, failed)
			}
			during, after := 0, 0
			for start, took := range o.calls(t.Context(), 1000, 10*time.Millisecond) { // 5 at once
				if took > 300*time.Millisecond || start > 10*time.Second {
					t.Errorf("%s: a call at %v fell back after %v", name, start, took)
				}
				if start < 8*time.Second {
					during++
				} else {
					after++
				}
			}
			if o.most != 10 || during < 250 || after > 100 {
				t.Errorf("%s: %d at once, and %d and %d fell back", name, o.most, during, after)
			}
		})
	}
}
