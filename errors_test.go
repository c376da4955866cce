package backoff_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/hedge"
)

// One line, that reads well, for every way to end.
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
		{"backoff: fetch: gave up after 4 attempts: boom", backoff.Policy{}, nil, errBoom},
		{"backoff: fetch: gave up after 1 attempt: boom", backoff.Policy{MaxAttempts: 1}, nil, errBoom},
		{"backoff: fetch: gave up after 2 attempts: out of time (MaxElapsed): boom", backoff.Policy{MaxElapsed: 2*minute - time.Second}, nil, errBoom},
		{"backoff: fetch: gave up after 1 attempt: the server asks for a longer wait (MaxRetryAfter): boom", backoff.Policy{}, nil, hour},
		{"backoff: fetch: gave up after 1 attempt: the next wait would pass the deadline: boom", backoff.Policy{}, deadline(30 * time.Second), errBoom},
		{"backoff: fetch: gave up after 2 attempts: the next wait would pass the deadline: boom", backoff.Policy{}, deadline(90 * time.Second), errBoom},
		{"backoff: fetch: gave up after 1 attempt: shutdown: boom", backoff.Policy{}, cancelled(30*time.Second, errors.New("shutdown")), errBoom},
		{"backoff: fetch: gave up after 1 attempt: context canceled: boom", backoff.Policy{}, cancelled(30*time.Second, nil), errBoom},
		{"backoff: fetch: not started: context canceled", backoff.Policy{}, cancelled(0, nil), nil},
		{"backoff: fetch: not started: shutdown", backoff.Policy{}, cancelled(0, errors.New("shutdown")), nil},
		{"backoff: fetch: not started: context deadline exceeded", backoff.Policy{}, deadline(0), nil},
		{"backoff: fetch: not started: budget refused (Budget)", backoff.Policy{Budget: refusing(1)}, nil, nil},
		{"backoff: fetch: not started: the Budget makes it wait until after the deadline", backoff.Policy{Budget: &ledger{wait: func(backoff.Attempt) time.Duration { return minute }}}, deadline(30 * time.Second), nil},
		{"backoff: fetch: gave up after 1 attempt: budget refused (Budget): boom", backoff.Policy{Budget: refusing(2)}, nil, errBoom},
		{"backoff: fetch: gave up after 1 attempt: not idempotent (Idempotency): boom", backoff.Policy{Idempotency: backoff.NonIdempotent}, nil, errBoom},
		{"backoff: fetch: gave up after 1 attempt: not to be retried: boom", backoff.Policy{}, nil, backoff.OfClass(errBoom, backoff.ClassOverloaded)},
		{"backoff: fetch: gave up after 1 attempt: not to be retried: boom", backoff.Policy{}, nil, backoff.Pushback(errBoom, -1)},
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

