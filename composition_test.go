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
	"github.com/gobackoff/backoff/internal/nightly"
)

// downFor is an operation that fails until so much time has passed.
func downFor(d time.Duration, calls *int) func(context.Context) error {
	start := time.Now()
	return func(context.Context) error {
		*calls++
		if time.Since(start) < d {
			return errDown
		}
		return nil
	}
}

var errDown = errors.New("down")

// impatient opens at the second failure in a row, for exactly a minute, and
// closes at the first success.
func impatient() *backoff.Breaker {
	return &backoff.Breaker{ConsecutiveFailures: 2, ConsecutiveSpan: -1, OpenFor: backoff.Constant(time.Minute), Jitter: backoff.NoJitter, ProbeSuccesses: 1}
}

// The other way round: inside the loop the breaker hears every
// attempt, and its refusal ends the call with the service's last error and its
// own.
func TestAnOpenBreakerInsideEndsTheCallWithBothErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		policy := &backoff.Policy{Name: "fetch", MaxAttempts: 10, Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter}
		err := layers(policy, impatient()).Do(t.Context(), downFor(time.Hour, &calls))

		require.Equal(t, 2, calls, "the third was refused")
		requireIs(t, err, backoff.ErrOpen, errDown)
		gave := gaveUp(t, err)
		require.Equal(t, backoff.ReasonOpen, gave.Reason)
		require.Equal(t, 2, gave.Attempts)
		require.Equal(t, 59*time.Second, refusedBy(t, err).RetryAfter())

		outer := 0
		err = (&backoff.Policy{}).Do(t.Context(), func(context.Context) error { outer++; return err })
		require.ErrorIs(t, err, backoff.ErrOpen)
		require.Equal(t, 1, outer, "it is permanent to the loops around")
	})
}

// waitingFor is an operation under a breaker, whose refusals the policy around
// it waits for.
func waitingFor(breaker *backoff.Breaker, op func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := breaker.Do(ctx, op)
		if errors.Is(err, backoff.ErrOpen) {
			return backoff.OfClass(err, backoff.ClassRetryable)
		}
		return err
	}
}

func TestAPolicyWaitsExactlyUntilTheCircuitMayBeTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, start := 0, time.Now()
		clerk := new(clerk)
		policy := &backoff.Policy{MaxAttempts: 3, Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter, Budget: clerk}
		require.NoError(t, policy.Do(t.Context(), waitingFor(impatient(), downFor(30*time.Second, &calls))))
		require.Equal(t, 3, calls, "the refusal was no attempt")
		require.Equal(t, time.Minute+time.Second, time.Since(start), "a second's wait, and a minute after the second failure")
		const failed, unsent = "failed", "not sent"
		require.Equal(t, []string{failed, failed, unsent, "success"}, clerk.told, "and took no token")
	})
}

// The first refusal says when to ask again. That time is over when the last one
// ends the call.
func TestACallThatWaitedForACircuitReturnsTheLastRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		breaker := &backoff.Breaker{OpenFor: backoff.Constant(time.Minute), Jitter: backoff.NoJitter}
		breaker.Trip()
		time.AfterFunc(59*time.Second, func() { breaker.Reset(); breaker.Trip() })
		policy := &backoff.Policy{MaxRetryAfter: 90 * time.Second}
		open := refusedBy(t, policy.Do(t.Context(), waitingFor(breaker, downFor(time.Hour, new(int)))))
		require.Equal(t, 59*time.Second, open.RetryAfter())
	})
}

// An attempt timeout that ends a call of an inner policy is the outer policy's,
// which goes on: it was its own doing.
func TestAnOuterAttemptTimeoutAroundAPolicyIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		outer := &backoff.Policy{MaxAttempts: 3, AttemptTimeout: time.Second, Schedule: backoff.Constant(0)}
		inner := &backoff.Policy{MaxAttempts: 5, Schedule: backoff.Constant(400 * time.Millisecond), Jitter: backoff.NoJitter}
		err := layers(outer, inner).Do(t.Context(), downFor(time.Hour, &calls))
		requireIs(t, err, backoff.ErrExhausted, errDown)
		require.Equal(t, 3*3, calls, "three attempts of the outer one, each with time for three of the inner")
	})
}

// The caller's own deadline is another matter.
func TestAnInnerPolicyThatRunsIntoTheCallersDeadlineEndsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		ctx := within(t, time.Second)
		inner := &backoff.Policy{MaxAttempts: 5, Schedule: backoff.Constant(400 * time.Millisecond), Jitter: backoff.NoJitter}
		for _, outer := range []*backoff.Policy{{}, {AttemptTimeout: time.Hour}} {
			calls = 0
			require.ErrorIs(t, layers(outer, inner).Do(ctx, downFor(time.Hour, &calls)), context.DeadlineExceeded)
			require.LessOrEqual(t, calls, 3)
		}
	})
}

