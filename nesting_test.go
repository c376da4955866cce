package backoff_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

// flat keeps the text of an error and nothing else, as a layer that crosses a
// process or a careless %v does.
func flat(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("layer: %v", err)
}

func TestNestedPoliciesDoNotMultiplyThroughTextWhereAttemptsHaveContexts(t *testing.T) {
	plain := backoff.Policy{Schedule: backoff.Constant(0)}
	timed, keyed, single := plain, plain, plain
	timed.AttemptTimeout, keyed.Idempotency, single.MaxAttempts = time.Hour, backoff.Keyed, 1
	classified := timed
	classified.Classify = func(error) backoff.Class { return backoff.ClassRetryable }
	for name, c := range map[string]struct {
		policies []backoff.Policy
		want     int
	}{
		"none has one":          {[]backoff.Policy{plain, plain, plain}, 64},
		"the outermost has one": {[]backoff.Policy{timed, plain, plain}, 16},
		"the middle has one":    {[]backoff.Policy{plain, timed, plain}, 16},
		"the innermost has one": {[]backoff.Policy{plain, plain, timed}, 64},
		"two have one":          {[]backoff.Policy{timed, timed, plain}, 4},
		"by a key":              {[]backoff.Policy{keyed, keyed}, 4},
		"the outer one's key":   {[]backoff.Policy{keyed, keyed, keyed}, 16},
		"whatever a classifier": {[]backoff.Policy{classified, classified, plain}, 4},
		"a single attempt":      {[]backoff.Policy{timed, single}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			op := func(ctx context.Context) error {
				_ = backoff.IdempotencyKey(ctx)
				calls++
				return errors.New("two\nlines")
			}
			for i := len(c.policies) - 1; i >= 0; i-- {
				inner, policy := op, c.policies[i]
				op = func(ctx context.Context) error { return flat(policy.Do(ctx, inner)) }
			}
			require.Error(t, op(t.Context()))
			require.Equal(t, c.want, calls)
		})
	}
}

// noted returns the error of a call with a note, as package backoffhttp adds one.
func noted(t *testing.T, err error) error {
	made := *gaveUp(t, err)
	made.Note = "see there"
	return &made
}

func TestOnlyTheTextOfTheCallThatGaveUpEndsTheOuterOne(t *testing.T) {
	inner := backoff.Policy{Name: "inner", Schedule: backoff.Constant(0)}
	outer := backoff.Policy{Name: "outer", Schedule: backoff.Constant(0), AttemptTimeout: time.Hour}
	for name, c := range map[string]struct {
		after func(error) error // what the operation makes of the inner error
		want  int
	}{
		"its text":                    {flat, 1},
		"its text, with a note":       {func(err error) error { return flat(noted(t, err)) }, 1},
		"the text of another call":    {func(error) error { return errors.New("backoff: inner: gave up after 4 attempts: down") }, 4},
		"another failure":             {func(error) error { return errBoom }, 4},
		"a fixed text":                {func(error) error { return errors.New("internal error") }, 4},
		"marked as worth another try": {func(err error) error { return backoff.OfClass(flat(err), backoff.ClassRetryable) }, 4},
		"success":                     {func(error) error { return nil }, 1},
	} {
		calls := 0
		err := outer.Do(t.Context(), func(ctx context.Context) error {
			calls++
			return c.after(inner.Do(ctx, returning(errBoom).do))
		})
		require.Equal(t, c.want, calls, name)
		if name == "its text" {
			require.EqualError(t, err, "layer: backoff: inner: gave up after 4 attempts: boom")
			require.False(t, (&backoff.Policy{}).Retryable(err), "nor do policies around it retry")
		}
	}
}

func TestTheTextOfACallThatMadeNoAttemptEndsTheOuterOne(t *testing.T) {
	inner, outer, calls := backoff.Policy{Budget: refusing(1)}, backoff.Policy{AttemptTimeout: time.Hour}, 0
	err := outer.Do(t.Context(), func(ctx context.Context) error {
		calls++
		return flat(inner.Do(ctx, returning().do))
	})
	require.Equal(t, 1, calls)
	require.EqualError(t, err, "layer: backoff: not started: budget refused (Policy.Budget)")
}

// Texts carry no times, so that two calls that gave up read alike. Only the one
// inside the same attempt counts.
func TestTheTextOfACallInAnEarlierAttemptEndsNothing(t *testing.T) {
	inner := backoff.Policy{Name: "inner", Schedule: backoff.Constant(0)}
	outer := backoff.Policy{Name: "outer", Schedule: backoff.Constant(0), AttemptTimeout: time.Hour}
	calls, earlier := 0, error(nil)
	err := outer.Do(t.Context(), func(ctx context.Context) error {
		if calls++; calls == 1 {
			earlier = inner.Do(ctx, returning(errBoom).do)
			return backoff.OfClass(earlier, backoff.ClassRetryable)
		}
		return flat(earlier)
	})
	require.Equal(t, 4, calls)
	require.EqualError(t, err, "backoff: outer: gave up after 4 attempts: layer: backoff: inner: gave up after 4 attempts: boom")
}