// Two attempts and one wait of a second each are three seconds.
func TestElapsedIsSinceTheCallBegan(t *testing.T) {
	for name, policy := range map[string]backoff.Policy{
		"MaxElapsed": {MaxElapsed: time.Hour}, "AttemptTimeout": {AttemptTimeout: time.Hour}, "Budget": {Budget: &ledger{}},
		"RetryBudget": {Budget: &backoff.RetryBudget{}}, "nothing": {},
	} {
		synctest.Test(t, func(t *testing.T) {
			policy.Schedule, policy.Jitter, policy.MaxAttempts = backoff.Constant(time.Second), backoff.NoJitter, 2
			fail := func(context.Context) error { time.Sleep(time.Second); return errBoom }
			events := watch(&policy)
			require.Error(t, policy.Do(t.Context(), fail))
			require.NoError(t, policy.Do(t.Context(), func(context.Context) error { time.Sleep(time.Minute); return nil }))
			require.Error(t, loop(policy.Start(t.Context()), fail))
			r := policy.Start(t.Context()) // which learns of the first attempt afterwards
			for _, again := r.Tried(fail(t.Context())); again; _, again = r.Tried(fail(t.Context())) {
			}
			elapsed := each(*events, func(e backoff.Event) time.Duration { return e.Elapsed })
			require.Equal(t, msec(1000, 3000, 60_000, 1000, 3000, 0, 1000), elapsed, name)
		})
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
			var e *backoff.Error
			if errors.As(err, &e) && e.Attempts == 0 {
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

// The tree of the last error stays whole, for Is and As alike.
func TestTheLastErrorIsReachedWithItsWholeTree(t *testing.T) {
	last := fmt.Errorf("get: %w", errors.Join(statusError(503), io.ErrUnexpectedEOF))
	for _, result := range []error{last, backoff.Permanent(last), backoff.RetryAfter(last, time.Hour), backoff.OfClass(last, backoff.ClassOverloaded)} {
		err := (&backoff.Policy{Schedule: backoff.Constant(0)}).Do(t.Context(), returning(result).do)
		requireIs(t, err, io.ErrUnexpectedEOF, last)
		var got statusError
		require.ErrorAs(t, err, &got)
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
		requireIs(t, err, result, cause)
		require.Equal(t, errors.Is(result, io.ErrClosedPipe), errors.Is(err, io.ErrClosedPipe), "the sibling")
		ok := errors.As(err, new(*backoff.Error))
		require.False(t, ok)
		require.False(t, policy.Retryable(err), "and is permanent to a policy around")
	}
}

// What the default classifier finds permanent needs no mark, because any loop
// would find the same. So ==, type switches and %T work.
func TestAPermanentErrorComesBackAsTheOperationReturnedIt(t *testing.T) {
	answer := &httpStatus{404, errBoom}
	for name, want := range map[string]error{
		"an answer":               answer,
		"an answer, wrapped":      fmt.Errorf("op: %w", answer),
		"no such host":            &net.DNSError{Err: "no such host", IsNotFound: true},
		"its own cancellation":    context.Canceled,
		"marked by the operation": backoff.Permanent(errFinal),
	} {
		for way, call := range ways {
			calls := 0
			op := func(context.Context) error { calls++; return want }
			inner, outer := backoff.Policy{}, backoff.Policy{AttemptTimeout: time.Hour}
			err := call(t.Context(), &outer, func(ctx context.Context) error { return call(ctx, &inner, op) })
			require.True(t, err == want, "%s by %s: %T", name, way, err)
			require.Equal(t, 1, calls, "%s by %s", name, way)
		}
		_, err := hedge.Value(t.Context(), new(hedge.Hedge), func(context.Context) (int, error) { return 0, want }, nil)
		require.True(t, err == want, "%s in a Hedge: %T", name, err)
	}
}

// refuses refuses every error.
func refuses(error) bool { return false }

// An inner policy's classifier knows its operation, the outer one's need not.
func TestWhatAnInnerClassifierRefusedIsPermanentOutside(t *testing.T) {
	inner := backoff.Policy{Classify: backoff.RetryIf(refuses)}
	for name, outer := range map[string]backoff.Policy{
		"by default": {}, "whatever its classifier": {Classify: backoff.RetryIf(func(error) bool { return true })},
	} {
		outer.Schedule = backoff.Constant(0)
		op := returning(errBoom)
		err := outer.Wrap(inner.Wrap(op.do))(t.Context())
		require.EqualError(t, err, "boom", name)
		require.True(t, backoff.Cause(err) == errBoom, name)
		require.Len(t, op.at, 1, name)
	}
}

// Then a mark would say what any loop around the policy finds by itself.
func TestWhatBothClassifiersRefuseComesBackAsTheOperationReturnedIt(t *testing.T) {
	missing := &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", IsNotFound: true}}
	for _, want := range []error{&httpStatus{404, errBoom}, missing, context.Canceled} {
		inner, outer := backoff.Policy{Classify: backoff.RetryIf(refuses)}, backoff.Policy{Schedule: backoff.Constant(0)}
		op := returning(want)
		err := outer.Wrap(inner.Wrap(op.do))(t.Context())
		require.True(t, err == want, "%T", err)
		require.Len(t, op.at, 1, "%T", want)
		_, err = hedge.Value(t.Context(), &hedge.Hedge{Classify: backoff.RetryIf(refuses)}, func(context.Context) (int, error) { return 0, want }, nil)
		require.True(t, err == want, "%T in a Hedge", err)
	}
}

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
	require.Equal(t, 27, layers(three, func(err error) error { return backoff.OfClass(err, backoff.ClassRetryable) }), "opted out, at every layer")
}

// A policy that makes one attempt has retried nothing, so the layer above may.
func TestASingleAttemptPolicyLeavesRetryingToOthers(t *testing.T) {
	for name, inner := range map[string]*backoff.Policy{
		"one attempt": {MaxAttempts: 1}, "of any kind": {Idempotency: backoff.Idempotent, MaxAttempts: 1},
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

		op = returning(backoff.OfClass(errBoom, backoff.ClassOverloaded))
		require.Error(t, outer.Wrap(inner.Wrap(op.do))(t.Context()))
		require.Len(t, op.at, 1, "%s: so does what the server forbids", name)
	}
}

// It also hands on what the error says of itself.
func TestASingleAttemptPolicyIsTransparentToRetryAfterAndClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, outer := backoff.Policy{MaxAttempts: 1}, steady(time.Second)
		outer.Idempotency = backoff.NonIdempotent
		op := returning(backoff.Pushback(backoff.OfClass(errBoom, backoff.ClassNotSent), time.Minute), nil)
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
	overloaded := backoff.OfClass(errBoom, backoff.ClassOverloaded)
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
		requireIs(t, err, context.DeadlineExceeded, io.ErrNoProgress, errBoom)
	})
}

