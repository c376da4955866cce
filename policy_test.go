package backoff_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/hedge"
)

// The first call counts.
func TestMaxAttemptsCountsTheFirstCall(t *testing.T) {
	for limit, want := range map[int]int{0: 4, 1: 1, 2: 2, 4: 4, 9: 9} {
		synctest.Test(t, func(t *testing.T) {
			policy := &backoff.Policy{Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter, MaxAttempts: limit}
			op := returning(errBoom)
			err := policy.Do(t.Context(), op.do)
			require.Len(t, op.at, want, "MaxAttempts %d", limit)
			require.Equal(t, want, gaveUp(t, err).Attempts)

			fewer := append(slices.Repeat([]error{errBoom}, want-1), nil)
			require.NoError(t, policy.Do(t.Context(), returning(fewer...).do), "MaxAttempts %d", limit)
		})
	}
}

// No limit has to be asked for, and then the context
// is the limit.
func TestAnUnlimitedPolicyEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := steady(time.Second)
		policy.MaxAttempts, policy.MaxElapsed, policy.MaxDelay, policy.MaxRetryAfter = -1, -1, -1, -1
		op := returning(errBoom)
		require.ErrorIs(t, policy.Do(within(t, 1000*time.Second), op.do), context.DeadlineExceeded)
		require.Len(t, op.at, 1000)
	})
}

func TestMaxElapsedCountsTheAttemptsAndInterruptsNone(t *testing.T) {
	for _, row := range []struct {
		limit    time.Duration
		attempts int
	}{
		{3*time.Second - 1, 1}, {3 * time.Second, 2}, {6*time.Second - 1, 2}, {6 * time.Second, 3}, {0, 4}, {-1, 4},
	} {
		synctest.Test(t, func(t *testing.T) {
			policy := &backoff.Policy{Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter, MaxElapsed: row.limit}
			attempts := 0
			err := policy.Do(t.Context(), func(ctx context.Context) error {
				attempts++
				time.Sleep(2 * time.Second)
				require.NoError(t, ctx.Err())
				return errBoom
			})
			require.ErrorIs(t, err, backoff.ErrExhausted)
			require.Equal(t, row.attempts, attempts, "MaxElapsed %v", row.limit)
		})
	}
}

// The wait that ends with the deadline leaves no time for an attempt.
func TestADeadlineIsPassedAlsoByTheWaitThatEndsWithIt(t *testing.T) {
	for wait, attempts := range map[time.Duration]int{2*time.Second - 1: 2, 2 * time.Second: 1, 2*time.Second + 1: 1, 0: 4} {
		synctest.Test(t, func(t *testing.T) {
			policy := &backoff.Policy{Schedule: backoff.Constant(wait), Jitter: backoff.NoJitter, MaxAttempts: 4}
			op := returning(errBoom)
			err := policy.Do(within(t, 2*time.Second), op.do)
			require.Len(t, op.at, attempts, "wait %v", wait)
			require.Equal(t, time.Duration(min(attempts-1, 1))*wait, time.Since(op.began), "and no sleep in vain")
			require.Equal(t, wait != 0, errors.Is(err, context.DeadlineExceeded))
		})
	}
}

// classes are those that may be retried.
var classes = []backoff.Class{backoff.ClassUnknown, backoff.ClassNotSent, backoff.ClassRetryable, backoff.ClassThrottled}

var errBusy = backoff.OfClass(errors.New("too many requests"), backoff.ClassThrottled)

// withClasses allows 3 attempts, and 10 while the server throttles; it waits 1 s,
// 2 s, 3 s, and ten times that after a failure that was throttled.
func withClasses() backoff.Policy {
	return backoff.Policy{
		MaxAttempts: 3, Schedule: backoff.Linear{Initial: time.Second}, Jitter: backoff.NoJitter,
		ByClass: map[backoff.Class]backoff.ClassLimits{
			backoff.ClassThrottled: {MaxAttempts: 10, Schedule: backoff.Linear{Initial: 10 * time.Second, Max: -1}},
		},
	}
}

// The limit and the delay are those of the failure before, whatever came before
// that. The delay knows the number of the retry in the call.
func TestTheClassOfTheLastFailureLimitsTheCallAndSetsTheWait(t *testing.T) {
	for name, row := range map[string]struct {
		results []error
		at      []time.Duration
		limit   int
	}{
		"transient":                    {[]error{errBoom}, msec(0, 1000, 3000), 3},
		"throttled":                    {[]error{errBusy}, msec(0, 10_000, 30_000, 60_000, 100_000, 150_000, 210_000, 280_000, 360_000, 450_000), 10},
		"throttled after two":          {[]error{errBoom, errBoom, errBusy, nil}, msec(0, 1000, 3000, 33_000), 10},
		"transient after four":         {[]error{errBusy, errBusy, errBusy, errBusy, errBoom}, msec(0, 10_000, 30_000, 60_000, 100_000), 3},
		"transient and then throttled": {[]error{errBusy, errBoom, errBusy, errBusy, errBusy, errBoom}, msec(0, 10_000, 12_000, 42_000, 82_000, 132_000), 3},
	} {
		bubble(t, name, func(t *testing.T) {
			policy := withClasses()
			events := watch(&policy)
			op := returning(row.results...)
			err := policy.Do(t.Context(), op.do)
			require.Equal(t, row.at, op.at)
			last := (*events)[len(*events)-1]
			require.Equal(t, row.limit, last.MaxAttempts)
			require.Equal(t, len(row.at), last.Attempt)
			if err != nil {
				require.Equal(t, backoff.ReasonAttempts, gaveUp(t, err).Reason)
				require.Equal(t, len(row.at), gaveUp(t, err).Attempts)
				require.False(t, policy.Retryable(err), "a policy around it does not multiply")
			}
		})
	}
}

// Random policies meet random failures. Every way to run a call agrees with the
// same sentence: after attempt n failed with class c, another one follows if n
// is below the limit of c, and it waits the n-th delay of c.
func TestEveryWayToRunACallObeysByClass(t *testing.T) {
	rng := rand.New(rand.NewPCG(20, 3))
	for range 150 {
		policy := backoff.Policy{MaxAttempts: rng.IntN(7), Schedule: randomSteps(rng), Jitter: backoff.NoJitter, ByClass: map[backoff.Class]backoff.ClassLimits{}}
		for _, c := range classes {
			if rng.IntN(2) == 0 {
				policy.ByClass[c] = backoff.ClassLimits{MaxAttempts: rng.IntN(12) - 1, Schedule: randomSteps(rng)}
			}
		}
		failures := make([]backoff.Class, rng.IntN(15))
		for i := range failures {
			failures[i] = classes[rng.IntN(len(classes))]
		}
		want := expected(&policy, failures)
		for name, run := range waysToRun() {
			synctest.Test(t, func(t *testing.T) {
				var at []time.Duration
				began := time.Now()
				_ = run(t.Context(), &policy, func(context.Context) error {
					n := len(at)
					at = append(at, time.Since(began))
					if n == len(failures) {
						return nil
					}
					return backoff.OfClass(errBoom, failures[n])
				})
				require.Equal(t, want, at, "%s: %+v after %v", name, policy, failures)
			})
		}
	}
}

// randomSteps returns a schedule, or nil in one of three cases.
func randomSteps(rng *rand.Rand) backoff.Schedule {
	if rng.IntN(3) == 0 {
		return nil
	}
	return backoff.Linear{Initial: time.Duration(1+rng.IntN(1000)) * time.Millisecond, Max: -1}
}

// expected returns when the attempts of a call begin that fails with the given
// classes and then succeeds.
func expected(p *backoff.Policy, failures []backoff.Class) (at []time.Duration) {
	now := time.Duration(0)
	for n, class := range failures {
		at = append(at, now)
		limit, schedule := p.MaxAttempts, p.Schedule
		if own := p.ByClass[class]; own.MaxAttempts != 0 {
			limit = own.MaxAttempts
		}
		if own := p.ByClass[class]; own.Schedule != nil {
			schedule = own.Schedule
		}
		if limit == 0 {
			limit = 4
		}
		if schedule == nil {
			schedule = backoff.Exponential{}
		}
		if limit > 0 && n+1 >= limit {
			return at
		}
		now += schedule.Delay(n + 1)
	}
	return append(at, now)
}

// waysToRun are waysToFail, and those that are not a Run of the policy itself.
func waysToRun() map[string]func(context.Context, *backoff.Policy, func(context.Context) error) error {
	all := maps.Clone(waysToFail)
	all["timed"] = func(ctx context.Context, p *backoff.Policy, op func(context.Context) error) error {
		own := *p
		own.AttemptTimeout = time.Hour
		return own.Do(ctx, op)
	}
	all["Decide"] = func(ctx context.Context, p *backoff.Policy, op func(context.Context) error) error {
		for retry := 1; ; retry++ {
			err := op(ctx)
			d := p.Decide(retry, err)
			if !d.Again {
				return err
			}
			time.Sleep(d.Wait)
		}
	}
	all["Supervise"] = func(ctx context.Context, p *backoff.Policy, op func(context.Context) error) error {
		own := *p
		if own.MaxAttempts == 0 {
			own.MaxAttempts = 4
		}
		return supervise(own, ctx, func(ctx context.Context) error {
			if err := op(ctx); err != nil {
				return err
			}
			return backoff.Permanent(errCut)
		})
	}
	return all
}

