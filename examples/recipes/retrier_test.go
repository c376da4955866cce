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
	attempts := 0
	err = c.Retry.Do(ctx, func(ctx context.Context) error {
		attempts++
		item, err = c.get(ctx, id)
		if errors.Is(err, ErrNotFound) {
			final = backoff.Permanent(err) // no retry can help, and every Retrier stops after nil
			return nil
		}
		return err
	})
	switch {
	case final != nil:
		return "", final
	case err != nil && attempts > 1 && !errors.As(err, new(*backoff.Error)): // another library gave up
		err = &backoff.Error{Attempts: attempts, Reason: backoff.ReasonAttempts, Last: err} // ends the policies around it, too
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

var retriers = map[string]Retrier{
	"a policy": backoff.Policy{MaxAttempts: 3},
	"another library": RetrierFunc(func(ctx context.Context, op func(context.Context) error) error {
		return othersRetry(func() error { return op(ctx) }, 3, time.Second)
	}),
}

// A policy around the library does not begin again what the library gave up.
func TestAPolicyAroundTheLibraryDoesNotMultiplyItsRequests(t *testing.T) {
	for name, retry := range retriers {
		for answer, want := range map[error]int{ErrNotFound: 1, errors.New("down"): 3} {
			synctest.Test(t, func(t *testing.T) {
				requests := 0
				c := &Client{Retry: retry, get: func(context.Context, string) (string, error) { requests++; return "", answer }}
				err := backoff.Policy{}.Do(t.Context(), func(ctx context.Context) error { _, err := c.Get(ctx, "1"); return err })
				if requests != want || !errors.Is(err, answer) {
					t.Errorf("%s: %d requests: %v", name, requests, err)
				}
			})
		}
	}
}

// The policy around a client that does not retry makes the attempts.
func TestAPolicyAroundASingleAttemptRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		once := RetrierFunc(func(ctx context.Context, op func(context.Context) error) error { return op(ctx) })
		c := &Client{Retry: once, get: func(context.Context, string) (string, error) { requests++; return "", errors.New("down") }}
		_ = backoff.Policy{}.Do(t.Context(), func(ctx context.Context) error { _, err := c.Get(ctx, "1"); return err })
		if requests != 4 {
			t.Errorf("%d requests", requests)
		}
	})
}

func TestARetrierOfAnotherLibraryAsksOnceForWhatIsNotThere(t *testing.T) {
	for name, retry := range retriers {
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