// The doc comment of Hint: what the server asked for last.
func TestTheErrorCarriesTheLastRetryAfter(t *testing.T) {
	hinted := backoff.RetryAfter(errBoom, time.Minute)
	for name, call := range map[string]func(*testing.T) error{
		"deadline": func(t *testing.T) error { return steady(0).Do(within(t, time.Second), returning(hinted).do) },
		"budget": func(t *testing.T) error {
			return (&backoff.Policy{Budget: refusing(2)}).Do(t.Context(), returning(hinted).do)
		},
		"cancelled sleep": func(t *testing.T) error {
			return steady(0).Do(cancelledAfter(t, time.Second), returning(hinted).do)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			require.Equal(t, time.Minute, gaveUp(t, call(t)).RetryAfter(), name)
		})
	}
}

// Error is exported, so that others can make one: in their tests, for instance.
func TestAnErrorMadeByHandDoesNotPanic(t *testing.T) {
	open := &backoff.Error{Reason: backoff.ReasonOpen, Last: errBoom, Attempts: 1}
	require.EqualError(t, open, "backoff: gave up after 1 attempt: circuit open: boom")
	require.ErrorIs(t, open, backoff.ErrOpen)
	late := &backoff.Error{Reason: backoff.ReasonDeadline, Last: errBoom, Attempts: 1}
	require.EqualError(t, late, "backoff: gave up after 1 attempt: context deadline exceeded: boom")
	for reason := backoff.Reason(0); reason <= backoff.ReasonInvalid+1; reason++ {
		e := &backoff.Error{Name: "fetch", Reason: reason, Last: errBoom, Attempts: 1}
		require.NotPanics(t, func() {
			require.Contains(t, e.Error(), "boom", "%v", reason)
			require.ErrorIs(t, e, errBoom, "%v", reason)
		}, "%v", reason)
	}
}

// Cause is for callers that compare errors by ==, or switch on their types.
func TestCauseIsTheOperationsOwnError(t *testing.T) {
	call := func(ctx context.Context, err error) error { return steady(0).Do(ctx, returning(err).do) }
	refused := backoff.Policy{Budget: refusing(1)}.Do(t.Context(), returning(nil).do)
	wrapped := fmt.Errorf("layer: %w", errBoom)
	layered := fmt.Errorf("layer: %w", call(t.Context(), errBoom))
	open := &backoff.OpenError{Last: errBoom}
	early := backoff.Policy{Budget: &clerk{reserve: after(2 * time.Hour)}}.Do(within(t, time.Hour), returning(nil).do)
	for _, c := range []struct{ err, want error }{
		{nil, nil},
		{errBoom, errBoom},
		{call(t.Context(), errBoom), errBoom},
		{call(t.Context(), backoff.Permanent(errFinal)), errFinal},
		{call(t.Context(), wrapped), wrapped},
		{backoff.RetryAfter(backoff.OfClass(errBoom, backoff.ClassThrottled), time.Hour), errBoom},
		{call(t.Context(), call(t.Context(), errBoom)), errBoom},
		{call(endedContext(t), errBoom), context.Canceled},
		{call(within(t, 0), errBoom), context.DeadlineExceeded},
		{early, context.DeadlineExceeded},
		{refused, refused},
		{open, open},
		{call(t.Context(), open), open},
		{layered, layered},
	} {
		require.True(t, backoff.Cause(c.err) == c.want, "%v: %v", c.err, backoff.Cause(c.err))
	}
}