func TestJitterHintsAndMaxDelayApplyToTheDelayOfAClass(t *testing.T) {
	policy := withClasses()
	policy.Jitter, policy.Rand, policy.MaxDelay = nil, fixed(0.5), 12*time.Second
	at, err := attempts(t, policy, errBusy, errBusy, errBusy, backoff.RetryAfter(errBusy, 100*time.Second), backoff.Pushback(errBusy, time.Second), nil)
	require.NoError(t, err)
	require.Equal(t, msec(0, 5000, 15_000, 27_000, 132_000, 133_000), at)
	require.InDelta(t, 500*time.Millisecond, policy.WaitBefore(1), 1, "which knows no failure")
}

// What says how long a pushback starts the schedule again holds here too.
func TestAClassesScheduleStartsAgainWithTheCallsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := withClasses()
		op := returning(errBusy, errBusy, backoff.Pushback(errBusy, time.Second), errBusy, nil)
		require.NoError(t, policy.Do(t.Context(), op.do))
		require.Equal(t, msec(0, 10_000, 30_000, 31_000, 41_000), op.at)

		events := watch(&policy)
		r := policy.Start(t.Context())
		for range 2 {
			pause, ok := r.Tried(errBusy)
			require.True(t, ok)
			require.Positive(t, pause)
		}
		r.Progress()
		pause, ok := r.Tried(errBusy)
		require.Equal(t, 10*time.Second, pause)
		require.True(t, ok)
		r.Progress()
		r.Tried(nil)
		require.Equal(t, 3, (*events)[len(*events)-1].MaxAttempts)
		r.Reset()
		r.Tried(errBusy)
		r.Reset()
		r.Tried(nil)
		require.Equal(t, 3, (*events)[len(*events)-1].MaxAttempts)
	})
}

func TestAnAttemptThatTimedOutIsRetryableToByClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := steady(time.Second)
		policy.AttemptTimeout, policy.MaxAttempts = time.Second, 1
		policy.ByClass = map[backoff.Class]backoff.ClassLimits{backoff.ClassRetryable: {MaxAttempts: 5}}
		op := returning(context.DeadlineExceeded)
		require.Error(t, policy.Do(t.Context(), op.hang))
		require.Len(t, op.at, 5)
	})
}

func TestAClassHasAJitterOfItsOwn(t *testing.T) {
	policy := backoff.Policy{Rand: fixed(0.5), ByClass: map[backoff.Class]backoff.ClassLimits{
		backoff.ClassNotSent: {Schedule: backoff.Constant(50 * time.Millisecond), Jitter: backoff.NoJitter},
	}}
	locked := backoff.OfClass(errBoom, backoff.ClassNotSent)
	require.Equal(t, 50*time.Millisecond, policy.Decide(1, locked).Wait)
	require.Equal(t, 50*time.Millisecond, policy.Decide(1, errBoom).Wait, "half of 100 ms, as usual")
	at, err := attempts(t, policy, locked, errBoom, nil)
	require.NoError(t, err)
	require.Equal(t, msec(0, 50, 150), at)
}

func TestADecisionThatWaitsForNoCircuitDoesNotSaySo(t *testing.T) {
	breaker := &backoff.Breaker{OpenFor: backoff.Constant(time.Minute)}
	breaker.Trip()
	defer breaker.Reset()
	waits := backoff.OfClass(breaker.Do(t.Context(), returning(nil).do), backoff.ClassRetryable)
	require.Equal(t, backoff.ReasonOpen, backoff.Policy{}.Decide(1, waits).Reason)
	require.True(t, backoff.Policy{}.Decide(1, waits).Again)
	require.Equal(t, backoff.ReasonRetryAfter, backoff.Policy{MaxRetryAfter: time.Second}.Decide(1, waits).Reason)
	require.Equal(t, time.Hour, backoff.Supervisor{}.Decide(1, backoff.RetryAfter(errBoom, time.Hour)).RetryAfter, "what was asked, not what is granted")
}

func TestGiveUpKnowsTheLimitOfTheClass(t *testing.T) {
	policy := backoff.Policy{ByClass: map[backoff.Class]backoff.ClassLimits{backoff.ClassThrottled: {MaxAttempts: 1}}}
	err := backoff.OfClass(errBoom, backoff.ClassThrottled)
	gave := gaveUp(t, policy.GiveUp(t.Context(), backoff.Error{Attempts: 1, Reason: policy.Decide(1, err).Reason, Last: err}))
	require.True(t, gave.RetryableError())
	require.ErrorAs(t, policy.Do(t.Context(), returning(err).do), &gave)
	require.True(t, gave.RetryableError())
}

func TestADecisionSaysWhyThereIsNoRetry(t *testing.T) {
	policy := backoff.Policy{Idempotency: backoff.NonIdempotent}
	for _, row := range []struct {
		retry int
		err   error
		want  backoff.Reason
	}{
		{1, backoff.OfClass(errBoom, backoff.ClassNotSent), backoff.Reason(0)},
		{4, backoff.OfClass(errBoom, backoff.ClassNotSent), backoff.ReasonAttempts},
		{1, errBoom, backoff.ReasonNotIdempotent},
		{1, backoff.Permanent(errBoom), backoff.ReasonPermanent},
		{1, backoff.OfClass(errBoom, backoff.ClassOverloaded), backoff.ReasonOverloaded},
		{1, &backoff.OpenError{}, backoff.ReasonOpen},
		{1, backoff.RetryAfter(backoff.OfClass(errBoom, backoff.ClassNotSent), time.Hour), backoff.ReasonRetryAfter},
	} {
		d := policy.Decide(row.retry, row.err)
		require.Equal(t, row.want, d.Reason, row.err)
		require.Equal(t, d.Reason == backoff.Reason(0), d.Again, row.err)
	}
	d := policy.Decide(1, backoff.RetryAfter(backoff.OfClass(errBoom, backoff.ClassThrottled), time.Hour))
	require.Equal(t, []any{backoff.ClassThrottled, time.Hour}, []any{d.Class, d.RetryAfter})
}

func TestAFirstAttemptHasTheLimitOfThePolicy(t *testing.T) {
	policy := withClasses()
	policy.ByClass[backoff.ClassUnknown] = backoff.ClassLimits{MaxAttempts: 7}
	clerk := new(clerk)
	policy.Budget = clerk
	events := watch(&policy)
	policy.Schedule = backoff.Constant(0)
	policy.ByClass[backoff.ClassThrottled] = backoff.ClassLimits{MaxAttempts: 10, Schedule: backoff.Constant(0)}
	require.NoError(t, policy.Do(t.Context(), returning(nil).do))
	require.NoError(t, policy.Do(t.Context(), returning(errBusy, errBoom, nil).do))
	require.Equal(t, []int{3, 3, 10, 7}, each(clerk.asked, func(a backoff.Attempt) int { return a.MaxAttempts }))
	require.Equal(t, []int{3, 10, 7, 7}, each(*events, func(e backoff.Event) int { return e.MaxAttempts }))
}

// A call that was limited to one attempt leaves the retries to its caller. One
// that went on for a class does not, or the loops would multiply.
func TestTheErrorOfACallThatWentOnForAClassIsPermanent(t *testing.T) {
	policy := backoff.Policy{
		MaxAttempts: 1, Schedule: backoff.Constant(0),
		ByClass: map[backoff.Class]backoff.ClassLimits{backoff.ClassThrottled: {MaxAttempts: 3}},
	}
	require.True(t, gaveUp(t, policy.Do(t.Context(), returning(errBoom).do)).RetryableError())
	require.False(t, gaveUp(t, policy.Do(t.Context(), returning(errBusy, errBoom).do)).RetryableError())
	require.False(t, gaveUp(t, policy.Do(t.Context(), returning(errBusy).do)).RetryableError())
}

func TestARefusalOfABreakerHasNoClass(t *testing.T) {
	policy := withClasses()
	policy.ByClass[backoff.ClassUnknown] = backoff.ClassLimits{MaxAttempts: 1, Schedule: backoff.Constant(time.Hour)}
	policy.ByClass[backoff.ClassRetryable] = policy.ByClass[backoff.ClassUnknown]
	at, err := attempts(t, policy, errBusy, errBusy, errBusy, errBusy, waitFor(0), nil)
	require.NoError(t, err)
	require.Equal(t, msec(0, 10_000, 30_000, 60_000, 100_000, 105_000), at, "the policy's own fifth delay")
}

