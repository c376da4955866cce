package backoff_test

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

// What go-retryablehttp returns when it gives up: with a status, and with an
// error. internal/lab/plugtest has the errors of other libraries, which have
// types.
var (
	errGaveUp     = errors.New("GET http://a/b giving up after 4 attempt(s)")
	gaveUpOnError = func(err error) error { return fmt.Errorf("GET http://a/b giving up after 4 attempt(s): %w", err) }
)

func TestWhatAnotherLoopGaveUpOnIsFinal(t *testing.T) {
	down := errors.New("down")
	for _, err := range []error{
		errGaveUp,
		gaveUpOnError(down),
		fmt.Errorf("fetch: %w", errGaveUp),
		errors.Join(down, gaveUpOnError(down)),
		backoff.RetryAfter(gaveUpOnError(down), time.Second),
		errors.Join(backoff.WithClass(down, backoff.ClassRetryable), errGaveUp),
		fmt.Errorf("storage: retry failed after 3 attempts; last error: %w", down),
	} {
		outer, attempts := backoff.Policy{Schedule: backoff.Constant(0)}, 0
		outer.Classify = func(error) backoff.Class { return backoff.ClassRetryable } // as one that looks through the chain does
		got := outer.Do(t.Context(), func(context.Context) error { attempts++; return err })
		require.Equal(t, 1, attempts, "%v", err)
		require.ErrorIs(t, got, err)
		require.EqualError(t, got, err.Error(), "there is nothing to add")
		require.Equal(t, backoff.ClassPermanent, backoff.DefaultClassifier(err))
	}
	for _, err := range []error{
		errors.New("no attempt(s) were made"),
		errors.New("giving up after lunch"),
		fmt.Errorf("storage: %w", down),
	} {
		require.Equal(t, backoff.ClassUnknown, backoff.DefaultClassifier(err), "%v", err)
	}
	require.Equal(t, backoff.ClassRetryable, backoff.DefaultClassifier(backoff.WithClass(errGaveUp, backoff.ClassRetryable)), "a mark around it knows more")
}

func TestWhatAnotherLoopGaveUpOnIsAFailureOfTheService(t *testing.T) {
	var ended []backoff.Outcome
	p := backoff.Policy{Budget: outcomes{&ended}}
	p.Do(t.Context(), func(context.Context) error { return errGaveUp })
	require.Equal(t, []backoff.Outcome{backoff.OutcomeTransient}, ended)

	b := &backoff.Breaker{MinCalls: 2}
	for range 2 {
		b.Do(t.Context(), func(context.Context) error { return gaveUpOnError(errors.New("down")) })
	}
	require.Equal(t, backoff.StateOpen, b.State())
}

// outcomes is a budget that keeps how attempts ended.
type outcomes struct{ all *[]backoff.Outcome }

func (o outcomes) Reserve(backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	return backoff.Ticket{}, 0, true
}
func (o outcomes) Done(_ backoff.Ticket, r backoff.Result) { *o.all = append(*o.all, r.Outcome) }

func TestALoopThatAttemptTimeoutEndedIsRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, attempts := backoff.Policy{Schedule: backoff.Constant(0), AttemptTimeout: time.Second}, 0
		err := p.Do(t.Context(), func(ctx context.Context) error {
			attempts++
			<-ctx.Done()
			return gaveUpOnError(ctx.Err())
		})
		require.Equal(t, 4, attempts)
		require.ErrorIs(t, err, backoff.ErrAttemptTimeout)
	})
}
