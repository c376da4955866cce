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

// A charge that may have been made is not made again because a policy around it
// has run out of time for an attempt.
func TestWhatMustNotBeRepeatedEndsThePoliciesWhoseAttemptTimedOut(t *testing.T) {
	lost := errors.New("the answer was lost")
	timeout := backoff.Policy{Schedule: backoff.Constant(0), AttemptTimeout: time.Second}
	keyed := timeout
	keyed.Idempotency = backoff.Keyed
	for _, row := range []struct {
		name  string
		doer  backoff.Doer
		err   error
		calls int
	}{
		{"marked", layers(timeout, backoff.Policy{}), backoff.Permanent(lost), 1},
		{"marked as overloaded", layers(timeout, backoff.Policy{}), backoff.OfClass(lost, backoff.ClassOverloaded), 1},
		{"marked, in one attempt", layers(timeout, backoff.Policy{MaxAttempts: 1}), backoff.Permanent(lost), 1},
		{"marked, around a breaker", layers(timeout, new(backoff.Breaker), backoff.Policy{}), backoff.Permanent(lost), 1},
		{"marked, three policies", layers(timeout, backoff.Policy{}, backoff.Policy{}), backoff.Permanent(lost), 1},
		{"not idempotent", layers(timeout, backoff.Policy{Idempotency: backoff.NonIdempotent}), lost, 1},
		{"said by a literal", layers(timeout, backoff.Policy{}), &backoff.Error{Attempts: 1, Reason: backoff.ReasonNotIdempotent, Last: lost}, 1},
		{"keyed by itself", layers(timeout, backoff.Policy{Idempotency: backoff.Keyed}), lost, 1},
		{"keyed by the outer one", layers(keyed, backoff.Policy{Idempotency: backoff.Keyed}), lost, 4},
		{"marked, and the mark overruled", layers(timeout, backoff.Policy{}), backoff.OfClass(backoff.Permanent(lost), backoff.ClassRetryable), 4},
		{"not sent", layers(timeout, backoff.Policy{Idempotency: backoff.NonIdempotent}), backoff.OfClass(lost, backoff.ClassNotSent), 4},
		{"neither", layers(timeout, backoff.Policy{}), lost, 4},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				err := row.doer.Do(t.Context(), func(context.Context) error {
					calls++
					time.Sleep(2 * time.Second) // deaf to the end of its context
					return row.err
				})
				require.ErrorIs(t, err, lost)
				require.Equal(t, row.calls, calls)
			})
		})
	}
}

// endless counts how often it is asked what it wraps.
type endless struct{ asked int }

func (e *endless) Error() string { return "endless" }
func (e *endless) Unwrap() error { e.asked++; return nil }

// A chain of policies that gave up is read once, not once for each of them.
func TestALongChainOfPoliciesThatTimedOutCostsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		last := new(endless)
		var chain error = last
		for range 3000 {
			chain = backoff.Policy{MaxAttempts: 1}.Do(t.Context(), func(context.Context) error { return chain })
		}
		last.asked = 0
		timeout := backoff.Policy{AttemptTimeout: time.Second, MaxAttempts: 2, Schedule: backoff.Constant(0)}
		calls := 0
		require.Error(t, layers(timeout, backoff.Policy{}).Do(t.Context(), func(context.Context) error {
			calls++
			time.Sleep(2 * time.Second)
			return chain
		}))
		require.Equal(t, 2, calls)
		require.Less(t, last.asked, 100)
	})
}

// So it is if a later attempt fails with the end of its context, and where the
// operation joins the error of the policy inside with others.
func TestWhatMustNotBeRepeatedIsFoundInTheErrorOfATimedOutAttempt(t *testing.T) {
	charge := backoff.Policy{Schedule: backoff.Constant(0), Idempotency: backoff.NonIdempotent}
	sleep := func(context.Context) error { time.Sleep(2 * time.Second); return errors.New("the answer was lost") }
	for name, op := range map[string]func(context.Context) error{
		"a later attempt": func(ctx context.Context) error {
			attempts := 0
			return backoff.Policy{Schedule: backoff.Constant(0)}.Do(ctx, func(ctx context.Context) error {
				if attempts++; attempts == 1 {
					return backoff.OfClass(errors.New("refused"), backoff.ClassNotSent)
				}
				<-ctx.Done()
				return backoff.Permanent(fmt.Errorf("the answer was lost: %w", ctx.Err()))
			})
		},
		"joined": func(ctx context.Context) error {
			return errors.Join(charge.Do(ctx, sleep), backoff.Policy{}.Do(ctx, sleep))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				timeout := backoff.Policy{Schedule: backoff.Constant(0), AttemptTimeout: time.Second}
				require.Error(t, timeout.Do(t.Context(), func(ctx context.Context) error { calls++; return op(ctx) }))
				require.Equal(t, 1, calls)
			})
		})
	}
}