// Everything is wrong with this call. Each round puts right what stopped it,
// and what stands behind comes to light.
func TestDecisionsAreMadeInOneOrder(t *testing.T) {
	type call struct {
		policy  *backoff.Policy
		failure error
		time    time.Duration
		cancels bool
	}
	order := []struct {
		why   backoff.Reason
		spoil func(*call)
	}{
		{backoff.ReasonCanceled, func(c *call) { c.cancels = true }},
		{backoff.ReasonPermanent, func(c *call) { c.failure = backoff.Permanent(c.failure) }},
		{backoff.ReasonOverloaded, func(c *call) { c.failure = backoff.OfClass(c.failure, backoff.ClassOverloaded) }},
		{backoff.ReasonAttempts, func(c *call) { c.policy.MaxAttempts = 1 }},
		{backoff.ReasonNotIdempotent, func(c *call) { c.policy.Idempotency = backoff.NonIdempotent }},
		{backoff.ReasonRetryAfter, func(c *call) { c.failure = backoff.RetryAfter(c.failure, time.Hour) }},
		{backoff.ReasonElapsed, func(c *call) { c.policy.MaxElapsed = 30 * time.Second }},
		{backoff.ReasonDeadline, func(c *call) { c.time = 40 * time.Second }},
		{backoff.ReasonBudget, func(c *call) { c.policy.Budget = refusing(2) }},
		{backoff.Reason(0), func(*call) {}},
	}
	for i, row := range order {
		synctest.Test(t, func(t *testing.T) {
			c := &call{policy: steady(time.Minute), failure: errBoom, time: 2 * time.Hour}
			for _, wrong := range slices.Backward(order[i:]) {
				wrong.spoil(c)
			}
			ctx, cancel := context.WithTimeout(t.Context(), c.time)
			defer cancel()
			events := watch(c.policy)
			op := returning(c.failure, nil)
			_ = c.policy.Do(ctx, func(ctx context.Context) error {
				if c.cancels {
					cancel()
				}
				return op.do(ctx)
			})
			require.Equal(t, row.why, (*events)[len(*events)-1].Reason)
			if row.why != backoff.Reason(0) {
				require.Len(t, op.at, 1, "%v", row.why)
			}
		})
	}
}

func TestAnEndedContextAllowsNoAttempt(t *testing.T) {
	errCause := errors.New("shutting down")
	for name, policy := range everyPath() {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errCause)
		op := returning(nil)
		err := policy.Do(ctx, op.do)
		require.Empty(t, op.at, name)
		require.ErrorIs(t, err, context.Canceled, name)
		require.ErrorIs(t, err, errCause, name)
		require.Zero(t, gaveUp(t, err).Attempts, name)
		require.NoError(t, gaveUp(t, err).Last, name)
	}
}

func TestASuccessStandsHoweverTheContextEnded(t *testing.T) {
	for name, policy := range everyPath() {
		for _, failures := range []int{0, 1} {
			ctx, cancel := context.WithCancel(t.Context())
			n := 0
			err := policy.Do(ctx, func(context.Context) error {
				if n++; n <= failures {
					return errBoom
				}
				cancel()
				return nil
			})
			require.NoError(t, err, "%s, success after %d failures", name, failures)
		}
	}
}

// The call ends in the instant of the cancellation, and does
// not stay to see whether its operation fared better.
func TestAContextThatEndsDuringAnAttemptIsTheEnd(t *testing.T) {
	for name, policy := range everyPath() {
		ctx, cancel := context.WithCancelCause(t.Context())
		errCause := errors.New("shutting down")
		op := returning(errBoom)
		err := policy.Do(ctx, func(ctx context.Context) error {
			cancel(errCause)
			return op.do(ctx)
		})
		require.Len(t, op.at, 1, name)
		for _, want := range []error{context.Canceled, errCause, errBoom} {
			require.ErrorIs(t, err, want, name)
		}
		require.Equal(t, backoff.ReasonCanceled, gaveUp(t, err).Reason, name)

		ctx, cancel = context.WithCancelCause(t.Context())
		err = policy.Do(ctx, func(context.Context) error { cancel(errCause); return backoff.Permanent(errBoom) })
		require.Equal(t, backoff.ReasonCanceled, gaveUp(t, err).Reason, "%s: also of a permanent error", name)
	}
}

// What an operation says for good is not lost if the context ends meanwhile: the error
// matches both, and code that asks for the context's error first finds the other.
func TestAPermanentErrorIsNotLostWhenTheContextEndsMeanwhile(t *testing.T) {
	permanent := func(ctx context.Context, end context.CancelFunc) error { end(); return backoff.Permanent(errBoom) }
	second := func() func(context.Context, context.CancelFunc) error {
		attempts := 0
		return func(ctx context.Context, end context.CancelFunc) error {
			if attempts++; attempts == 1 {
				return errDown
			}
			return permanent(ctx, end)
		}
	}
	for name, c := range map[string]struct {
		op    func(context.Context, context.CancelFunc) error
		first error // what code that asks for the context's error first returns
	}{
		"permanent":         {permanent, errBoom},
		"at the second":     {second(), errBoom},
		"overloaded":        {func(_ context.Context, end context.CancelFunc) error { end(); return backoff.Pushback(errBoom, -1) }, errBoom},
		"no mark":           {func(_ context.Context, end context.CancelFunc) error { end(); return errBoom }, context.Canceled},
		"a mark on the end": {func(ctx context.Context, end context.CancelFunc) error { end(); return backoff.Permanent(ctx.Err()) }, context.Canceled},
		"what an inner gave up": {func(ctx context.Context, end context.CancelFunc) error {
			end()
			return backoff.Policy{}.Do(ctx, func(context.Context) error { return errBoom })
		}, context.Canceled},
	} {
		for way, run := range map[string]func(backoff.Policy, context.Context, func(context.Context) error) error{
			"Do": func(p backoff.Policy, ctx context.Context, op func(context.Context) error) error {
				return p.Do(ctx, op)
			},
			"Run": func(p backoff.Policy, ctx context.Context, op func(context.Context) error) error {
				return loop(p.Start(ctx), op)
			},
			"Supervisor": supervise,
		} {
			ctx, cancel := context.WithCancel(t.Context())
			if name == "at the second" {
				c.op = second()
			}
			p := backoff.Policy{Schedule: backoff.Constant(0)}
			if way == "Supervisor" {
				p.MaxAttempts = 0
			}
			err := run(p, ctx, func(ctx context.Context) error { return c.op(ctx, cancel) })
			cancel()
			require.ErrorIs(t, err, context.Canceled, "%s, %s", name, way)
			gave := gaveUp(t, err)
			got := gave.ContextError()
			if got == nil {
				got = backoff.Cause(err)
			} else if name == "no mark" {
				require.ErrorIs(t, err, errBoom)
			}
			require.Equal(t, c.first, got, "%s, %s", name, way)
		}
	}
}

// everyPath returns policies that take the different ways through Do.
func everyPath() map[string]*backoff.Policy {
	at0 := backoff.Constant(0)
	return map[string]*backoff.Policy{
		"plain":      {Schedule: at0},
		"observed":   {Schedule: at0, Observer: func(context.Context, backoff.Event) {}},
		"timed":      {Schedule: at0, AttemptTimeout: time.Hour},
		"limited":    {Schedule: at0, MaxElapsed: time.Hour},
		"keyed":      {Schedule: at0, Idempotency: backoff.Keyed},
		"budgeted":   {Schedule: at0, Budget: &ledger{}},
		"by success": {Schedule: at0, Budget: &backoff.RetryBudget{}},
	}
}

func TestAContextThatEndsWhileSleepingIsToldFromADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		ctx, stop := context.WithTimeout(ctx, time.Hour)
		defer stop()
		time.AfterFunc(time.Minute, func() { cancel(io.ErrClosedPipe) })
		err := steady(10*time.Minute).Do(ctx, returning(errBoom).do)
		require.Equal(t, backoff.ReasonCanceled, gaveUp(t, err).Reason)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		requireIs(t, err, context.Canceled, io.ErrClosedPipe, errBoom)
	})
}

// Whatever ends a call, one reason is reported, once.
func TestEveryStopHasOneReason(t *testing.T) {
	seen := map[backoff.Reason]bool{}
	for _, end := range endings() {
		synctest.Test(t, func(t *testing.T) {
			policy := steady(time.Minute)
			events := watch(policy)
			err := end.call(t, policy)
			require.Error(t, err)
			last := (*events)[len(*events)-1]
			require.Equal(t, backoff.EventGiveUp, last.Kind)
			require.Equal(t, end.want, last.Reason)
			switch {
			case end.want == backoff.ReasonInvalid:
				require.Equal(t, err, last.Err, "the policy's own error")
			case last.Attempt == 0:
				require.NoError(t, last.Err, "no attempt, no error")
			default:
				require.ErrorIs(t, err, last.Err, "the operation's error")
				ours := errors.As(last.Err, new(*backoff.Error))
				require.False(t, ours, "and no more than that")
			}
			require.Len(t, slices.DeleteFunc(*events, func(e backoff.Event) bool { return e.Kind == backoff.EventRetry }), 1)
			seen[end.want] = true
		})
	}
	for r := backoff.ReasonPermanent; r <= backoff.ReasonInvalid; r++ {
		require.True(t, seen[r], "no ending for %v", r)
	}
}

type ending struct {
	want backoff.Reason
	call func(t *testing.T, p *backoff.Policy) error
}