// After three answers that said why, an attempt that the deadline cut says
// nothing new.
func TestTheLastErrorFromWhileTheContextLivedIsKeptAndShown(t *testing.T) {
	errQuota := backoff.RetryAfter(errors.New("quota exceeded"), time.Second)
	for name, end := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"context deadline exceeded": deadline(30 * time.Second), "shutdown": cancelled(30*time.Second, errors.New("shutdown")),
	} {
		for way, call := range waysToFail {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := end(t.Context())
				defer cancel()
				policy := steady(time.Second)
				events := watch(policy)
				calls := 0
				err := call(ctx, policy, func(ctx context.Context) error {
					if calls++; calls < 4 {
						return errQuota
					}
					<-ctx.Done()
					return &net.OpError{Op: "read", Err: ctx.Err()}
				})
				require.EqualError(t, err, "backoff: gave up after 4 attempts: "+name+": quota exceeded", way)
				e := gaveUp(t, err)
				require.Equal(t, errQuota, e.Last, way)
				require.Equal(t, time.Second, e.RetryAfter(), "which Last said, by %s", way)
				require.ErrorIs(t, err, errQuota, way)
				require.ErrorIs(t, err, ctx.Err(), way)
				require.ErrorAs(t, err, new(*net.OpError), "nothing is lost, by %s", way)
				last := (*events)[len(*events)-1]
				require.Equal(t, errQuota, last.Err, way)
				require.Equal(t, backoff.ClassUnknown, last.Class, "which is not that of the other error, by %s", way)
			})
		}
	}
}

// Who hears "declined" must not read that the service was busy.
func TestAnAnswerThatComesAsTheContextEndsIsTheLastError(t *testing.T) {
	declined := backoff.Permanent(errors.New("declined"))
	for name, row := range map[string]struct{ answer, last error }{
		"marked as permanent":     {declined, declined},
		"do not retry":            {backoff.Pushback(errFinal, -1), backoff.Pushback(errFinal, -1)},
		"a marked end":            {backoff.Permanent(context.Canceled), errBoom},
		"an end":                  {context.Canceled, errBoom},
		"what a loop gave up on":  {&backoff.Error{Reason: backoff.ReasonBudget, Last: errFinal}, errBoom},
		"what a breaker refused":  {&backoff.OpenError{}, errBoom},
		"a failure that may pass": {backoff.OfClass(errFinal, backoff.ClassRetryable), errBoom},
	} {
		for way, call := range waysToFail {
			ctx, cancel := context.WithCancel(t.Context())
			calls := 0
			err := call(ctx, steady(0), func(context.Context) error {
				if calls++; calls == 1 {
					return errBoom
				}
				cancel()
				return row.answer
			})
			require.Equal(t, row.last, gaveUp(t, err).Last, "%s by %s", name, way)
			require.ErrorIs(t, err, context.Canceled, "%s by %s", name, way)
		}
	}
}

// A sibling's failure is often why a context ends.
func TestTheCauseOfAContextIsPartOfOneLine(t *testing.T) {
	sibling := (&backoff.Policy{Name: "users", MaxAttempts: 1}).Do(t.Context(), returning(errors.Join(errBoom, errFinal)).do)
	for want, cause := range map[string]error{
		"backoff: orders: not started: users: gave up after 1 attempt: boom; final": sibling,
		"backoff: orders: not started: boom; final":                                 errors.Join(errBoom, errFinal),
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		require.EqualError(t, backoff.Policy{Name: "orders"}.Do(ctx, returning(nil).do), want)
		require.EqualError(t, backoff.Policy{Name: "orders"}.Do(ctx, returning(nil).do), want)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	err := (&backoff.Policy{}).Do(ctx, func(context.Context) error { cancel(sibling); return sibling })
	require.EqualError(t, err, "backoff: gave up after 1 attempt: users: gave up after 1 attempt: boom; final", "said once")
}

// A breaker keeps the error that opened it for as long as it is open.
func TestAnErrorKeepsNoContextThatDidNotEndTheCall(t *testing.T) {
	type key struct{}
	for name, policy := range map[string]backoff.Policy{
		"attempts": {MaxAttempts: 1}, "budget": {Budget: refusing(2)}, "the server": {MaxRetryAfter: 1},
	} {
		large := new([1 << 20]byte)
		kept := weak.Make(large)
		ctx := context.WithValue(t.Context(), key{}, large)
		err := policy.Do(ctx, returning(backoff.RetryAfter(errBoom, time.Second)).do)
		ctx, large = nil, nil
		runtime.GC()
		require.True(t, kept.Value() == nil, name)
		runtime.KeepAlive(err)
	}
}

// waysToFail are ways, and a loop that does not call Begin.
var waysToFail = func() map[string]func(context.Context, *backoff.Policy, func(context.Context) error) error {
	all := maps.Clone(ways)
	all["Tried"] = func(ctx context.Context, p *backoff.Policy, op func(context.Context) error) error {
		r := p.Start(ctx)
		for {
			pause, ok := r.Tried(op(ctx))
			if !ok {
				return r.Err()
			}
			time.Sleep(pause)
		}
	}
	return all
}()

// What failed before the last Progress is another story.
func TestAnErrorFromBeforeTheLastProgressIsNotTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := within(t, time.Hour)
		r := steady(time.Second).Start(ctx)
		for range r.Attempts() {
			if r.Attempt() == 1 {
				r.Fail(errBoom)
				continue
			}
			r.Progress()
			<-ctx.Done()
			r.Fail(io.ErrUnexpectedEOF)
		}
		require.EqualError(t, r.Err(), "backoff: gave up after 1 attempt: context deadline exceeded: unexpected EOF")
		require.NotErrorIs(t, r.Err(), errBoom)
	})
}