// What an inner policy gave up on was no answer that could pay for retries.
func TestAnInnerPolicysGivingUpPaysNoBudget(t *testing.T) {
	clerk := new(clerk)
	outer := &backoff.Policy{Budget: clerk}
	inner := &backoff.Policy{Schedule: backoff.Constant(0)}
	require.Error(t, layers(outer, inner).Do(t.Context(), returning(errDown).do))
	require.Equal(t, []string{"failed"}, clerk.told)
}

// The types of this package, and one that it has never seen, for DoValue to
// serve alike.
func doers() map[string]backoff.Doer {
	foreign := doer(func(ctx context.Context, op func(context.Context) error) error {
		for range 3 {
			if op(ctx) == nil {
				return nil
			}
		}
		return op(ctx)
	})
	return map[string]backoff.Doer{
		"policy": &backoff.Policy{Schedule: backoff.Constant(0)}, "foreign": foreign,
		"foreign inside": layers(&backoff.Policy{MaxAttempts: 1}, foreign), "foreign outside": layers(foreign, &backoff.Policy{MaxAttempts: 1}),
	}
}

func TestDoValueReturnsTheLastValue(t *testing.T) {
	for name, d := range doers() {
		for _, failures := range []int{0, 2, 9} {
			n := 0
			value, err := backoff.DoValue(t.Context(), d, func(context.Context) (string, error) {
				if n++; n <= failures {
					return fmt.Sprint("failure ", n), errBoom
				}
				return fmt.Sprint("success ", n), nil
			})
			switch failures {
			case 9:
				require.ErrorIs(t, err, errBoom, name)
				require.Equal(t, "failure 4", value, name)
			default:
				require.NoError(t, err, name)
				require.Equal(t, fmt.Sprint("success ", failures+1), value, name)
			}
		}
	}
}

func TestDoValueReturnsNothingWhereNothingWasCalled(t *testing.T) {
	value, err := backoff.DoValue(endedContext(t), &backoff.Policy{}, func(context.Context) (*int, error) { return new(int), nil })
	require.ErrorIs(t, err, context.Canceled)
	require.Nil(t, value)

	refuses := doer(func(context.Context, func(context.Context) error) error { return errFinal })
	value, err = backoff.DoValue(t.Context(), refuses, func(context.Context) (*int, error) { return new(int), nil })
	require.Equal(t, errFinal, err)
	require.Nil(t, value)
}

// A Doer may answer in its own words, and the value still comes back.
func TestAForeignDoersErrorIsReturnedAsItIs(t *testing.T) {
	swallows := doer(func(ctx context.Context, op func(context.Context) error) error { _ = op(ctx); return nil })
	value, err := backoff.DoValue(t.Context(), swallows, func(context.Context) (int, error) { return 7, errBoom })
	require.NoError(t, err)
	require.Equal(t, 7, value)
}

func TestAPanicPassesThroughDoValue(t *testing.T) {
	for name, d := range doers() {
		require.PanicsWithValue(t, "bug", func() {
			_, _ = backoff.DoValue(t.Context(), d, func(context.Context) (int, error) { panic("bug") })
		}, name)
	}
}

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
		bubble(t, row.name, func(t *testing.T) {
			op := returning(row.err)
			require.ErrorIs(t, row.doer.Do(t.Context(), op.lasting(2*time.Second)), lost)
			require.Len(t, op.at, row.calls)
		})
	}
}

// A chain of policies that gave up is read once, not once for each of them.
func TestALongChainOfPoliciesThatTimedOutCostsLittle(t *testing.T) {
	nightly.Long(t)
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		var chain error = &link{asked: &asked}
		for range 3000 {
			chain = backoff.Policy{MaxAttempts: 1}.Do(t.Context(), func(context.Context) error { return chain })
		}
		asked = 0
		timeout := backoff.Policy{AttemptTimeout: time.Second, MaxAttempts: 2, Schedule: backoff.Constant(0)}
		op := returning(chain)
		require.Error(t, layers(timeout, backoff.Policy{}).Do(t.Context(), op.lasting(2*time.Second)))
		require.Len(t, op.at, 2)
		require.Less(t, asked, 100)
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
		bubble(t, name, func(t *testing.T) {
			calls := 0
			timeout := backoff.Policy{Schedule: backoff.Constant(0), AttemptTimeout: time.Second}
			require.Error(t, timeout.Do(t.Context(), func(ctx context.Context) error { calls++; return op(ctx) }))
			require.Equal(t, 1, calls)
		})
	}
}