// endings are ways for a call to end, one for each Reason but success.
func endings() []ending {
	do := func(adjust func(p *backoff.Policy), results ...error) func(t *testing.T, p *backoff.Policy) error {
		return func(t *testing.T, p *backoff.Policy) error {
			adjust(p)
			return p.Do(t.Context(), returning(results...).do)
		}
	}
	asIs := func(*backoff.Policy) {}
	return []ending{
		{backoff.ReasonPermanent, do(asIs, backoff.Permanent(errFinal))},
		{backoff.ReasonAttempts, do(asIs, errBoom)},
		{backoff.ReasonElapsed, do(func(p *backoff.Policy) { p.MaxElapsed = 30 * time.Second }, errBoom)},
		{backoff.ReasonRetryAfter, do(asIs, backoff.RetryAfter(errBoom, time.Hour))},
		{backoff.ReasonNotIdempotent, do(func(p *backoff.Policy) { p.Idempotency = backoff.NonIdempotent }, errBoom)},
		{backoff.ReasonOverloaded, do(asIs, backoff.OfClass(errBoom, backoff.ClassOverloaded))},
		{backoff.ReasonBudget, do(func(p *backoff.Policy) { p.Budget = refusing(2) }, errBoom)},
		{backoff.ReasonBudget, do(func(p *backoff.Policy) { p.Budget = refusing(1) }, errBoom)},
		{backoff.ReasonOpen, do(asIs, errBoom, &backoff.OpenError{})},
		{backoff.ReasonInvalid, do(func(p *backoff.Policy) { p.Schedule = backoff.Sequence() }, errBoom)},
		{backoff.ReasonDeadline, func(t *testing.T, p *backoff.Policy) error {
			return p.Do(within(t, 30*time.Second), returning(errBoom).do)
		}},
		{backoff.ReasonCanceled, func(t *testing.T, p *backoff.Policy) error {
			return p.Do(cancelledAfter(t, time.Second), returning(errBoom).do)
		}},
		{backoff.ReasonAbandoned, func(t *testing.T, p *backoff.Policy) error {
			r := p.Start(t.Context())
			for range r.Attempts() {
				r.Fail(errBoom)
				break
			}
			return r.Err()
		}},
	}
}

// refusing is a budget that refuses the attempt with the given number.
func refusing(number int) *ledger {
	return &ledger{refuse: func(a backoff.Attempt) bool { return a.Number == number }}
}

// watch makes p note its events.
func watch(p *backoff.Policy) *[]backoff.Event {
	var events []backoff.Event
	p.Observer = func(_ context.Context, e backoff.Event) { events = append(events, e) }
	return &events
}

// As Node's client does.
func TestShortenLastWaitEndsTheLastWaitWithMaxElapsed(t *testing.T) {
	asIs := func(*backoff.Policy) {}
	for name, row := range map[string]struct {
		change func(*backoff.Policy)
		err    error
		at     []time.Duration
		why    backoff.Reason
	}{
		"a wait that would pass it":     {asIs, errBoom, msec(0, 4000, 8000, 10_000), backoff.ReasonElapsed},
		"a wait that ends with it":      {func(p *backoff.Policy) { p.MaxElapsed = 8 * time.Second }, errBoom, msec(0, 4000, 8000), backoff.ReasonElapsed},
		"the last attempt before it":    {func(p *backoff.Policy) { p.MaxAttempts = 3 }, errBoom, msec(0, 4000, 8000), backoff.ReasonAttempts},
		"switched off":                  {func(p *backoff.Policy) { p.ShortenLastWait = false }, errBoom, msec(0, 4000, 8000), backoff.ReasonElapsed},
		"no MaxElapsed":                 {func(p *backoff.Policy) { p.MaxElapsed, p.MaxAttempts = 0, 4 }, errBoom, msec(0, 4000, 8000, 12_000), backoff.ReasonAttempts},
		"an attempt timeout":            {func(p *backoff.Policy) { p.AttemptTimeout = time.Second }, errBoom, msec(0, 4000, 8000), backoff.ReasonElapsed},
		"a server that asks for less":   {asIs, backoff.RetryAfter(errBoom, time.Second), msec(0, 4000, 8000, 9500), backoff.ReasonElapsed},
		"a server that asks for more":   {asIs, backoff.RetryAfter(errBoom, 6*time.Second), msec(0, 6300), backoff.ReasonElapsed},
		"a server that says when":       {asIs, backoff.Pushback(errBoom, 6*time.Second), msec(0, 6000), backoff.ReasonElapsed},
		"a wait of no time, at the end": {func(p *backoff.Policy) { p.Schedule, p.MaxAttempts = backoff.Sequence(10*time.Second, 0), 5 }, errBoom, msec(0, 10_000, 10_000, 10_000, 10_000), backoff.ReasonAttempts},
	} {
		synctest.Test(t, func(t *testing.T) {
			policy := steady(4 * time.Second)
			policy.MaxAttempts, policy.MaxElapsed, policy.ShortenLastWait, policy.Rand = -1, 10*time.Second, true, fixed(0.5)
			row.change(policy)
			op := returning(row.err)
			began := time.Now()
			require.Equal(t, row.why, gaveUp(t, policy.Do(t.Context(), op.do)).Reason, name)
			require.Equal(t, row.at, op.at, name)
			require.Equal(t, row.at[len(row.at)-1], time.Since(began), "%s: it does not wait in vain", name)
		})
	}
}

func TestMaxElapsedEndsACallThatDoesNotWait(t *testing.T) {
	for way := range ways {
		synctest.Test(t, func(t *testing.T) {
			policy := &backoff.Policy{MaxAttempts: 10, MaxElapsed: time.Second, Schedule: backoff.Constant(0)}
			op := returning(errBoom)
			err := ways[way](t.Context(), policy, op.lasting(400*time.Millisecond))
			require.Equal(t, backoff.ReasonElapsed, gaveUp(t, err).Reason, way)
			require.Equal(t, msec(0, 400, 800), op.at, way)
		})
	}
}

func TestAnAttemptsTimeIsCutToTheTimeLeft(t *testing.T) {
	for name, left := range map[string]struct{ elapsed, deadline time.Duration }{
		"MaxElapsed": {8 * time.Second, time.Hour}, "deadline": {0, 8 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			policy := steady(time.Second)
			policy.AttemptTimeout, policy.MaxElapsed = 5*time.Second, left.elapsed
			ctx := within(t, left.deadline)
			var limits []time.Duration
			start := time.Now()
			err := policy.Do(ctx, func(ctx context.Context) error {
				deadline, _ := ctx.Deadline()
				limits = append(limits, time.Until(deadline))
				<-ctx.Done()
				return ctx.Err()
			})
			require.Equal(t, msec(5000, 2000), limits, name)
			require.Equal(t, 8*time.Second, time.Since(start), name)
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
		})
	}
}

// A wait may end later than it should, and a budget may confirm late. An
// attempt that then would have no time is not made, and the service's last word
// stays.
func TestAnAttemptWhoseTimeIsOverIsNotBegun(t *testing.T) {
	for way := range ways {
		synctest.Test(t, func(t *testing.T) {
			policy := steady(time.Second)
			policy.MaxElapsed, policy.AttemptTimeout = 1500*time.Millisecond, time.Second
			late := &turnstile{shut: func(ticket uint64) bool {
				if ticket == 2 {
					time.Sleep(time.Second)
				}
				return false
			}}
			policy.Budget = late
			op := returning(errBoom)
			err := ways[way](t.Context(), policy, op.do)
			require.Equal(t, msec(0), op.at, way)
			require.Equal(t, backoff.ReasonElapsed, gaveUp(t, err).Reason, way)
			require.Equal(t, 1, gaveUp(t, err).Attempts, way)
			require.Equal(t, errBoom, gaveUp(t, err).Last, way)
			require.NotErrorIs(t, err, context.DeadlineExceeded, way)
			require.EqualError(t, err, "backoff: gave up after 1 attempt: out of time (MaxElapsed): boom", way)
			require.Equal(t, "done 2: not sent", late.lines[len(late.lines)-1], way)
		})
	}
}

// The deadline of the caller is as good as over when the attempt times out with
// it.
func TestAnAttemptTimeoutAtTheDeadlineIsTheLast(t *testing.T) {
	for way := range ways {
		for _, schedule := range []backoff.Schedule{backoff.Constant(0), backoff.Constant(time.Second)} {
			synctest.Test(t, func(t *testing.T) {
				ctx := within(t, time.Second)
				op := returning(context.DeadlineExceeded)
				policy := backoff.Policy{AttemptTimeout: time.Second, Schedule: schedule, Jitter: backoff.NoJitter}
				err := ways[way](ctx, &policy, op.hang)
				require.Len(t, op.at, 1, way)
				require.ErrorIs(t, err, context.DeadlineExceeded, way)
				require.Equal(t, backoff.ReasonDeadline, gaveUp(t, err).Reason, way)
			})
		}
	}
}

// Whether or not a budget is told, who else keeps an attempt's time does not
// decide what is retried.
func TestABudgetIsToldOfATimeoutThatTheOperationKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &backoff.Policy{MaxAttempts: 1, AttemptTimeout: time.Second}
		op := func(ctx context.Context) error {
			return inner.Do(ctx, hang)
		}
		for _, c := range []struct {
			policy backoff.Policy
			want   string
		}{
			{backoff.Policy{}, "timeout"},
			{backoff.Policy{AttemptTimeout: time.Hour}, "failed"},
			{backoff.Policy{AttemptTimeout: time.Second / 2}, "timeout"},
		} {
			clerk := new(clerk)
			c.policy.MaxAttempts, c.policy.Budget = 2, clerk
			err := c.policy.Do(t.Context(), op)
			require.Equal(t, []string{c.want, c.want}, clerk.told)
			require.Equal(t, c.want == "timeout", clerk.asked[1].TimedOut)

			c.policy.Budget = nil
			require.Equal(t, gaveUp(t, c.policy.Do(t.Context(), op)).Last.Error(), gaveUp(t, err).Last.Error())
		}
		for _, budget := range []backoff.Budget{nil, new(clerk)} {
			calls := 0
			p := backoff.Policy{Budget: budget, Classify: backoff.RetryIf(func(error) bool { return false })}
			err := p.Do(t.Context(), func(context.Context) error { calls++; return backoff.ErrAttemptTimeout })
			require.Equal(t, 1, calls, "the classifier's word stands")
			require.EqualError(t, err, backoff.ErrAttemptTimeout.Error())
		}
	})
}