// What ends for want of time in an attempt is retried, as without a text.
func TestATextThatSaysTheAttemptsTimeWasOverIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := backoff.Policy{Schedule: backoff.Constant(time.Hour), Jitter: backoff.NoJitter}
		outer := backoff.Policy{Schedule: backoff.Constant(0), AttemptTimeout: time.Minute}
		calls := 0
		err := outer.Do(t.Context(), func(ctx context.Context) error {
			calls++
			return flat(inner.Do(ctx, returning(errBoom).do))
		})
		require.Equal(t, 4, calls)
		require.ErrorIs(t, err, backoff.ErrAttemptTimeout)
	})
}

// The first of a group of calls to give up has the others cancelled, and then
// only its text comes back.
func TestACallThatGaveUpIsKnownByItsTextThoughOthersGaveUpLater(t *testing.T) {
	for name, end := range map[string]func(context.CancelFunc){
		"cancelled": func(cancel context.CancelFunc) { cancel() },
		"alone":     func(context.CancelFunc) {},
	} {
		synctest.Test(t, func(t *testing.T) {
			outer, attempts := backoff.Policy{AttemptTimeout: time.Minute}, 0
			err := outer.Do(t.Context(), func(ctx context.Context) error {
				attempts++
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				var group sync.WaitGroup
				var once sync.Once
				var first error
				for i := range 6 {
					group.Go(func() {
						inner := backoff.Policy{Schedule: backoff.Constant(time.Duration(i+1) * time.Second), Jitter: backoff.NoJitter}
						err := inner.Do(ctx, func(context.Context) error { return fmt.Errorf("call %d", i) })
						once.Do(func() {
							first = err
							end(cancel)
						})
					})
				}
				group.Wait()
				return fmt.Errorf("group: %v", first)
			})
			require.ErrorContains(t, err, "call 0", name)
			require.Equal(t, 1, attempts, name)
		})
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
		{"marked", backoff.Stack(timeout, backoff.Policy{}), backoff.Permanent(lost), 1},
		{"marked as overloaded", backoff.Stack(timeout, backoff.Policy{}), backoff.OfClass(lost, backoff.ClassOverloaded), 1},
		{"marked, in one attempt", backoff.Stack(timeout, backoff.Policy{MaxAttempts: 1}), backoff.Permanent(lost), 1},
		{"marked, around a breaker", backoff.Stack(timeout, new(backoff.Breaker), backoff.Policy{}), backoff.Permanent(lost), 1},
		{"marked, three policies", backoff.Stack(timeout, backoff.Policy{}, backoff.Policy{}), backoff.Permanent(lost), 1},
		{"not idempotent", backoff.Stack(timeout, backoff.Policy{Idempotency: backoff.NonIdempotent}), lost, 1},
		{"said by a literal", backoff.Stack(timeout, backoff.Policy{}), &backoff.Error{Attempts: 1, Reason: backoff.ReasonNotIdempotent, Last: lost}, 1},
		{"keyed by itself", backoff.Stack(timeout, backoff.Policy{Idempotency: backoff.Keyed}), lost, 1},
		{"keyed by the outer one", backoff.Stack(keyed, backoff.Policy{Idempotency: backoff.Keyed}), lost, 4},
		{"marked, and the mark overruled", backoff.Stack(timeout, backoff.Policy{}), backoff.OfClass(backoff.Permanent(lost), backoff.ClassRetryable), 4},
		{"not sent", backoff.Stack(timeout, backoff.Policy{Idempotency: backoff.NonIdempotent}), backoff.OfClass(lost, backoff.ClassNotSent), 4},
		{"neither", backoff.Stack(timeout, backoff.Policy{}), lost, 4},
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
		require.Error(t, backoff.Stack(timeout, backoff.Policy{}).Do(t.Context(), func(context.Context) error {
			calls++
			time.Sleep(2 * time.Second)
			return chain
		}))
		require.Equal(t, 2, calls)
		require.Less(t, last.asked, 100)
	})
}

// So it is if a later attempt fails with the end of its context, and where the
// operation joins the error of the policy inside with others or keeps its text only.
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
		"its text": func(ctx context.Context) error { return fmt.Errorf("charge: %v", charge.Do(ctx, sleep)) },
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
