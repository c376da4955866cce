package backoff_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

// Contract rows 10 and 128: one line, that reads well, for every way to end.
func TestEveryEndReadsWell(t *testing.T) {
	const minute = time.Minute
	hour := backoff.RetryAfter(errBoom, time.Hour)
	for _, row := range []struct {
		want   string
		policy backoff.Policy
		ctx    func(context.Context) (context.Context, context.CancelFunc)
		result error
	}{
		{"final", backoff.Policy{}, nil, backoff.Permanent(errFinal)},
		{"backoff: fetch: gave up after 4 attempts in 3m0s: boom", backoff.Policy{}, nil, errBoom},
		{"backoff: fetch: gave up after 1 attempt: boom", backoff.Policy{MaxAttempts: 1}, nil, errBoom},
		{"backoff: fetch: gave up after 2 attempts in 1m0s: the next wait of 1m0s would pass MaxElapsed 1m59s: boom", backoff.Policy{MaxElapsed: 2*minute - time.Second}, nil, errBoom},
		{"backoff: fetch: gave up after 1 attempt: the server asks to wait 1h0m0s, more than MaxRetryAfter 5m0s: boom", backoff.Policy{}, nil, hour},
		{"backoff: fetch: gave up after 1 attempt: the server asks to wait 1h0m0s, more than MaxRetryAfter 30m0s: boom", backoff.Policy{MaxRetryAfter: 30 * minute}, nil, hour},
		{"backoff: fetch: gave up after 1 attempt: the next wait of 1m0s would pass the deadline in 30s: boom", backoff.Policy{}, deadline(30 * time.Second), errBoom},
		{"backoff: fetch: gave up after 2 attempts in 1m0s: the next wait of 1m0s would pass the deadline in 30s: boom", backoff.Policy{}, deadline(90 * time.Second), errBoom},
		{"backoff: fetch: gave up after 1 attempt in 30s: shutdown: boom", backoff.Policy{}, cancelled(30*time.Second, errors.New("shutdown")), errBoom},
		{"backoff: fetch: gave up after 1 attempt in 30s: context canceled: boom", backoff.Policy{}, cancelled(30*time.Second, nil), errBoom},
		{"backoff: fetch: not started: context canceled", backoff.Policy{}, cancelled(0, nil), nil},
		{"backoff: fetch: not started: shutdown", backoff.Policy{}, cancelled(0, errors.New("shutdown")), nil},
		{"backoff: fetch: not started: context deadline exceeded", backoff.Policy{}, deadline(0), nil},
		{"backoff: fetch: not started: budget refused", backoff.Policy{Budget: refusing(1)}, nil, nil},
		{"backoff: fetch: gave up after 1 attempt: budget refused: boom", backoff.Policy{Budget: refusing(2)}, nil, errBoom},
		{"backoff: fetch: gave up after 1 attempt: not idempotent, not sent again: boom", backoff.Policy{Idempotency: backoff.NonIdempotent}, nil, errBoom},
		{"backoff: fetch: gave up after 1 attempt: the server says not to retry: boom", backoff.Policy{}, nil, backoff.WithClass(errBoom, backoff.ClassOverloaded)},
		{"backoff: fetch: gave up after 1 attempt: the server says not to retry: boom", backoff.Policy{}, nil, backoff.Pushback(errBoom, -1)},
		{"backoff: Policy.Schedule is an empty Sequence, want at least one delay", backoff.Policy{Schedule: backoff.Sequence()}, nil, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			policy := row.policy
			policy.Name, policy.Jitter = "fetch", backoff.NoJitter
			if policy.Schedule == nil {
				policy.Schedule = backoff.Constant(minute)
			}
			ctx := t.Context()
			if row.ctx != nil {
				var cancel context.CancelFunc
				ctx, cancel = row.ctx(ctx)
				defer cancel()
			}
			require.EqualError(t, policy.Do(ctx, returning(row.result).do), row.want)
		})
	}
}

func deadline(in time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
	return func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, in) }
}

// cancelled ends the context after a time, at once if that is 0.
func cancelled(after time.Duration, cause error) func(context.Context) (context.Context, context.CancelFunc) {
	return func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancelCause(ctx)
		if after == 0 {
			cancel(cause)
		} else {
			time.AfterFunc(after, func() { cancel(cause) })
		}
		return ctx, func() { cancel(nil) }
	}
}