// An attempt's context has the attempt's life, and nothing is armed beyond it.
func TestAnAttemptsContextEndsWithTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := steady(time.Second)
		policy.AttemptTimeout = time.Minute
		var previous context.Context
		require.Error(t, policy.Do(t.Context(), func(ctx context.Context) error {
			if previous != nil {
				require.ErrorIs(t, context.Cause(previous), context.Canceled, "ended, and not by its time")
			}
			require.NoError(t, ctx.Err())
			previous = ctx
			return errBoom
		}))
		require.ErrorIs(t, previous.Err(), context.Canceled)
	})
}

func TestAnUnlimitedAttemptMayFollowALimitedOne(t *testing.T) {
	policy := steady(time.Second)
	policy.AttemptTimeoutSchedule = backoff.Sequence(time.Second, 0)
	final := &backoff.Error{Reason: backoff.ReasonDeadline, Last: errBoom}
	_, err := attempts(t, policy, errBoom, final)
	require.ErrorIs(t, err, errBoom)
}

func TestTheAttemptsTimeIsNotNamedWhereTheCallsOwnEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		err := backoff.Policy{AttemptTimeout: time.Minute}.Do(ctx, func(ctx context.Context) error {
			defer cancel()
			return steady(time.Hour).Do(ctx, returning(errBoom).do) // for which the attempt has no time
		})
		require.NotErrorIs(t, err, backoff.ErrAttemptTimeout)
		require.NotContains(t, err.Error(), "attempt timed out")
	})
}

func TestTheErrorOfAPolicyInsideThatTheOperationCancelledIsPermanent(t *testing.T) {
	for _, limit := range []time.Duration{0, time.Hour} {
		calls := 0
		err := backoff.Policy{AttemptTimeout: limit}.Do(t.Context(), func(ctx context.Context) error {
			calls++
			ctx, cancel := context.WithCancel(ctx)
			return new(backoff.Policy).Do(ctx, func(context.Context) error { cancel(); return errBoom })
		})
		require.Equal(t, 1, calls)
		require.EqualError(t, err, "backoff: gave up after 1 attempt: context canceled: boom")
	}
}

// Whoever waits under a context reports its end in his own words.
func TestAnAttemptsTimeoutIsKnownInAnyWords(t *testing.T) {
	for err, timedOut := range map[error]bool{
		context.DeadlineExceeded:                       true,
		context.Canceled:                               true,
		fmt.Errorf("read: %w", context.Canceled):       true,
		fmt.Errorf("read: %w", timeoutError{}):         true,
		fmt.Errorf("%w", backoff.ErrAttemptTimeout):    true,
		errors.Join(errBoom, context.DeadlineExceeded): true,
		timeoutError{}:                                 true,
		transient{}:                                    false,
		errBoom:                                        false, // too late as well, but not because of it
	} {
		synctest.Test(t, func(t *testing.T) {
			policy := backoff.Policy{AttemptTimeout: time.Second, Schedule: backoff.Constant(0)}
			attempts := 0
			got := policy.Do(t.Context(), func(ctx context.Context) error {
				attempts++
				<-ctx.Done()
				require.ErrorIs(t, context.Cause(ctx), backoff.ErrAttemptTimeout)
				return err
			})
			require.Equal(t, 4, attempts, "%v", err)
			require.Equal(t, timedOut, strings.Contains(got.Error(), "attempt timed out: "), "%v", got)
			require.Equal(t, timedOut, errors.Is(got, backoff.ErrAttemptTimeout), "%v", got)
		})
	}
}

func TestAMarkStandsAboveTheAttemptsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op := returning(backoff.Permanent(context.DeadlineExceeded))
		err := backoff.Policy{AttemptTimeout: time.Second}.Do(t.Context(), op.hang)
		require.Len(t, op.at, 1)
		require.EqualError(t, err, "context deadline exceeded")
	})
}

// A classifier that lists what it retries need not know of the policy's own
// timeouts.
func TestAnAttemptsTimeoutIsRetriedWhateverTheClassifierLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := steady(time.Second)
		policy.AttemptTimeout = time.Second
		policy.Classify = backoff.RetryIf(func(error) bool { return false })
		op := returning(context.DeadlineExceeded, context.DeadlineExceeded, nil)
		require.NoError(t, policy.Do(t.Context(), op.hang))
	})
}

type timeoutError struct{}

func (timeoutError) Error() string { return "i/o timeout" }
func (timeoutError) Timeout() bool { return true }

func TestMaxRetryAfterAllowsTheWaitThatEqualsIt(t *testing.T) {
	for _, row := range []struct {
		limit, hint time.Duration
		obeyed      bool
	}{
		{0, 5 * time.Minute, true}, {0, 5*time.Minute + 1, false},
		{time.Second, time.Second, true}, {time.Second, time.Second + 1, false},
		{-1, 1000 * time.Hour, true},
	} {
		for _, mark := range []func(error, time.Duration) error{backoff.RetryAfter, backoff.Pushback} {
			synctest.Test(t, func(t *testing.T) {
				policy := backoff.Policy{MaxRetryAfter: row.limit, Schedule: backoff.Constant(0), MaxDelay: 1, Rand: fixed(0)}
				began := time.Now()
				err := policy.Do(t.Context(), returning(mark(errBoom, row.hint), nil).do)
				require.Equal(t, row.obeyed, err == nil, "%+v", row)
				if row.obeyed {
					require.Equal(t, row.hint, time.Since(began), "not bounded by MaxDelay")
				} else {
					require.Zero(t, time.Since(began))
					require.Equal(t, backoff.ReasonRetryAfter, gaveUp(t, err).Reason)
				}
			})
		}
	}
}

// What a breaker inside the policy refuses was not sent: it takes neither an
// attempt nor the budget's grant for one.
func TestWhatABreakerRefusesIsNoAttempt(t *testing.T) {
	books := &ledger{}
	policy := &backoff.Policy{Budget: books, MaxAttempts: 2, Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter}
	at, err := attempts(t, policy, waitFor(0), waitFor(0), errBoom, waitFor(0), nil)
	require.NoError(t, err)
	require.Equal(t, msec(0, 1000, 2000, 3000, 4000), at)
	require.Equal(t, []string{
		"0s: reserve first 1 after unknown", "done 1: not sent",
		"0s: reserve first 1 after unknown", "done 2: not sent",
		"1s: reserve first 1 after unknown", "done 3: failed",
		"2s: reserve retry 2 after unknown", "done 4: not sent",
		"3s: reserve retry 2 after unknown", "done 5: success",
	}, books.lines)
}

func TestAnOpenCircuitComesBackAsItIsIfNothingWasTried(t *testing.T) {
	open := &backoff.OpenError{Name: "db", State: backoff.BreakerOpen}
	policy := new(backoff.Policy)
	events := watch(policy)
	require.Equal(t, open, policy.Do(t.Context(), returning(open).do))
	require.Len(t, *events, 1)
}

// waitFor is a refusal that the operation wants to wait for. The circuit may be
// tried after d, if that is not 0.
func waitFor(d time.Duration) error {
	err := error(&backoff.OpenError{})
	if d > 0 {
		err = backoff.RetryAfter(err, d)
	}
	return backoff.OfClass(err, backoff.ClassRetryable)
}

