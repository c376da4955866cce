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

var (
	fresh    = time.Minute            // age up to which a value is returned without a call
	usable   = time.Hour              // age up to which it is returned if the call fails or is slow
	patience = 100 * time.Millisecond // wait of a caller with a usable value; it may be 0
	atOnce   = int32(4)               // calls for keys with a usable value
	pause    = 250 * time.Millisecond // between such calls while they fail
)

// A cached function is called if its last value is no longer fresh. If the call fails, or takes
// too long, a usable value will do.
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
	errNone   = backoff.Permanent(errors.New("no such item")) // what load returns for a key without a value
	errEnough = errors.New("too many calls at once")
	loading   = backoff.Policy{Name: "load", MaxAttempts: 2, AttemptTimeout: time.Second}
)

func (c *cached) get(ctx context.Context, key string) (string, error) {
	stored, _ := c.values.Load(key)
	last, _ := stored.(value)
	age := time.Since(last.at)
	if age < fresh || age < usable && !c.mayLoad() {
		return last.text, nil
	}
	// The call is for all who wait for it, so no caller's context ends it.
	call := c.calls.DoChan(key, func() (any, error) { return c.call(context.WithoutCancel(ctx), key, age < usable) })
	waits := 3 * time.Second // more than a call takes
	if age < usable {
		waits = patience
	}
	wait, cancel := context.WithTimeout(ctx, waits) // the call reads ctx
	defer cancel()
	select {
	case r := <-call:
		if r.Err == nil || age >= usable || errors.Is(r.Err, errNone) {
			return r.Val.(string), r.Err
		}
	case <-wait.Done(): // the call goes on
		if age >= usable {
			return "", wait.Err()
		}
	}
	return last.text, nil
}

// mayLoad lets one caller load in each pause while load fails.
func (c *cached) mayLoad() bool {
	last, now := c.failed.Load(), time.Now().UnixMilli()
	return last == 0 || now-last >= pause.Milliseconds() && c.failed.CompareAndSwap(last, now)
}

func (c *cached) call(ctx context.Context, key string, optional bool) (string, error) {
	defer c.running.Add(-1)
	if c.running.Add(1) > atOnce && optional {
		return "", errEnough
	}
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
