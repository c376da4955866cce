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

	"golang.org/x/sync/singleflight"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
)

// A cached function is called if its last value is older than a minute. If the call fails, or
// takes more than 100 ms, a value of the last hour will do.
type cached struct {
	service *guard.Service // &guard.Service{FailFast: true}
	load    func(ctx context.Context, key string) (string, error)
	calls   singleflight.Group
	values  sync.Map     // by key
	failed  atomic.Int64 // when load failed last, for whatever key; 0 if it works
	running atomic.Int32 // calls of load
}

type value struct {
	text string
	at   time.Time
}

var (
	errNone = backoff.Permanent(errors.New("no such item")) // what load returns for a key without a value
	loading = backoff.Policy{Name: "load", MaxAttempts: 2, AttemptTimeout: time.Second}
)

func (c *cached) get(ctx context.Context, key string) (string, error) {
	stored, _ := c.values.Load(key)
	last, _ := stored.(value)
	age := time.Since(last.at)
	if age < time.Minute || age < time.Hour && !c.mayLoad() {
		return last.text, nil
	}
	// The call is for all who wait for it, so no caller's context ends it.
	call := c.calls.DoChan(key, func() (any, error) { return c.call(context.WithoutCancel(ctx), key) })
	patience := 3 * time.Second // more than a call takes
	if age < time.Hour {
		patience = 100 * time.Millisecond
	}
	wait, cancel := context.WithTimeout(ctx, patience) // the call reads ctx
	defer cancel()
	select {
	case r := <-call:
		if r.Err == nil || age >= time.Hour || errors.Is(r.Err, errNone) {
			return r.Val.(string), r.Err
		}
	case <-wait.Done(): // the call goes on
		if age >= time.Hour {
			return "", wait.Err()
		}
	}
	return last.text, nil
}

// mayLoad lets one caller load every 250 ms while load fails, and always four at once.
func (c *cached) mayLoad() bool {
	last, now := c.failed.Load(), time.Now().UnixMilli()
	return c.running.Load() < 4 && (last == 0 || now-last >= 250 && c.failed.CompareAndSwap(last, now))
}

func (c *cached) call(ctx context.Context, key string) (string, error) {
	c.running.Add(1)
	defer c.running.Add(-1)
	text, err := backoff.DoValue(ctx, c.service.With(loading), func(ctx context.Context) (string, error) {
		text, err := c.load(ctx, key)
		if err != nil && !errors.Is(err, errNone) {
			c.failed.Store(time.Now().UnixMilli())
		}
		return text, err
	})
	if err == nil {
		c.failed.Store(0)
		c.values.Store(key, value{text, time.Now()})
	} else if errors.Is(err, errNone) {
		c.values.Delete(key)
	}
	return text, err
}

// newCached returns a cached function, and the count of its calls.
func newCached(load func(context.Context) (string, error)) (*cached, *int) {
	loads := new(int)
	return &cached{service: &guard.Service{FailFast: true}, load: func(ctx context.Context, _ string) (string, error) {
		*loads++
		return load(ctx)
	}}, loads
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