// A breaker that an operator forced open cannot say when it will be tried again.
func TestAPolicyWaitsForACircuitOnlySoLong(t *testing.T) {
	const min, day = time.Minute, 24 * time.Hour
	for name, row := range map[string]struct {
		policy backoff.Policy
		least  time.Duration
		most   time.Duration
		why    backoff.Reason
		polls  int
	}{
		"by default":            {backoff.Policy{}, 4 * min, 5 * min, backoff.ReasonOpen, 60},
		"MaxRetryAfter":         {backoff.Policy{MaxRetryAfter: min}, min / 3, min, backoff.ReasonOpen, 40},
		"MaxElapsed":            {backoff.Policy{MaxElapsed: 20 * min, MaxRetryAfter: min}, 19 * min, 20 * min, backoff.ReasonElapsed, 150},
		"no limit":              {backoff.Policy{MaxRetryAfter: -1}, day - min, day, backoff.ReasonDeadline, 10_000},
		"no wait in a schedule": {backoff.Policy{Schedule: backoff.Constant(0)}, 4 * min, 5 * min, backoff.ReasonOpen, 60},
		"a constant one":        {backoff.Policy{Schedule: backoff.Constant(time.Millisecond)}, 4 * min, 5 * min, backoff.ReasonOpen, 60},
		"MaxDelay":              {backoff.Policy{MaxDelay: time.Second}, 4 * min, 5 * min, backoff.ReasonOpen, 1000},
		"a decorrelated one":    {backoff.Policy{Jitter: backoff.DecorrelatedJitter(100*time.Millisecond, 30*time.Second)}, 4 * min, 5 * min, backoff.ReasonOpen, 60},
	} {
		bubble(t, name, func(t *testing.T) {
			ctx := within(t, day)
			breaker := &backoff.Breaker{Name: "db"}
			breaker.Force(backoff.ModeForcedOpen)
			policy := row.policy
			policy.Rand = rand.New(rand.NewPCG(1, 2)).Float64
			events := watch(&policy)
			began, asked, tries := time.Now(), 0, 0
			err := policy.Do(ctx, func(ctx context.Context) error {
				if tries++; tries == 1 {
					return errBoom
				}
				asked++
				return waitingFor(breaker, returning(nil).do)(ctx)
			})
			took := time.Since(began)
			require.GreaterOrEqual(t, took, row.least)
			require.LessOrEqual(t, took, row.most)
			require.LessOrEqual(t, asked, row.polls)
			require.Equal(t, row.why, gaveUp(t, err).Reason)
			require.ErrorIs(t, err, errBoom)
			require.Equal(t, row.why == backoff.ReasonOpen, errors.Is(err, backoff.ErrOpen))

			require.Len(t, *events, 1+asked, "a retry, and a refusal each but the last, which is the end")
			var waited time.Duration
			for _, e := range (*events)[1:asked] {
				require.Equal(t, backoff.EventRefused, e.Kind)
				require.Equal(t, backoff.ReasonOpen, e.Reason)
				require.ErrorIs(t, e.Err, backoff.ErrOpen)
				require.Equal(t, 1, e.Attempt)
				require.Equal(t, backoff.ClassUnknown, e.Class)
				waited += e.Wait
			}
			require.Equal(t, took, (*events)[0].Wait+waited)
		})
	}
}

// waitsForCircuit returns how long a call waits after each error.
func waitsForCircuit(t *testing.T, policy backoff.Policy, errs ...error) (waits []time.Duration) {
	policy.Jitter, policy.MaxAttempts = backoff.NoJitter, -1
	policy.Observer = func(_ context.Context, e backoff.Event) {
		if e.Kind == backoff.EventRetry || e.Kind == backoff.EventRefused {
			waits = append(waits, e.Wait)
		}
	}
	require.NoError(t, policy.Do(t.Context(), returning(append(errs, nil)...).do))
	return waits
}

func TestAPolicyAsksACircuitMoreAndMoreSeldom(t *testing.T) {
	open, told := waitFor(0), waitFor(time.Minute)
	for _, row := range []struct {
		schedule backoff.Schedule
		errs     []error
		want     []time.Duration
	}{
		{backoff.Constant(0), []error{open, open, open, open}, msec(10, 20, 40, 80)},
		{backoff.Linear{Initial: time.Second}, []error{open, open, open}, msec(1000, 2000, 3000)},
		{backoff.Linear{Initial: time.Second}, []error{open, open, told, open, open}, msec(1000, 2000, 60_000, 1000, 2000)},
		{backoff.Linear{Initial: time.Second}, []error{errBoom, open, open, errBoom, open}, msec(1000, 2000, 3000, 2000, 3000)},
	} {
		synctest.Test(t, func(t *testing.T) {
			require.Equal(t, row.want, waitsForCircuit(t, backoff.Policy{Schedule: row.schedule}, row.errs...))
		})
	}
}

func TestAPolicyCountsItsTimeForACircuitFromOneAttemptToTheNext(t *testing.T) {
	told := waitFor(100 * time.Second)
	synctest.Test(t, func(t *testing.T) {
		waitsForCircuit(t, backoff.Policy{}, told, told, told, errBoom, told, told, told) // twice five minutes
	})
	at, err := attempts(t, backoff.Policy{}, told, told, told, told)
	require.ErrorIs(t, err, backoff.ErrOpen)
	require.Equal(t, msec(0, 100_000, 200_000, 300_000), at)
}

// What Validate says.

func TestValidateReportsEveryProblem(t *testing.T) {
	policy := backoff.Policy{
		Schedule: backoff.Constant(-1),
		Jitter:   backoff.DecorrelatedJitter(-1, 0),
		ByClass:  map[backoff.Class]backoff.ClassLimits{backoff.ClassThrottled: {Jitter: backoff.UniformJitter(2, 1)}},
		Budget:   &backoff.RetryBudget{Ratio: -1, Floor: -1},
	}
	err := policy.Validate()
	for _, field := range []string{"Policy.Schedule", "Policy.Jitter", "Policy.ByClass[throttled].Jitter", "RetryBudget.Ratio", "RetryBudget.Floor"} {
		require.ErrorContains(t, err, "backoff: "+field)
	}
	require.False(t, (&backoff.Policy{}).Retryable(err))
}

func TestValidateNamesTheFieldAndItsValue(t *testing.T) {
	const s = time.Second
	for want, policy := range map[string]backoff.Policy{
		"Policy.Schedule: Constant is -1s, want 0 or more":                                            {Schedule: backoff.Constant(-s)},
		"Policy.Schedule: Linear.Initial is -1s, want 0 or more":                                      {Schedule: backoff.Linear{Initial: -s}},
		"Policy.Schedule: Linear.Step is -1s, want 0 or more":                                         {Schedule: backoff.Linear{Step: -s}},
		"Policy.Schedule: Linear.Initial is 2s, above the maximum of 1s":                              {Schedule: backoff.Linear{Initial: 2 * s, Max: s}},
		"Policy.Schedule: Exponential.Initial is -1s, want 0 or more":                                 {Schedule: backoff.Exponential{Initial: -s}},
		"Policy.Schedule: Exponential.Initial is 2s, above the maximum of 1s":                         {Schedule: backoff.Exponential{Initial: 2 * s, Max: s}},
		"Policy.Schedule: Exponential.Multiplier is 0.99, want 0 (for 2) or at least 1":               {Schedule: backoff.Exponential{Multiplier: 0.99}},
		"Policy.Schedule: Exponential.Multiplier is -2, want 0 (for 2) or at least 1":                 {Schedule: backoff.Exponential{Multiplier: -2}},
		"Policy.Schedule: Exponential.Multiplier is NaN, want 0 (for 2) or at least 1":                {Schedule: backoff.Exponential{Multiplier: math.NaN()}},
		"Policy.Schedule: Exponential.Multiplier is +Inf, want 0 (for 2) or at least 1":               {Schedule: backoff.Exponential{Multiplier: math.Inf(1)}},
		"Policy.Schedule is an empty Sequence, want at least one delay":                               {Schedule: backoff.Sequence()},
		"Policy.Schedule: Sequence[1] is -1s, want 0 or more":                                         {Schedule: backoff.Sequence(s, -s)},
		"Policy.Schedule holds a nil pointer":                                                         {Schedule: backoff.ScheduleFunc(nil)},
		"Policy.AttemptTimeoutSchedule: Constant is -1s, want 0 or more":                              {AttemptTimeoutSchedule: backoff.Constant(-s)},
		"Policy.AttemptTimeoutSchedule: Exponential.Multiplier is 0.5, want 0 (for 2) or at least 1":  {AttemptTimeoutSchedule: backoff.Exponential{Multiplier: 0.5}},
		"Policy.Schedule: Exponential.Initial is 2562047h47m16.854775807s, above the maximum of 30s":  {Schedule: backoff.Exponential{Initial: forever, Max: 30 * s}},
		"Policy.AttemptTimeout is 2s beside an AttemptTimeoutSchedule, want one of them":              {AttemptTimeout: 2 * s, AttemptTimeoutSchedule: backoff.Constant(s)},
		"Policy.Schedule: Exponential.Multiplier is 0.9999999999999999, want 0 (for 2) or at least 1": {Schedule: backoff.Exponential{Multiplier: 1 - 0x1p-53}},
	} {
		err := policy.Validate()
		require.EqualError(t, err, "backoff: "+want)
		op := returning(nil)
		require.EqualError(t, policy.Do(t.Context(), op.do), "backoff: "+want)
		require.Empty(t, op.at)
		require.False(t, (&backoff.Policy{}).Retryable(err), "nor will a policy around this one")
	}
}