// Guards around one another say "backoff:" once, and what opened a circuit is
// told without the loop around it.
func TestGuardsAroundOneAnotherSayTheirPrefixOnce(t *testing.T) {
	breaker := func() *backoff.Breaker {
		return &backoff.Breaker{Name: "orders", ConsecutiveFailures: 1, ConsecutiveSpan: -1}
	}
	policy := &backoff.Policy{Name: "orders", Schedule: backoff.Constant(0)}
	once := &backoff.Policy{Name: "once", MaxAttempts: 1}
	fail := returning(errors.New("status 503")).do
	failed := func(d backoff.Doer) error { _ = d.Do(t.Context(), fail); return d.Do(t.Context(), fail) }

	require.EqualError(t, failed(layers(breaker(), policy)), "backoff: orders: circuit open: status 503")
	require.EqualError(t, failed(layers(breaker(), once, policy)), "backoff: orders: circuit open: status 503")
	require.EqualError(t, failed(layers(policy, breaker())), "backoff: orders: circuit open: status 503")
	require.EqualError(t, failed(layers(once, breaker(), policy)), "backoff: orders: circuit open: status 503")
	require.EqualError(t, policy.Do(t.Context(), breaker().Wrap(fail)), "backoff: orders: gave up after 1 attempt: circuit open: status 503")
	require.EqualError(t, policy.Do(t.Context(), once.Wrap(fail)), "backoff: orders: gave up after 4 attempts: once: gave up after 1 attempt: status 503")
	require.EqualError(t, policy.Do(t.Context(), returning(backoff.RetryAfter(backoff.ErrBudget, 0)).do), "backoff: orders: gave up after 4 attempts: budget refused")
	require.EqualError(t, &backoff.OpenError{Name: "orders", State: backoff.BreakerOpen, Last: errors.Join(errBoom, io.EOF)}, "backoff: orders: circuit open: boom; EOF")
}

func TestContextErrorIsTheErrorOfTheContextThatEndedTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, row := range []struct {
			ctx    context.Context
			policy *backoff.Policy
			want   error
		}{
			{endedContext(t), &backoff.Policy{}, context.Canceled},
			{within(t, time.Second), steady(time.Minute), context.DeadlineExceeded}, // before it: the next wait would pass it
			{t.Context(), steady(0), nil},
		} {
			gave := gaveUp(t, row.policy.Do(row.ctx, returning(errBoom, errBoom, errBoom, errBoom).do))
			require.True(t, gave.ContextError() == row.want, gave.Error())
		}
	})
	require.NoError(t, (*backoff.Error)(nil).ContextError())
	require.Equal(t, context.Canceled, (&backoff.Error{Reason: backoff.ReasonCanceled}).ContextError())
}

func TestANoteIsPartOfTheTextAndOfNothingElse(t *testing.T) {
	err := &backoff.Error{Name: "search", Attempts: 1, Reason: backoff.ReasonAttempts, Last: errBoom, Note: "retries are switched off"}
	require.EqualError(t, err, "backoff: search: gave up after 1 attempt; retries are switched off: boom")
	require.False(t, backoff.Policy{}.Retryable(err), "an Error made by hand is permanent")
}

// ownEnd is a context that has ended, with an error of its own that cannot be
// compared.
type ownEnd struct{ context.Context }

type listed []string

func (l listed) Error() string { return "shutting down" }

func (ownEnd) Err() error { return listed{"a"} }