// What the operation reports of the context's end need not be said twice.
func TestTheEndOfTheContextIsToldOnce(t *testing.T) {
	for _, end := range []func(context.Context) (context.Context, context.CancelFunc){deadline(time.Second), cancelled(time.Second, io.ErrClosedPipe)} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := end(t.Context())
			defer cancel()
			err := (&backoff.Policy{}).Do(ctx, func(ctx context.Context) error {
				<-ctx.Done()
				return context.Cause(ctx)
			})
			require.EqualError(t, err, "backoff: gave up after 1 attempt: "+context.Cause(ctx).Error())
		})
	}
}

func TestATimedOutAttemptIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := steady(time.Second)
		policy.AttemptTimeout = time.Second
		err := policy.Do(t.Context(), func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		require.EqualError(t, err, "backoff: gave up after 4 attempts in 7s: attempt timed out: context deadline exceeded")
	})
}

// The clock is read when an attempt has failed. Of that attempt it tells
// nothing, so that "in 3µs" would be untrue. Real time, as none passes in a
// bubble; nothing is waited for.
func TestTheTimeOfOneAttemptIsNotToldWhereNobodyMeasuredIt(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var events []backoff.Event
	policy := backoff.Policy{Schedule: backoff.Constant(time.Hour), Jitter: backoff.NoJitter}
	policy.Observer = func(_ context.Context, e backoff.Event) { events = append(events, e) }
	fail := func(context.Context) error { return errBoom }

	require.Zero(t, gaveUp(t, policy.Do(ctx, fail)).Elapsed)
	require.Zero(t, events[0].Elapsed)

	policy.MaxElapsed = time.Minute
	require.NotZero(t, gaveUp(t, policy.Do(ctx, fail)).Elapsed)
	require.NotZero(t, events[1].Elapsed)
}

// The doc comment of Error says from when Elapsed counts. Two attempts and one
// wait of a second each are three seconds, or two without the first attempt.
func TestElapsedCountsFromTheBeginningIfAnythingNeedsTheClock(t *testing.T) {
	for name, policy := range map[string]backoff.Policy{
		"MaxElapsed": {MaxElapsed: time.Hour}, "AttemptTimeout": {AttemptTimeout: time.Hour},
		"Idempotency": {Idempotency: backoff.Idempotent}, "Budget": {Budget: &ledger{}},
		"RetryBudget": {Budget: &backoff.RetryBudget{}}, "Observer": {Observer: func(context.Context, backoff.Event) {}}, "nothing": {},
	} {
		synctest.Test(t, func(t *testing.T) {
			policy.Schedule, policy.Jitter, policy.MaxAttempts = backoff.Constant(time.Second), backoff.NoJitter, 2
			err := policy.Do(t.Context(), func(context.Context) error { time.Sleep(time.Second); return errBoom })
			want := 3 * time.Second
			if name == "nothing" || name == "RetryBudget" || name == "Observer" {
				want = 2 * time.Second
			}
			require.Equal(t, want, gaveUp(t, err).Elapsed, name)
		})
	}
}

func TestTheTextRoundsItsTimes(t *testing.T) {
	for elapsed, want := range map[time.Duration]string{
		0: "", 999: " in 999ns", 1234567: " in 1.23ms", 1234567890: " in 1.23s", time.Minute: " in 1m0s",
		61400 * time.Millisecond: " in 1m1s", 25*time.Hour + 1: " in 25h0m0s",
	} {
		e := &backoff.Error{Attempts: 2, Elapsed: elapsed, Reason: backoff.ReasonAttempts, Last: errBoom}
		require.EqualError(t, e, "backoff: gave up after 2 attempts"+want+": boom")
	}
}

