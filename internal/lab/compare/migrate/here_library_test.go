package migrate

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

type options struct {
	Retry backoff.Doer
	Send  operation
}

// Client is a client of some service.
type Client struct {
	retry backoff.Doer
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