func TestAContextMayHaveAnErrorThatCannotBeCompared(t *testing.T) {
	err := backoff.Policy{}.Do(ownEnd{t.Context()}, returning(nil).do)
	require.NotErrorIs(t, err, backoff.ErrOpen)
	require.ErrorContains(t, err, "shutting down")
	require.Equal(t, listed{"a"}, gaveUp(t, err).ContextError())
}

// strangers is the Idempotency of a call whose key somebody else has made.
type strangers struct{ backoff.Idempotency }

func (strangers) MadeKey() string { return "key" }

// Another call must not send a key that only this one knows, nor what may not be
// sent again.
func TestAnErrorSaysWhetherAnotherCallMayMakeTheOperation(t *testing.T) {
	unsent := backoff.OfClass(errBoom, backoff.ClassNotSent)
	plain, withKey := t.Context(), backoff.WithIdempotencyKey(t.Context(), "key")
	for name, c := range map[string]struct {
		ctx    context.Context
		policy backoff.Policy
		err    error
		class  backoff.Class
		want   bool
	}{
		"idempotent":                   {plain, backoff.Policy{}, backoff.OfClass(errBoom, backoff.ClassThrottled), backoff.ClassThrottled, true},
		"not idempotent":               {plain, backoff.Policy{Idempotency: backoff.NonIdempotent}, errBoom, backoff.ClassUnknown, false},
		"so, out of attempts":          {plain, backoff.Policy{Idempotency: backoff.NonIdempotent, MaxAttempts: 1}, errBoom, backoff.ClassUnknown, false},
		"so, but not sent":             {plain, backoff.Policy{Idempotency: backoff.NonIdempotent}, unsent, backoff.ClassNotSent, true},
		"so, between two attempts":     {plain, backoff.Policy{Idempotency: backoff.NonIdempotent, Budget: refusing(2)}, unsent, backoff.ClassNotSent, true},
		"keyed by itself":              {plain, backoff.Policy{Idempotency: backoff.Keyed}, errBoom, backoff.ClassUnknown, false},
		"keyed by the caller":          {withKey, backoff.Policy{Idempotency: backoff.Keyed}, errBoom, backoff.ClassUnknown, true},
		"keyed elsewhere":              {plain, backoff.Policy{Idempotency: strangers{backoff.Idempotent}}, errBoom, backoff.ClassUnknown, false},
		"keyed elsewhere, by a caller": {withKey, backoff.Policy{Idempotency: strangers{backoff.Idempotent}}, errBoom, backoff.ClassUnknown, true},
		"overloaded":                   {plain, backoff.Policy{}, backoff.OfClass(errBoom, backoff.ClassOverloaded), backoff.ClassOverloaded, true},
	} {
		c.policy.Schedule = backoff.Constant(0)
		gave := gaveUp(t, c.policy.Do(c.ctx, returning(c.err).do))
		require.Equal(t, c.want, gave.Repeatable(), name)
		require.Equal(t, c.class, gave.Class(), name)
	}
	var none *backoff.Error
	require.False(t, none.Repeatable())
	require.Equal(t, backoff.ClassUnknown, none.Class())
}

// Its reply is lost, as after a deadline.
func TestAnAttemptThatWasCancelledMayHaveBeenMade(t *testing.T) {
	for _, limit := range []int{0, 1} {
		ctx, cancel := context.WithCancel(t.Context())
		policy := backoff.Policy{Idempotency: backoff.NonIdempotent, MaxAttempts: limit}
		err := policy.Do(ctx, func(ctx context.Context) error { cancel(); return ctx.Err() })
		require.False(t, gaveUp(t, err).Repeatable())
		err = policy.Do(ctx, returning(nil).do)
		require.True(t, gaveUp(t, err).Repeatable(), "of a call without an attempt")
	}
}

// Such as one that has a context of its own, which ends with the call's.
func TestAnAttemptThatEndsWithTheDeadlineMayHaveBeenMade(t *testing.T) {
	for _, result := range []error{context.Canceled, backoff.Permanent(errFinal), errBoom} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			policy := backoff.Policy{Idempotency: backoff.NonIdempotent}
			err := policy.Do(ctx, func(ctx context.Context) error { <-ctx.Done(); return result })
			require.False(t, gaveUp(t, err).Repeatable(), "%v", result)
		})
	}
}

func TestAHostileNameDoesNotBreakTheLine(t *testing.T) {
	for _, err := range []error{&backoff.OpenError{Name: "a\nb"}, &backoff.Error{Name: "a\nb"}} {
		require.True(t, strings.HasPrefix(err.Error(), "backoff: a b: "), "%q", err.Error())
	}
}
