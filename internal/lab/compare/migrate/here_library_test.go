package migrate

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

// Retrier makes the attempts of a call. Policies, breakers and stacks of
// package backoff are Retriers.
type Retrier interface {
	Do(ctx context.Context, op func(context.Context) error) error
}

type options struct {
	Retry Retrier // nil means four attempts, and a budget for this client
	Send  operation
}

// Client is a client of some service.
type Client struct {
	retry Retrier
	send  operation
}

func New(o options) (*Client, error) {
	if o.Retry == nil {
		o.Retry = backoff.Policy{Name: "shop", Budget: new(backoff.RetryBudget)}
	}
	if v, ok := o.Retry.(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			return nil, err
		}
	}
	return &Client{retry: o.Retry, send: o.Send}, nil
}

func (c *Client) Save(ctx context.Context) error {
	return c.retry.Do(ctx, c.send)
}

// SaveError is an error of this library's own.
type SaveError struct {
	Order string
	Err   error
}

func (e *SaveError) Error() string { return "shop: order " + e.Order + ": " + e.Err.Error() }

func (e *SaveError) Unwrap() error { return e.Err }

func (c *Client) SaveOrder(ctx context.Context, order string) error {
	if err := c.retry.Do(ctx, c.send); err != nil {
		return &SaveError{order, err} // and not the Last of the *backoff.Error
	}
	return nil
}

func (c *Client) SaveAsBefore(ctx context.Context) error {
	return backoff.Cause(c.retry.Do(ctx, c.send))
}

// once is a Doer of a user, without retries.
type once struct{}

func (once) Do(ctx context.Context, op func(context.Context) error) error { return op(ctx) }

func TestALibraryReturnsWhatItsGuideSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		send := func(context.Context) error { calls++; return errBusy }
		client, err := New(options{Send: send})
		require.NoError(t, err)
		_, told := errors.AsType[*backoff.Error](client.Save(t.Context()))
		require.True(t, told)
		require.Equal(t, 4, calls)
		require.Equal(t, errBusy, client.SaveAsBefore(t.Context()))

		_, err = New(options{Retry: backoff.Policy{AttemptTimeout: time.Second, AttemptTimeoutSchedule: backoff.Constant(1)}})
		require.ErrorContains(t, err, "Policy.AttemptTimeout")
		plain, err := New(options{Retry: once{}, Send: send})
		require.NoError(t, err)
		require.Equal(t, errBusy, plain.Save(t.Context()))
	})
}

// What a library returns decides whether policies around it multiply its
// attempts.
func TestACallerOfALibraryMultipliesOnlyWhatItHides(t *testing.T) {
	for _, row := range []struct {
		name  string
		save  func(*Client, context.Context) error
		calls int
	}{
		{"as it is", (*Client).Save, 4},
		{"in an error of its own", func(c *Client, ctx context.Context) error { return c.SaveOrder(ctx, "7") }, 4},
		{"by %w", func(c *Client, ctx context.Context) error { return fmt.Errorf("shop: %w", c.Save(ctx)) }, 4},
		{"by %v", func(c *Client, ctx context.Context) error { return fmt.Errorf("shop: %v", c.Save(ctx)) }, 16},
		{"its last error", func(c *Client, ctx context.Context) error {
			gave, _ := errors.AsType[*backoff.Error](c.Save(ctx))
			return &SaveError{"7", gave.Last}
		}, 16},
		{"Cause", (*Client).SaveAsBefore, 16},
	} {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			client, err := New(options{Retry: backoff.Policy{}, Send: func(context.Context) error { calls++; return errBusy }})
			require.NoError(t, err)
			err = backoff.Policy{}.Do(t.Context(), func(ctx context.Context) error { return row.save(client, ctx) })
			require.Error(t, err)
			require.Equal(t, row.calls, calls, row.name)
		})
	}
}