func TestValidateNamesTheClassWhoseLimitsAreInvalid(t *testing.T) {
	for want, byClass := range map[string]map[backoff.Class]backoff.ClassLimits{
		"Policy.ByClass[permanent] is class 5, want one that is retried":                                 {backoff.ClassPermanent: {}},
		"Policy.ByClass[overloaded] is class 4, want one that is retried":                                {backoff.ClassOverloaded: {MaxAttempts: 2}},
		"Policy.ByClass[invalid] is class 6, want one that is retried":                                   {backoff.ClassPermanent + 1: {}},
		"Policy.ByClass[invalid] is class 255, want one that is retried":                                 {255: {}},
		"Policy.ByClass[throttled].Schedule: Constant is -1s, want 0 or more":                            {backoff.ClassThrottled: {Schedule: backoff.Constant(-time.Second)}},
		"Policy.ByClass[not sent].Schedule: Exponential.Multiplier is 0.5, want 0 (for 2) or at least 1": {backoff.ClassRetryable: {}, backoff.ClassNotSent: {Schedule: backoff.Exponential{Multiplier: 0.5}}},
		"Policy.ByClass[unknown].Schedule is an empty Sequence, want at least one delay":                 {backoff.ClassUnknown: {Schedule: backoff.Sequence()}},
		"Policy.ByClass[retryable].Schedule holds a nil pointer":                                         {backoff.ClassRetryable: {Schedule: backoff.ScheduleFunc(nil)}},
	} {
		policy := backoff.Policy{ByClass: byClass}
		err := policy.Validate()
		require.EqualError(t, err, "backoff: "+want)
		require.False(t, (&backoff.Policy{}).Retryable(err), "nor will a policy around this one")
		for name, run := range waysToRun() {
			if name == "Decide" {
				continue // which cannot return an error
			}
			op := returning(errBoom)
			err := run(t.Context(), &policy, op.do)
			require.ErrorContains(t, err, want, name)
			require.False(t, (&backoff.Policy{}).Retryable(err), name)
			switch name {
			case "Retry", "Supervise", "timed":
				require.Empty(t, op.at, name)
			default: // a success at once needs no limits
				require.Len(t, op.at, 1, name)
				require.Equal(t, name != "Tried", errors.Is(err, errBoom), name) // which asks afterwards
			}
		}
	}
}

func TestAnObserverHearsOfAnInvalidByClass(t *testing.T) {
	policy := backoff.Policy{ByClass: map[backoff.Class]backoff.ClassLimits{backoff.ClassPermanent: {}}}
	events := watch(&policy)
	policy.Budget = &doorBudget{open: true}
	err := policy.Do(t.Context(), returning(errBoom).do)
	require.EqualError(t, err, "backoff: gave up after 1 attempt: Policy.ByClass[permanent] is class 5, want one that is retried: "+errBoom.Error())
	require.Equal(t, errBoom, backoff.Cause(err))
	require.Len(t, *events, 1)
	require.Equal(t, backoff.ReasonInvalid, (*events)[0].Reason)
	require.Equal(t, errBoom, (*events)[0].Err, "of the attempt")
	require.Equal(t, "backoff: gave up after 1 attempt", (&backoff.Error{Reason: backoff.ReasonInvalid, Attempts: 1}).Error())
}

// A success needs no limits, and reads none: whoever writes the map between
// two calls that succeed at once, writes it alone.
func TestACallThatSucceedsAtOnceDoesNotReadByClass(t *testing.T) {
	policy := withClasses()
	var wg sync.WaitGroup
	wg.Go(func() { policy.ByClass[backoff.ClassThrottled] = backoff.ClassLimits{} })
	wg.Go(func() {
		for range 100 {
			require.NoError(t, policy.Do(t.Context(), returning(nil).do))
		}
	})
	wg.Wait()
}

func TestValidateRefusesAJitterWithImpossibleBounds(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for name, jitter := range map[string]backoff.Jitter{
		"lo beyond hi": backoff.UniformJitter(2, 1), "negative lo": backoff.UniformJitter(-0.1, 1), "NaN": backoff.UniformJitter(nan, nan),
		"NaN hi": backoff.UniformJitter(0, nan), "infinite hi": backoff.UniformJitter(0, inf),
		"negative base": backoff.DecorrelatedJitter(-1, 0), "base beyond max": backoff.DecorrelatedJitter(2, 1),
	} {
		policy := backoff.Policy{Jitter: jitter}
		require.ErrorContains(t, policy.Validate(), "Policy.Jitter", name)
		op := returning(nil)
		require.ErrorContains(t, policy.Do(t.Context(), op.do), "Policy.Jitter", name)
		require.Empty(t, op.at, name)
	}
}

// A caller who does not ask Validate gets no busy loop: the delay stands.
func TestAnImpossibleJitterLeavesTheDelayAsItIs(t *testing.T) {
	policy := backoff.Policy{Schedule: backoff.Constant(time.Second), Jitter: backoff.UniformJitter(2, 1)}
	require.Equal(t, time.Second, policy.WaitBefore(1))
}

func TestValidateAcceptsWhatItsDocumentationAllows(t *testing.T) {
	for i, policy := range []backoff.Policy{
		{},
		{MaxAttempts: -1, MaxElapsed: -1, MaxDelay: -1, MaxRetryAfter: -1},
		{Schedule: backoff.Constant(0)},
		{Schedule: backoff.Linear{}},
		{Schedule: backoff.Linear{Max: -1}},
		{Schedule: backoff.Exponential{Multiplier: 1}},
		{Schedule: backoff.Exponential{Multiplier: math.MaxFloat64, Initial: forever}},
		{Schedule: backoff.Exponential{Initial: time.Second, Max: time.Second}},
		{Schedule: backoff.Sequence(0)},
		{Schedule: negative{}},
		{ByClass: map[backoff.Class]backoff.ClassLimits{}},
		{ByClass: map[backoff.Class]backoff.ClassLimits{0: {}, 1: {MaxAttempts: -1}, 2: {MaxAttempts: math.MinInt, Schedule: negative{}}, 3: {Schedule: backoff.Constant(0)}}},
		{Jitter: backoff.UniformJitter(0, 0)}, {Jitter: backoff.UniformJitter(1, math.MaxFloat64)},
		{Jitter: backoff.DecorrelatedJitter(1, 1)}, {Jitter: backoff.DecorrelatedJitter(0, -1)},
	} {
		require.NoError(t, policy.Validate(), "policy %d", i)
	}
}

// A Policy is written with the names of its fields, and not compared: what it
// does hangs on functions.
func TestAPolicyIsKeyedAndNotComparable(t *testing.T) {
	policy := reflect.TypeFor[backoff.Policy]()
	require.False(t, policy.Comparable())
	require.Equal(t, "_", policy.Field(0).Name)
	require.Zero(t, policy.Field(0).Type.Size())
}

// The parts of a policy, for those who have a loop of their own.

func TestDelayIsTheWaitBeforeARetry(t *testing.T) {
	policy := backoff.Policy{Rand: fixed(0.5)}
	for retry, want := range map[int]time.Duration{math.MinInt: 0, -1: 0, 0: 0, 1: 50 * time.Millisecond, 2: 100 * time.Millisecond, 3: 200 * time.Millisecond, math.MaxInt: 15 * time.Second} {
		require.Equal(t, want, policy.WaitBefore(retry), "retry %d", retry)
	}
}

// statusError is an error that carries a status.
type statusError int

func (s statusError) Error() string { return http.StatusText(int(s)) }

// again returns the wait of a decision that there is another attempt.
func again(t *testing.T, p backoff.Policy, retry int, err error) time.Duration {
	t.Helper()
	d := p.Decide(retry, err)
	require.True(t, d.Again, "%v", err)
	return d.Wait
}

func TestDecideIsThePolicyWithoutACall(t *testing.T) {
	policy := backoff.Policy{Rand: fixed(0.5)}
	for _, row := range []struct {
		retry int
		err   error
		wait  time.Duration
		again bool
	}{
		{1, errBoom, 50 * time.Millisecond, true},
		{3, errBoom, 200 * time.Millisecond, true},
		{4, errBoom, 0, false}, // that would be the fifth attempt
		{0, errBoom, 50 * time.Millisecond, true},
		{math.MinInt, errBoom, 50 * time.Millisecond, true},
		{1, nil, 0, false},
		{1, backoff.Permanent(errBoom), 0, false},
		{1, backoff.RetryAfter(errBoom, time.Minute), 63 * time.Second, true},
		{1, backoff.RetryAfter(errBoom, 6*time.Minute), 0, false},
		{1, backoff.Pushback(errBoom, time.Minute), time.Minute, true},
		{1, backoff.Pushback(errBoom, -1), 0, false},
	} {
		d := policy.Decide(row.retry, row.err)
		require.Equal(t, row.again, d.Again, "%+v", row)
		require.Equal(t, row.wait, d.Wait, "%+v", row)
	}
}

// A policy is data: a call goes by what the policy said when it began.
func TestARunHoldsACopyOfItsPolicy(t *testing.T) {
	policy := steady(0)
	r := policy.Start(t.Context())
	policy.MaxAttempts = 1
	op := returning(errBoom)
	require.Error(t, loop(r, op.do))
	require.Len(t, op.at, 4)
}

// An emergency call waits less under the same policy.
func TestAnUrgentCallWaitsLess(t *testing.T) {
	policy := backoff.Policy{Jitter: backoff.NoJitter, MaxDelay: time.Second}
	for priority, want := range map[backoff.Priority]time.Duration{
		backoff.PriorityHigh: 350 * time.Millisecond, backoff.PriorityNormal: 700 * time.Millisecond, backoff.PriorityBackground: 2200 * time.Millisecond,
		backoff.PriorityHigh + 1: 350 * time.Millisecond, backoff.PriorityBackground - 1: 2200 * time.Millisecond,
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			err := policy.Do(backoff.WithPriority(t.Context(), priority), returning(errBoom).do)
			require.ErrorIs(t, err, backoff.ErrExhausted)
			require.Equal(t, want, time.Since(start), "priority %v", priority)
		})
	}
}