// Which sentinels an ending matches: the one of its reason, and no other. The
// operation's own error it matches always.
func TestAnEndMatchesItsReasonAndNoOther(t *testing.T) {
	sentinels := []error{backoff.ErrExhausted, backoff.ErrBudget, backoff.ErrOpen, backoff.ErrAttemptTimeout, context.DeadlineExceeded, context.Canceled, errBoom}
	names := []string{"exhausted", "budget", "open", "attempt timeout", "deadline", "canceled", "last"}
	want := map[backoff.Reason][]string{
		backoff.ReasonPermanent:     {"last"},
		backoff.ReasonAttempts:      {"exhausted", "last"},
		backoff.ReasonElapsed:       {"exhausted", "last"},
		backoff.ReasonRetryAfter:    {"exhausted", "last"},
		backoff.ReasonDeadline:      {"deadline", "last"},
		backoff.ReasonCanceled:      {"canceled", "last"},
		backoff.ReasonNotIdempotent: {"last"},
		backoff.ReasonOverloaded:    {"last"},
		backoff.ReasonAbandoned:     {"last"},
		backoff.ReasonBudget:        {"budget", "last"},
		backoff.ReasonOpen:          {"open", "last"},
		backoff.ReasonInvalid:       nil,
	}
	seen := 0
	for _, end := range endings() {
		synctest.Test(t, func(t *testing.T) {
			err := end.call(t, steady(time.Minute))
			if e, ok := errors.AsType[*backoff.Error](err); ok && e.Attempts == 0 {
				return // refused before it could say anything
			}
			if errors.Is(err, errFinal) {
				err = fmt.Errorf("%w, %w", err, errBoom)
			}
			seen++
			var got []string
			for i, sentinel := range sentinels {
				if errors.Is(err, sentinel) {
					got = append(got, names[i])
				}
			}
			require.Equal(t, want[end.want], got, "%v", end.want)
		})
	}
	require.Equal(t, len(want), seen)
}

// Contract row 30: the tree of the last error stays whole, for Is and As alike.
func TestTheLastErrorIsReachedWithItsWholeTree(t *testing.T) {
	last := fmt.Errorf("get: %w", errors.Join(statusError(503), io.ErrUnexpectedEOF))
	for _, result := range []error{last, backoff.Permanent(last), backoff.RetryAfter(last, time.Hour), backoff.WithClass(last, backoff.ClassOverloaded)} {
		err := (&backoff.Policy{Schedule: backoff.Constant(0)}).Do(t.Context(), returning(result).do)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.ErrorIs(t, err, last)
		got, ok := errors.AsType[statusError](err)
		require.True(t, ok)
		require.Equal(t, statusError(503), got)
		require.Contains(t, strings.ReplaceAll(err.Error(), "\n", "; "), strings.ReplaceAll(last.Error(), "\n", "; "))
	}
}

// A permanent error comes back as if there had been no policy.
func TestAPermanentErrorComesBackAsItIs(t *testing.T) {
	cause := errors.New("cause")
	for _, result := range []error{
		backoff.Permanent(fmt.Errorf("op: %w", cause)),
		fmt.Errorf("op: %w", backoff.Permanent(cause)),
		fmt.Errorf("op: %w", errors.Join(backoff.Permanent(cause), io.ErrClosedPipe)),
		fmt.Errorf("op: %w", httpStatus{404, cause}),
	} {
		policy := backoff.Policy{Name: "fetch"}
		err := policy.Do(t.Context(), returning(result).do)
		require.EqualError(t, err, result.Error())
		require.ErrorIs(t, err, result)
		require.ErrorIs(t, err, cause)
		require.Equal(t, errors.Is(result, io.ErrClosedPipe), errors.Is(err, io.ErrClosedPipe), "the sibling")
		_, ok := errors.AsType[*backoff.Error](err)
		require.False(t, ok)
		require.False(t, policy.Retryable(err), "and is permanent to a policy around")
	}
}

// An inner policy's classifier knows its operation, the outer one's need not.
func TestWhatAnInnerClassifierRefusedIsFinalOutside(t *testing.T) {
	inner := backoff.Policy{Classify: backoff.RetryIf(func(error) bool { return false })}
	outer := backoff.Policy{Schedule: backoff.Constant(0)}
	op := returning(errBoom)
	require.EqualError(t, outer.Wrap(inner.Wrap(op.do))(t.Context()), "boom")
	require.Len(t, op.at, 1)
}

