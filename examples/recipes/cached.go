package recipes

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
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
