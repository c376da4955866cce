package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	cenkalti7 "github.com/cenkalti/backoff/v7"
	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/guard"
)

// Retrier makes the attempts of a call, as a backoff.Policy or the With of a guard.Service does.
type Retrier interface {
	Do(ctx context.Context, op func(context.Context) error) error
}

type Options struct {
	Retry Retrier // nil means four attempts, or one while nearly all calls fail
	Send  func(context.Context) error
}

func New(o Options) (*Client, error) {
	if o.Retry == nil {
		// The Budget allows one attempt while nearly all fail. If your users make few calls,
		// leave it out.
		o.Retry = backoff.Policy{Name: "shop", Budget: new(backoff.RetryBudget)}
	}
	if v, ok := o.Retry.(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			return nil, err // such as that of Exponential{Multiplier: 0.5}
		}
	}
	return &Client{retry: o.Retry, send: o.Send}, nil
}

// Save may be retried, unless the service rejects it.
func (c *Client) Save(ctx context.Context) error {
	var final, last error
	attempts := 0
	err := c.retry.Do(ctx, func(ctx context.Context) error {
		attempts++
		last = c.send(ctx)
		var answer *StatusError // an error of this library
		if errors.As(last, &answer) && answer.Code < 500 && answer.Code != 429 {
			final = backoff.Permanent(last)
			return nil // ends the Retrier of any library
		}
		return last
	})
	if err != nil && attempts > 1 && !errors.As(err, new(*backoff.Error)) { // a Retrier of another library gave up
		// Ends the policies around it, too. Its text is that of last, and not of the other library.
		err = &backoff.Error{Attempts: attempts, Reason: backoff.ReasonAttempts, Last: last, Interrupted: ctx.Err()}
	}
	return cmp.Or(final, err)
}

// Charge must not be made twice.
func (c *Client) Charge(ctx context.Context) error {
	var final error // no attempt may follow it
	err := c.retry.Do(ctx, func(ctx context.Context) error {
		if final != nil {
			return nil // a Retrier that does not know the marks stops after nil
		}
		err := c.send(ctx)
		var answer *StatusError
		switch {
		case err == nil || backoff.DefaultClassifier(err) == backoff.ClassNotSent: // a connection refused, say
			return err
		case errors.As(err, &answer) && answer.Code == 503: // by which this service says that it did nothing
			return backoff.OfClass(err, backoff.ClassNotSent)
		case answer != nil && answer.Code < 500: // permanent; a breaker does not count it as a failure
			final = backoff.Permanent(err)
		default: // it may have been done: no policy of this package repeats it, and a breaker counts it
			final = &backoff.Error{Attempts: 1, Reason: backoff.ReasonNotIdempotent, Last: err}
		}
		return final
	})
	return cmp.Or(final, err) // marked, for the policies around this call
}

// Client is a client of some service.
type Client struct {
	retry Retrier
	send  func(context.Context) error
}

// StatusError is an answer of the service that is no success.
type StatusError struct{ Code int }

func (e *StatusError) Error() string { return "shop: status " + strconv.Itoa(e.Code) }

// SaveError is an error of this library's own.
type SaveError struct {
	Order string
	Err   error
}

func (e *SaveError) Error() string { return "shop: " + backoff.Cause(e.Err).Error() }
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
		client, err := New(Options{Send: send})
		require.NoError(t, err)
		_, told := errors.AsType[*backoff.Error](client.Save(t.Context()))
		require.True(t, told)
		require.Equal(t, 4, calls)
		require.Equal(t, errBusy, client.SaveAsBefore(t.Context()))

		_, err = New(Options{Retry: backoff.Policy{AttemptTimeout: time.Second, AttemptTimeoutSchedule: backoff.Constant(1)}})
		require.ErrorContains(t, err, "Policy.AttemptTimeout")
		_, err = New(Options{Retry: (&guard.Service{Breaker: &backoff.Breaker{FailureRate: 2}}).With(backoff.Policy{})})
		require.ErrorContains(t, err, "Breaker.FailureRate is 2")
		plain, err := New(Options{Retry: once{}, Send: send})
		require.NoError(t, err)
		require.Equal(t, errBusy, plain.Save(t.Context()))
	})
}