// Contract rows 37 and 38, in one process.
func TestLayersCallAsOftenAsTheInnermostAllows(t *testing.T) {
	layers := func(inner backoff.Policy, between func(error) error) int {
		calls := 0
		op := inner.Wrap(func(context.Context) error { calls++; return errBoom })
		outer := backoff.Policy{MaxAttempts: 3, Schedule: backoff.Constant(0)}
		for range 2 {
			wrapped := op
			op = outer.Wrap(func(ctx context.Context) error { return between(wrapped(ctx)) })
		}
		_ = op(t.Context())
		return calls
	}
	three := backoff.Policy{MaxAttempts: 3, Schedule: backoff.Constant(0)}
	require.Equal(t, 3, layers(three, func(err error) error { return err }))
	require.Equal(t, 3, layers(three, func(err error) error { return fmt.Errorf("layer: %w", err) }))
	require.Equal(t, 3, layers(three, func(err error) error { return errors.Join(err, io.EOF) }))
	require.Equal(t, 27, layers(three, func(err error) error { return backoff.WithClass(err, backoff.ClassRetryable) }), "opted out, at every layer")
}

// A policy that makes one attempt has retried nothing, so the layer above may.
func TestASingleAttemptPolicyLeavesRetryingToOthers(t *testing.T) {
	for name, inner := range map[string]*backoff.Policy{
		"one attempt": {MaxAttempts: 1}, "of any kind": {Idempotency: backoff.AlwaysRetry, MaxAttempts: 1},
	} {
		outer := backoff.Policy{MaxAttempts: 3, Schedule: backoff.Constant(0)}
		op := returning(errBoom)
		err := outer.Wrap(inner.Wrap(op.do))(t.Context())
		require.Len(t, op.at, 3, name)
		require.ErrorIs(t, err, backoff.ErrExhausted)
		require.Equal(t, 3, gaveUp(t, err).Attempts, "the outer policy's error")

		op = returning(backoff.Permanent(errBoom))
		require.Error(t, outer.Wrap(inner.Wrap(op.do))(t.Context()))
		require.Len(t, op.at, 1, "%s: what is permanent stays so", name)

		op = returning(backoff.WithClass(errBoom, backoff.ClassOverloaded))
		require.Error(t, outer.Wrap(inner.Wrap(op.do))(t.Context()))
		require.Len(t, op.at, 1, "%s: so does what the server forbids", name)
	}
}

// It also hands on what the error says of itself.
func TestASingleAttemptPolicyIsTransparentToRetryAfterAndClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, outer := backoff.Policy{MaxAttempts: 1}, steady(time.Second)
		outer.Idempotency = backoff.NonIdempotent
		op := returning(backoff.Pushback(backoff.WithClass(errBoom, backoff.ClassNotSent), time.Minute), nil)
		require.NoError(t, outer.Wrap(inner.Wrap(op.do))(t.Context()))
		require.Equal(t, msec(0, 60_000), op.at)
	})
}

func TestAnErrorSpeaksToTheLoopsOfOthers(t *testing.T) {
	exhausted := gaveUp(t, (&backoff.Policy{Schedule: backoff.Constant(0)}).Do(t.Context(), returning(errBoom).do))
	var azcore interface{ NonRetriable() } = exhausted
	azcore.NonRetriable()
	require.False(t, exhausted.RetryableError(), "the AWS SDK's question")

	single := backoff.Policy{MaxAttempts: 1}
	require.True(t, gaveUp(t, single.Do(t.Context(), returning(errBoom).do)).RetryableError())
	overloaded := backoff.WithClass(errBoom, backoff.ClassOverloaded)
	require.False(t, gaveUp(t, single.Do(t.Context(), returning(overloaded).do)).RetryableError())
}

// A call that gave up before the deadline did not fail by what became of the
// context later.
func TestALaterCancellationDoesNotShowInAnEarlierError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancelCause(t.Context())
		ctx, stop := context.WithTimeout(parent, time.Minute)
		defer stop()
		early := steady(time.Hour).Do(ctx, returning(errBoom).do)
		exhausted := steady(0).Do(ctx, returning(errBoom).do)
		before := early.Error() + exhausted.Error()

		cancel(io.ErrClosedPipe)

		for _, err := range []error{early, exhausted} {
			require.NotErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, io.ErrClosedPipe)
		}
		require.Equal(t, before, early.Error()+exhausted.Error())
		require.ErrorIs(t, early, context.DeadlineExceeded)
	})
}

func TestTheCauseOfADeadlineIsMatchedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, io.ErrNoProgress)
		defer cancel()
		err := steady(0).Do(ctx, func(ctx context.Context) error { <-ctx.Done(); return errBoom })
		for _, want := range []error{context.DeadlineExceeded, io.ErrNoProgress, errBoom} {
			require.ErrorIs(t, err, want)
		}
	})
}

// The doc comment of Hint: what the server asked for last.
func TestTheErrorCarriesTheLastRetryAfter(t *testing.T) {
	hinted := backoff.RetryAfter(errBoom, time.Minute)
	for name, call := range map[string]func(ctx context.Context) error{
		"deadline": func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return steady(0).Do(ctx, returning(hinted).do)
		},
		"attempts": func(ctx context.Context) error {
			return (&backoff.Policy{MaxAttempts: 1}).Do(ctx, returning(hinted).do)
		},
		"budget": func(ctx context.Context) error {
			return (&backoff.Policy{Budget: refusing(2)}).Do(ctx, returning(hinted).do)
		},
		"cancelled sleep": func(ctx context.Context) error {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			return steady(0).Do(ctx, returning(hinted).do)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			require.Equal(t, time.Minute, gaveUp(t, call(t.Context())).RetryAfter(), name)
		})
	}
}

// Error is exported, so that others can make one: in their tests, for instance.
func TestAnErrorMadeByHandDoesNotPanic(t *testing.T) {
	for reason := backoff.ReasonSuccess; reason <= backoff.ReasonInvalid+1; reason++ {
		e := &backoff.Error{Name: "fetch", Reason: reason, Last: errBoom, Attempts: 1}
		require.NotPanics(t, func() {
			require.Contains(t, e.Error(), "boom", "%v", reason)
			require.ErrorIs(t, e, errBoom, "%v", reason)
		}, "%v", reason)
	}
}

func TestAnErrorMadeByHandReadsAndMatchesAsTheOthersDo(t *testing.T) {
	open := &backoff.Error{Reason: backoff.ReasonOpen, Last: errBoom, Attempts: 1}
	require.EqualError(t, open, "backoff: gave up after 1 attempt: circuit open: boom")
	require.ErrorIs(t, open, backoff.ErrOpen)
	late := &backoff.Error{Reason: backoff.ReasonDeadline, Last: errBoom, Attempts: 1}
	require.EqualError(t, late, "backoff: gave up after 1 attempt: context deadline exceeded: boom")
}

func TestReasonsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for reason := backoff.ReasonSuccess; reason <= backoff.ReasonInvalid; reason++ {
		require.NotEqual(t, "unknown", reason.String())
		seen[reason.String()] = true
	}
	require.Len(t, seen, int(backoff.ReasonInvalid)+1)
	require.Equal(t, "canceled", backoff.ReasonCanceled.String())
	require.Equal(t, "unknown", (backoff.ReasonInvalid + 1).String())
	require.Equal(t, "unknown", backoff.Reason(200).String())
}

// Cause is for callers that compare errors by ==, or switch on their types.
func TestCauseIsTheOperationsOwnError(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	call := func(ctx context.Context, err error) error { return steady(0).Do(ctx, returning(err).do) }
	refused := backoff.Policy{Budget: &recordingBudget{name: "r", log: new([]string), refuse: true}}.Do(t.Context(), returning(nil).do)
	wrapped := fmt.Errorf("layer: %w", errBoom)
	for _, c := range []struct{ err, want error }{
		{nil, nil},
		{errBoom, errBoom},
		{call(t.Context(), errBoom), errBoom},
		{call(t.Context(), backoff.Permanent(errFinal)), errFinal},
		{call(t.Context(), wrapped), wrapped},
		{backoff.RetryAfter(backoff.WithClass(errBoom, backoff.ClassThrottled), time.Hour), errBoom},
		{call(t.Context(), call(t.Context(), errBoom)), errBoom},
		{call(ended, errBoom), context.Canceled},
		{refused, refused},
	} {
		require.True(t, backoff.Cause(c.err) == c.want, "%v: %v", c.err, backoff.Cause(c.err))
	}
}
