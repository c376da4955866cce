package recipes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff/guard"
)

// newCached returns a cached function, and the count of its calls.
func newCached(load func(context.Context) (string, error)) (*cached, *int) {
	loads := new(int)
	return &cached{service: &guard.Service{FailFast: true}, load: func(ctx context.Context, _ string) (string, error) {
		*loads++
		return load(ctx)
	}}, loads
}

// The function fails after its first value, and does not know the other key.
func Example_cached() {
	ctx, key, errNotFound, calls := context.Background(), "tea", errors.New("404"), 0
	fetch := func(_ context.Context, key string) (string, error) {
		if key != "tea" {
			return "", errNotFound
		}
		if calls++; calls > 1 {
			return "", errors.New("down")
		}
		return "green", nil
	}

	items := &cached{
		service: &guard.Service{Name: "items", FailFast: true}, // one for the function
		load: func(ctx context.Context, key string) (string, error) { // must return when ctx ends
			item, err := fetch(ctx, key)
			if errors.Is(err, errNotFound) {
				return "", errNone // is not served from the cache, and no failure of the function
			}
			return item, err
		},
	}
	item, err := items.get(ctx, key)

	fmt.Println(item, err)
	fmt.Println(items.get(ctx, key))
	fmt.Println(items.get(ctx, "coffee"))
	// Output:
	// green <nil>
	// green <nil>
	//  no such item
}

// The caller that begins the call leaves before it ends. The others get its value.
func TestManyCallersMakeOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, loads := newCached(func(ctx context.Context) (string, error) {
			time.Sleep(50 * time.Millisecond)
			return "new", ctx.Err()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := c.get(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		})
		synctest.Wait()
		for range 100 {
			all.Go(func() {
				if text, err := c.get(t.Context(), "k"); text != "new" || err != nil {
					t.Error(text, err)
				}
			})
		}
		all.Wait()
		if must(c.get(t.Context(), "k")); *loads != 1 {
			t.Errorf("%d calls", *loads)
		}
	})
}

// While the function fails or hangs, its last value is there for an hour, within 100 ms.
func TestACachedValueIsServedWhileTheFunctionFails(t *testing.T) {
	for name, fail := range map[string]func(context.Context) (string, error){
		"fails": func(context.Context) (string, error) { return "", errors.New("down") },
		"hangs": func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() },
	} {
		synctest.Test(t, func(t *testing.T) {
			load := func(context.Context) (string, error) { return "old", nil }
			c, loads := newCached(func(ctx context.Context) (string, error) { return load(ctx) })
			must(c.get(t.Context(), "k"))
			load = fail
			for n := range 3500 {
				time.Sleep(time.Second)
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n)*time.Millisecond)
				text, err := c.get(ctx, "k")
				if cancel(); text != "old" || err != nil || time.Since(began) > 100*time.Millisecond {
					t.Fatalf("%s: %q, %v after %v", name, text, err, time.Since(began))
				}
			}
			time.Sleep(2 * time.Minute)
			if text, err := c.get(t.Context(), "k"); text != "" || err == nil {
				t.Errorf("%s for an hour: %q, %v", name, text, err)
			}
			if *loads > 250 { // the circuit is open most of the time
				t.Errorf("%s: %d calls", name, *loads)
			}
			load = func(context.Context) (string, error) { return "new", nil }
			time.Sleep(2 * time.Minute)
			if text, err := c.get(t.Context(), "k"); text != "new" || err != nil {
				t.Errorf("%s, and is back: %q, %v", name, text, err)
			}
		})
	}
}