// Every attempt shows the budget the priority of its call.
func TestABudgetSeesThePriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := new(clerk)
		ctx := backoff.WithPriority(t.Context(), backoff.PriorityHigh)
		_ = backoff.Policy{MaxAttempts: 2, Budget: budget}.Do(ctx, returning(errBoom).do)
		_, _ = hedge.Value(ctx, &hedge.Hedge{Budget: budget}, func(context.Context) (int, error) { return 0, nil }, nil)
		_ = backoff.Policy{Budget: budget}.Do(t.Context(), returning(nil).do)
		const high, normal = backoff.PriorityHigh, backoff.PriorityNormal
		asked := each(budget.asked, func(a backoff.Attempt) backoff.Priority { return a.Priority })
		require.Equal(t, []backoff.Priority{high, high, high, normal}, asked)
	})
}

func TestPriorityNamesAreTexts(t *testing.T) {
	names := map[backoff.Priority]string{
		backoff.PriorityBackground: "background", backoff.PriorityNormal: "normal", backoff.PriorityHigh: "high",
		backoff.PriorityBackground - 1: "invalid", backoff.PriorityHigh + 1: "invalid",
	}
	for p, want := range names {
		require.Equal(t, want, p.String())
	}
}

func ExampleWithPriority() {
	policy := backoff.Policy{Jitter: backoff.NoJitter, Schedule: backoff.Constant(8 * time.Millisecond), Observer: func(_ context.Context, e backoff.Event) {
		fmt.Println(e.Kind, e.Wait)
	}}
	policy.MaxAttempts = 2
	emergency := backoff.WithPriority(context.Background(), backoff.PriorityHigh)
	_ = policy.Do(emergency, func(context.Context) error { return fmt.Errorf("busy") })
	// Output:
	// retry 4ms
	// give up 0s
}

func ExamplePriority() {
	fmt.Println(backoff.PriorityHigh > backoff.PriorityNormal, backoff.PriorityNormal)
	// Output: true normal
}

// cutShort is a policy whose first wait is cut to the time left.
var cutShort = backoff.Policy{
	MaxElapsed:      200 * time.Millisecond,
	Schedule:        backoff.Constant(20 * time.Second),
	Jitter:          backoff.NoJitter,
	ShortenLastWait: true,
}

// In earnest: outside of a bubble the clock goes on between two readings.
func TestAWaitThatIsCutToTheTimeLeftFitsIntoIt(t *testing.T) {
	t.Parallel()
	for _, budget := range []backoff.Budget{nil, slowBudget{}} {
		policy, attempts := cutShort, 0
		policy.Budget = budget
		err := policy.Do(t.Context(), func(context.Context) error { attempts++; return errBoom })
		require.ErrorIs(t, err, backoff.ErrExhausted)
		require.Equal(t, 2, attempts)
	}
}

// A slowBudget grants everything, and takes a while to say so.
type slowBudget struct{ backoff.BudgetDefaults }

func (slowBudget) Reserve(a backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	time.Sleep(time.Microsecond)
	return backoff.Ticket{}, a.Wait, true
}

func (slowBudget) Pace(t backoff.Ticket) (backoff.Ticket, time.Duration, bool) {
	time.Sleep(time.Microsecond)
	return t, 0, true
}

func TestTheLastAttemptIsMadeThoughABudgetTakesTimeToGrantIt(t *testing.T) {
	for name, call := range map[string]func(backoff.Policy, context.Context, func(context.Context) error) error{
		"Do":        backoff.Policy.Do,
		"Supervise": supervise,
	} {
		bubble(t, name, func(t *testing.T) {
			policy, attempts := cutShort, 0
			policy.Budget = slowBudget{}
			err := call(policy, t.Context(), func(context.Context) error { attempts++; return errBoom })
			require.ErrorIs(t, err, backoff.ErrExhausted)
			require.Equal(t, 2, attempts)
		})
	}
}

// A loop that asks Decide ends a call as Do does.
func TestGiveUpReturnsWhatDoReturns(t *testing.T) {
	refuses := backoff.RetryIf(func(err error) bool { return err != errFinal })
	for name, row := range map[string]struct {
		policy backoff.Policy
		err    error
	}{
		"attempts":               {backoff.Policy{Name: "p", MaxAttempts: 2}, errBoom},
		"one attempt":            {backoff.Policy{MaxAttempts: 1}, errBoom},
		"permanent":              {backoff.Policy{}, backoff.Permanent(errFinal)},
		"permanent, by Classify": {backoff.Policy{Classify: refuses}, errFinal},
		"not idempotent":         {backoff.Policy{Idempotency: backoff.NonIdempotent}, errBoom},
		"overloaded":             {backoff.Policy{}, backoff.OfClass(errBoom, backoff.ClassOverloaded)},
		"retry after":            {backoff.Policy{}, backoff.RetryAfter(errBoom, time.Hour)},
		"open":                   {backoff.Policy{}, &backoff.OpenError{Name: "search", State: backoff.BreakerOpen}},
	} {
		bubble(t, name, func(t *testing.T) {
			p := row.policy
			want := p.Do(t.Context(), returning(row.err).do)
			var d backoff.Decision
			n := 0
			for d.Again = true; d.Again; {
				n++
				d = p.Decide(n, row.err)
			}
			if d.Reason == backoff.ReasonOpen {
				n--
			}
			got := p.GiveUp(t.Context(), backoff.Error{Attempts: n, Reason: d.Reason, Last: row.err})
			if d.Reason != backoff.ReasonOpen { // which Do returns as it is, if it was the first attempt
				require.Equal(t, want.Error(), got.Error())
				require.IsType(t, want, got)
			}
			if want, ok := want.(*backoff.Error); ok {
				require.Equal(t, want.Class(), gaveUp(t, got).Class())
				require.Equal(t, want.Repeatable(), gaveUp(t, got).Repeatable())
			}
			for _, target := range []error{row.err, backoff.ErrExhausted, backoff.ErrOpen} {
				require.Equal(t, errors.Is(want, target), errors.Is(got, target), "%v", target)
			}
			require.Equal(t, backoff.Policy{}.Retryable(want), backoff.Policy{}.Retryable(got))
			wantAfter, _ := backoff.RetryAfterOf(want)
			gotAfter, _ := backoff.RetryAfterOf(got)
			require.Equal(t, wantAfter, gotAfter)
		})
	}
}

func TestGiveUpSaysHowTheContextEndedTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := within(t, time.Second)
		err := backoff.Policy{}.GiveUp(ctx, backoff.Error{Attempts: 1, Reason: backoff.ReasonDeadline, Last: errBoom})
		require.EqualError(t, err, "backoff: gave up after 1 attempt: the next wait would pass the deadline: boom")
		require.ErrorIs(t, err, context.DeadlineExceeded)

		<-ctx.Done()
		late := backoff.Error{Attempts: 2, Reason: backoff.ReasonDeadline, Last: errBoom, Interrupted: io.ErrUnexpectedEOF}
		err = backoff.Policy{}.GiveUp(ctx, late)
		require.EqualError(t, err, "backoff: gave up after 2 attempts: context deadline exceeded: boom")
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.True(t, gaveUp(t, err).ContextError() == context.DeadlineExceeded)

		late.Interrupted = backoff.Permanent(errFinal) // an answer that came in time
		err = backoff.Policy{}.GiveUp(ctx, late)
		require.ErrorIs(t, gaveUp(t, err).Last, errFinal)
		require.NoError(t, gaveUp(t, err).Interrupted)
	})
}

func TestGiveUpMatchesTheRefusalAfterAFailure(t *testing.T) {
	open := &backoff.OpenError{Name: "search", State: backoff.BreakerOpen}
	err := backoff.Policy{}.GiveUp(t.Context(), backoff.Error{Attempts: 1, Reason: backoff.ReasonOpen, Last: errBoom, Interrupted: open})
	require.EqualError(t, err, "backoff: gave up after 1 attempt: circuit open: boom")
	require.Same(t, open, refusedBy(t, err))
	require.ErrorIs(t, err, backoff.ErrOpen)
}

// What a budget is told of an attempt under Do is what a loop of its own can
// tell it.
func TestADecisionHasTheResultForABudget(t *testing.T) {
	for _, err := range []error{
		errBoom, backoff.Permanent(errFinal), &backoff.OpenError{}, &backoff.Error{Last: errBoom},
		backoff.RetryAfter(backoff.OfClass(errBoom, backoff.ClassThrottled), time.Hour),
		backoff.OfClass(backoff.OfClass(errBoom, backoff.ClassThrottled), backoff.ClassOverloaded),
	} {
		b := new(clerk)
		_ = backoff.Policy{Budget: b, MaxAttempts: 1}.Do(t.Context(), returning(err).do)
		b.results[0].Took = 0
		require.Equal(t, b.results[0], backoff.Policy{}.Decide(1, err).Result(), "%v", err)
	}
}

func TestGiveUpTellsADeadlineFromACancellation(t *testing.T) {
	late := within(t, -1)
	e := backoff.Error{Attempts: 1, Reason: backoff.ReasonCanceled, Last: errBoom}
	require.Equal(t, backoff.ReasonDeadline, gaveUp(t, backoff.Policy{}.GiveUp(late, e)).Reason)
	require.Equal(t, backoff.ReasonCanceled, gaveUp(t, backoff.Policy{}.GiveUp(t.Context(), e)).Reason, "the loop may know of another context")
}
