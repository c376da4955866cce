package recipes

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
)

var ErrNotFound = errors.New("not found")

type Client struct {
	Retry Retrier
	get   func(context.Context, string) (string, error)
}

// A Retrier makes the attempts of a call: a backoff.Policy, or what your users have.
type Retrier interface {
	Do(ctx context.Context, op func(context.Context) error) error
}

func (c *Client) Get(ctx context.Context, id string) (item string, err error) {
	var final error
	err = c.Retry.Do(ctx, func(ctx context.Context) error {
		item, err = c.get(ctx, id)
		if errors.Is(err, ErrNotFound) {
			final = backoff.Permanent(err) // no retry can help, and every Retrier stops after nil
			return nil
		}
		return err
	})
	if final != nil {
		return "", final
	}
	return item, err
}

// A RetrierFunc makes a Retrier of a function, such as the retry of another library.
type RetrierFunc func(ctx context.Context, op func(context.Context) error) error

func (f RetrierFunc) Do(ctx context.Context, op func(context.Context) error) error { return f(ctx, op) }

// othersRetry repeats each error, as most libraries do that do not know the mark of
// backoff.Permanent.
func othersRetry(op func() error, times int, wait time.Duration) (err error) {
	for range times {
		if err = op(); err == nil {
			return nil
		}
		time.Sleep(wait)
	}
	return err
}

// A policy around the library does not ask again, either.
func TestAPolicyAroundTheLibraryAsksOnce(t *testing.T) {
	requests := 0
	c := &Client{Retry: backoff.Policy{}, get: func(context.Context, string) (string, error) { requests++; return "", ErrNotFound }}
	err := backoff.Policy{}.Do(t.Context(), func(ctx context.Context) error { _, err := c.Get(ctx, "1"); return err })
	if requests != 1 || !errors.Is(err, ErrNotFound) {
		t.Errorf("%d requests: %v", requests, err)
	}
}

func TestARetrierOfAnotherLibraryAsksOnceForWhatIsNotThere(t *testing.T) {
	for name, retry := range map[string]Retrier{
		"a policy": backoff.Policy{MaxAttempts: 3},
		"another library": RetrierFunc(func(ctx context.Context, op func(context.Context) error) error {
			return othersRetry(func() error { return op(ctx) }, 3, time.Second)
		}),
	} {
		for _, row := range []struct {
			err      error
			requests int
		}{{nil, 1}, {ErrNotFound, 1}, {errors.New("down"), 3}} {
			synctest.Test(t, func(t *testing.T) {
				requests := 0
				c := &Client{Retry: retry, get: func(context.Context, string) (string, error) {
					requests++
					return "tea", row.err
				}}
				item, err := c.Get(t.Context(), "1")
				if requests != row.requests || !errors.Is(err, row.err) || row.err == nil && item != "tea" {
					t.Errorf("%s: %q after %d requests: %v", name, item, requests, err)
				}
			})
		}
	}
}