// Two hundred gets a second, of twenty keys, are no more than a few calls while the function fails.
func TestAFunctionThatFailsIsCalledAFewTimesASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fail error
		c, loads := newCached(func(context.Context) (string, error) {
			time.Sleep(10 * time.Millisecond)
			return "old", fail
		})
		get := func(n int) { must(c.get(t.Context(), fmt.Sprint("key ", n%20))) }
		for n := range 20 {
			get(n)
		}
		time.Sleep(2 * time.Minute)
		fail = errors.New("down")
		for second, most := range []int{2 + 8, 8, 4, 4} { // two are under way as the first one fails
			before := *loads
			for n := range 200 {
				go get(n)
				time.Sleep(5 * time.Millisecond)
			}
			if calls := *loads - before; calls > most {
				t.Errorf("%d calls in second %d", calls, second)
			}
		}
		fail = nil
		time.Sleep(time.Second)
		for n := range 200 {
			get(n)
			time.Sleep(5 * time.Millisecond)
		}
		for n := range 20 {
			if stored, _ := c.values.Load(fmt.Sprint("key ", n)); time.Since(stored.(value).at) > 2*time.Second {
				t.Errorf("key %d is old, a second after the outage", n)
			}
		}
	})
}

// Two hundred gets a second, of twenty keys, are four calls at once while the function hangs.
func TestAFunctionThatHangsIsCalledAFewTimesASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := false
		c, loads := newCached(func(ctx context.Context) (string, error) {
			if hangs {
				<-ctx.Done()
			}
			return "old", ctx.Err()
		})
		for n := range 20 {
			must(c.get(t.Context(), fmt.Sprint("key ", n)))
		}
		time.Sleep(2 * time.Minute)
		hangs = true
		for second := range 5 {
			before := *loads
			for n := range 200 {
				go c.get(t.Context(), fmt.Sprint("key ", n%20))
				time.Sleep(5 * time.Millisecond)
			}
			if calls := *loads - before; calls > 8 { // each makes a second attempt after a second
				t.Errorf("%d calls in second %d", calls, second)
			}
		}
		time.Sleep(10 * time.Second)
	})
}

// The function works. Forty keys of half a second take five seconds, four at once, and no caller
// waits under a patience of 0.
func TestAFunctionThatWorksIsCalledFourTimesAtOnce(t *testing.T) {
	defer func(d time.Duration) { patience = d }(patience)
	for _, patience = range []time.Duration{patience, 0} {
		synctest.Test(t, func(t *testing.T) {
			var running, most atomic.Int32
			c := &cached{service: &guard.Service{FailFast: true}, load: func(context.Context, string) (string, error) {
				n := running.Add(1)
				for m := most.Load(); m < n && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				defer running.Add(-1)
				time.Sleep(500 * time.Millisecond)
				return "text", nil
			}}
			keys := func(get func(string)) {
				for n := range 40 {
					get(fmt.Sprint("key ", n))
				}
			}
			keys(func(key string) { must(c.get(t.Context(), key)) })
			time.Sleep(2 * time.Minute)
			most.Store(0)
			began, left := time.Now(), 40
			for left > 0 {
				keys(func(key string) {
					go func() {
						asked := time.Now()
						if text, err := c.get(t.Context(), key); text != "text" || err != nil || time.Since(asked) > patience {
							t.Errorf("%q, %v after %v", text, err, time.Since(asked))
						}
					}()
				})
				time.Sleep(patience + 10*time.Millisecond)
				left = 0
				keys(func(key string) {
					if stored, _ := c.values.Load(key); stored.(value).at.Before(began) {
						left++
					}
				})
			}
			if took := time.Since(began); most.Load() != 4 || took < 5*time.Second || took > 7*time.Second {
				t.Errorf("with a patience of %v: %d at once, all keys after %v", patience, most.Load(), took)
			}
		})
	}
}

// An item that is gone is no failure, and its last value is not served.
func TestAnItemThatIsGoneIsNotServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gone error
		c, loads := newCached(func(context.Context) (string, error) { return "old", gone })
		must(c.get(t.Context(), "k"))
		time.Sleep(time.Minute)
		gone = errNone
		for range 2 {
			if text, err := c.get(t.Context(), "k"); !errors.Is(err, errNone) {
				t.Error(text, err)
			}
		}
		if *loads != 3 {
			t.Errorf("%d calls", *loads)
		}
		gone = errors.New("down")
		if text, err := c.get(t.Context(), "k"); !errors.Is(err, gone) {
			t.Errorf("after the item was gone: %q, %v", text, err)
		}
	})
}