// A charge is repeated only if nothing was done, whatever the policy of the user
// is, and a save unless the service has said no, which is no failure for a
// circuit around it. A circuit around either opens where the service fails.
func TestALibraryRepeatsAChargeOnlyIfNothingWasDoneAndASaveUnlessTheServiceSaidNo(t *testing.T) {
	for _, row := range []struct {
		call   func(*Client, context.Context) error
		err    error
		calls  int
		opened bool
	}{
		{(*Client).Charge, errBusy, 1, true},
		{(*Client).Charge, &StatusError{500}, 1, true},
		{(*Client).Charge, &StatusError{503}, 4, true},
		{(*Client).Charge, syscall.ECONNREFUSED, 4, true},
		{(*Client).Charge, &StatusError{402}, 1, false},
		{(*Client).Save, &StatusError{500}, 4, true},
		{(*Client).Save, &StatusError{429}, 4, true},
		{(*Client).Save, &StatusError{402}, 1, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			send := func(context.Context) error { calls++; time.Sleep(100 * time.Millisecond); return row.err }
			always := backoff.Policy{Classify: backoff.RetryIf(func(error) bool { return true })}
			client, err := New(Options{Retry: (&guard.Service{NoBudget: true, FailFast: true}).With(always), Send: send})
			require.NoError(t, err)
			require.ErrorIs(t, row.call(client, t.Context()), row.err)
			require.Equal(t, row.calls, calls)
			for range 100 {
				err = row.call(client, t.Context())
			}
			require.Equal(t, row.opened, errors.Is(err, backoff.ErrOpen))
		})
	}
}

// stubborn is a Retrier of another library, which knows no marks.
type stubborn struct{}

func (stubborn) Do(ctx context.Context, op func(context.Context) error) (err error) {
	for range 4 {
		if err = op(ctx); err == nil {
			return nil
		}
	}
	return fmt.Errorf("gave up: %v", err)
}

// A policy around the library does not repeat it, either.
func TestAChargeThatMayHaveBeenMadeIsSentOnceByAnyRetrier(t *testing.T) {
	for _, retry := range []Retrier{stubborn{}, once{}, backoff.Policy{}, new(guard.Service).With(backoff.Policy{})} {
		for _, answer := range []error{errBusy, &StatusError{402}} {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				client, err := New(Options{Retry: retry, Send: func(context.Context) error { calls++; return answer }})
				require.NoError(t, err)
				err = backoff.Policy{}.Do(t.Context(), client.Charge)
				require.ErrorIs(t, err, answer)
				require.Equal(t, 1, calls, "%T", retry)
			})
		}
	}
}

// Nor does it repeat a save that a Retrier of another library has given up.
func TestASaveThatAnotherLibraryGaveUpIsNotRepeatedByAPolicyAround(t *testing.T) {
	for _, retry := range []Retrier{stubborn{}, cenkalti7Retrier{cenkalti7.WithMaxTries(4)}} {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			client, err := New(Options{Retry: retry, Send: func(context.Context) error { calls++; return errBusy }})
			require.NoError(t, err)
			err = backoff.Policy{}.Do(t.Context(), client.Save)
			require.EqualError(t, err, "backoff: gave up after 4 attempts: "+errBusy.Error()) // not the text of that library
			require.ErrorIs(t, err, errBusy)
			require.Equal(t, 4, calls)
		})
	}
}

// Its error tells whether the context ended the call.
func TestASaveThatTheContextEndedSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		client, err := New(Options{Retry: cenkalti7Retrier{}, Send: func(context.Context) error { return errBusy }})
		require.NoError(t, err)
		err = client.Save(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, errBusy)
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
			client, err := New(Options{Retry: backoff.Policy{}, Send: func(context.Context) error { calls++; return errBusy }})
			require.NoError(t, err)
			err = backoff.Policy{}.Do(t.Context(), func(ctx context.Context) error { return row.save(client, ctx) })
			require.Error(t, err)
			require.Equal(t, row.calls, calls, row.name)
		})
	}
}
