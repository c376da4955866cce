package recipes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
)

var errMiss = errors.New("not in the cache")

var cache = &backoff.Breaker{ // one for the cache
	Name: "cache",
	Observer: func(_ context.Context, e backoff.Event) {
		if t := e.Transition; t != nil { // to BreakerOpen, BreakerHalfOpen or BreakerClosed
			fmt.Printf("cache: %v to %v: %v\n", t.From, t.To, t.Err)
		}
	},
}

// look returns what the cache has, or what else will do while that is down.
func look(ctx context.Context, key string, get func(context.Context, string) (string, error)) (string, error) {
	v, err := backoff.DoValue(ctx, cache, func(ctx context.Context) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond) // in here, so that a cache that hangs holds no caller
		defer cancel()
		v, err := get(ctx, key)
		if errors.Is(err, errMiss) {
			return "", backoff.Permanent(err) // an answer, and no failure of the cache
		}
		return v, err
	})
	if errors.Is(err, backoff.ErrOpen) {
		return "a default", nil // the cache was not asked
	}
	return v, err
}

// The cache misses, then fails for a while. Then it is back.
func TestAFallbackIsForTheTimeThatTheCircuitIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache.Reset() // after an earlier run, by -count
		answers := errMiss
		get := func(context.Context, string) (string, error) { return "hit", answers }
		count := func(calls int) (defaults, hits, failures int) {
			for range calls {
				switch v, err := look(t.Context(), "k", get); {
				case err != nil:
					failures++
				case v == "hit":
					hits++
				default:
					defaults++
				}
				time.Sleep(100 * time.Millisecond)
			}
			return defaults, hits, failures
		}
		if defaults, _, _ := count(100); defaults > 0 {
			t.Errorf("%d misses opened the circuit", defaults)
		}
		answers = errors.New("connection refused")
		if defaults, _, failures := count(40); failures > 22 || defaults < 18 {
			t.Errorf("%d failures, %d defaults", failures, defaults)
		}
		answers = nil
		if _, hits, failures := count(100); hits < 40 || failures > 0 {
			t.Errorf("%d hits, %d failures", hits, failures)
		}
	})
}

// Nobody waits long for a cache that hangs, whether its caller has set a limit or not.
func TestACacheThatHangsHoldsNoCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache.Reset()
		hang := func(ctx context.Context, _ string) (string, error) { <-ctx.Done(); return "", ctx.Err() }
		defaults := 0
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for range 40 {
			began := time.Now()
			v, _ := look(ctx, "k", hang)
			if took := time.Since(began); took > 200*time.Millisecond {
				t.Fatalf("a call took %v", took)
			}
			if v != "" {
				defaults++
			}
			time.Sleep(100 * time.Millisecond)
		}
		if defaults < 10 {
			t.Errorf("%d of 40 calls did not wait for the cache", defaults)
		}
	})
}

// opens makes calls for a minute, the first 20 s of which succeed. Then all fail but one in so
// many, or all if that is 0. It returns for how long the circuit was open each time.
func opens(ctx context.Context, interval time.Duration, one int, fail func() error) (times []time.Duration) {
	var opened time.Time
	breaker := backoff.Breaker{Observer: func(_ context.Context, e backoff.Event) {
		switch t := e.Transition; {
		case t != nil && t.To == backoff.BreakerOpen:
			opened = time.Now()
		case t != nil && t.To == backoff.BreakerHalfOpen:
			times = append(times, time.Since(opened))
		}
	}}
	var all sync.WaitGroup
	began := time.Now()
	for n := 0; time.Since(began) < time.Minute; n++ {
		all.Go(func() {
			_ = breaker.Do(ctx, func(context.Context) error {
				if time.Since(began) < 20*time.Second || one > 0 && n%one == 0 {
					return nil
				}
				return fail()
			})
		})
		time.Sleep(interval)
	}
	all.Wait()
	return times
}

func TestHowLongACircuitIsOpen(t *testing.T) {
	timeout := func() error { time.Sleep(200 * time.Millisecond); return context.DeadlineExceeded }
	refused := func() error { return errors.New("refused") }
	for name, row := range map[string]struct {
		interval    time.Duration
		one         int
		fail        func() error
		least, most time.Duration
	}{
		"errors":                          {100 * time.Millisecond, 0, refused, 200 * time.Millisecond, 1400 * time.Millisecond},
		"errors, and some succeed":        {100 * time.Millisecond, 3, refused, 4 * time.Second, 6100 * time.Millisecond},
		"timeouts, ten a second":          {100 * time.Millisecond, 0, timeout, 200 * time.Millisecond, 1300 * time.Millisecond},
		"timeouts, one a second":          {time.Second, 0, timeout, 1600 * time.Millisecond, 3 * time.Second},
		"ten a second, and some succeed":  {100 * time.Millisecond, 3, timeout, 1200 * time.Millisecond, 2600 * time.Millisecond},
		"four a second, and some succeed": {250 * time.Millisecond, 3, timeout, 3500 * time.Millisecond, 6300 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			times := opens(t.Context(), row.interval, row.one, row.fail)
			if len(times) > 0 && row.one > 0 {
				times = times[:1] // if the next probes fail by chance, the outage looks like a whole one
			}
			if len(times) == 0 || slices.Min(times) < row.least || slices.Max(times) > row.most {
				t.Errorf("%s: open for %v", name, times)
			}
		})
	}
}
