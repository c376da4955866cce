package backoff_test

// The first promises of the package, one a test, each on a virtual clock. The
// files beside this one, one for each source file, hold the others and go after
// the edges. The helpers at the bottom serve all of them.

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
)

func TestTheZeroPolicyMakesFourAttemptsUnderFullJitter(t *testing.T) {
	policy := backoff.Policy{Rand: fixed(0.5)} // otherwise zero: half of 100, 200 and 400 ms

	at, err := attempts(t, policy, errBoom)

	require.ErrorIs(t, err, backoff.ErrExhausted)
	require.Equal(t, msec(0, 50, 150, 350), at)
}

func TestDoStopsOnPermanent(t *testing.T) {

	at, err := attempts(t, steady(time.Second), errBoom, backoff.Permanent(errFinal))

	require.ErrorIs(t, err, errFinal)
	require.EqualError(t, err, "final", "the mark must not show")
	require.Equal(t, msec(0, 1000), at)
}

// A result that came is worth more than the context that ended while it came.
func TestASuccessIsNeverDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		value, err := backoff.DoValue(ctx, steady(time.Second), func(context.Context) (string, error) {
			cancel()
			return "result", nil
		})
		require.NoError(t, err)
		require.Equal(t, "result", value)
	})
}

func TestNoAttemptIsMadeUnderAnEndedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op := returning(nil)

		require.ErrorIs(t, steady(time.Second).Do(endedContext(t), op.do), context.Canceled)
		require.Empty(t, op.at)
	})
}

func TestASleepThatCannotEndInAnAttemptIsNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()

		err := steady(3*time.Second).Do(within(t, 2*time.Second), returning(errBoom).do)

		require.Zero(t, time.Since(began), "it must not wait for the deadline")
		requireIs(t, err, context.DeadlineExceeded, errBoom)
	})
}

// Whose deadline it was cannot be told from the error: both are
// DeadlineExceeded.
func TestAnAttemptsTimeoutIsRetriedAndTheCallersIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := steady(time.Second)
		policy.AttemptTimeout = 2 * time.Second
		ctx := within(t, 4*time.Second)
		op := returning(context.DeadlineExceeded)

		err := policy.Do(ctx, op.hang)

		require.Equal(t, msec(0, 3000), op.at)
		require.Equal(t, 4*time.Second, time.Since(op.began))
		require.Equal(t, backoff.ReasonDeadline, gaveUp(t, err).Reason)
		require.NotErrorIs(t, err, backoff.ErrAttemptTimeout, "the caller's deadline came first")
	})
}

// An operation that was told to stop has been told by somebody.
func TestAnOperationsOwnCancellationIsPermanent(t *testing.T) {
	at, err := attempts(t, steady(time.Second), context.Canceled)
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, at, 1)
}

// 3 calls at the bottom, not 27.
func TestNestedPoliciesDoNotMultiply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := &backoff.Policy{Schedule: backoff.Constant(time.Second), Jitter: backoff.NoJitter, MaxAttempts: 3}
		op := returning(errBoom)
		require.ErrorIs(t, policy.Wrap(policy.Wrap(policy.Wrap(op.do)))(t.Context()), errBoom)
		require.Len(t, op.at, 3)
	})
}

func TestAKeyIsTheSameForAllAttemptsOfACallAndNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := steady(time.Second)
		policy.Idempotency = backoff.Keyed
		keys := map[string]int{}
		for range 2 {
			_ = policy.Do(t.Context(), func(ctx context.Context) error {
				keys[backoff.IdempotencyKey(ctx)]++
				return errBoom
			})
		}
		require.Len(t, keys, 2)
		for key, attempts := range keys {
			require.NotEmpty(t, key)
			require.Equal(t, 4, attempts)
		}
	})
}

// Helpers.

var (
	errBoom  = errors.New("boom")
	errFinal = errors.New("final")
)

// steady is a policy that waits exactly d before each of three retries.
func steady(d time.Duration) *backoff.Policy {
	return &backoff.Policy{Schedule: backoff.Constant(d), Jitter: backoff.NoJitter}
}

// scripted is an operation whose results are given, and notes when it was
// called.
type scripted struct {
	results []error
	began   time.Time
	at      []time.Duration
}

// returning returns an operation with the given results, of which the last
// stands for all that follow.
func returning(results ...error) *scripted {
	return &scripted{results: results, began: time.Now()}
}

func (s *scripted) do(context.Context) error {
	s.at = append(s.at, time.Since(s.began))
	return s.results[min(len(s.at), len(s.results))-1]
}

// hang is do for an operation that returns at the end of its context.
func (s *scripted) hang(ctx context.Context) error {
	err := s.do(ctx)
	<-ctx.Done()
	return err
}

// lasting is do for an operation that takes d and is deaf to the end of its context.
func (s *scripted) lasting(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		defer time.Sleep(d)
		return s.do(ctx)
	}
}

// hang waits for the end of its context, and returns its error.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// loop is a call by a loop of the program, which ends with a success.
func loop(r *backoff.Run, op func(context.Context) error) error {
	for ctx := range r.Attempts() {
		err := op(ctx)
		if err == nil {
			break
		}
		r.Fail(err)
	}
	return r.Err()
}

// together runs f in n goroutines, and waits for all of them.
func together(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

// apart runs f in a goroutine of its own, which f may leave.
func apart(f func()) {
	var goroutine sync.WaitGroup
	goroutine.Go(f)
	goroutine.Wait()
}

// attempts makes a call whose attempts have the given results, on a virtual
// clock. It returns when they began, and how the call ended.
func attempts(t *testing.T, d backoff.Doer, results ...error) (at []time.Duration, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		op := returning(results...)
		err = d.Do(t.Context(), op.do)
		at = op.at
	})
	return at, err
}

// within is a context that ends after d.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// cancelledAfter is a context that is cancelled after d.
func cancelledAfter(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(d, cancel)
	return ctx
}

// endedContext is a context that has ended.
func endedContext(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// requireIs requires that err matches all of wants.
func requireIs(t *testing.T, err error, wants ...error) {
	t.Helper()
	for _, want := range wants {
		require.ErrorIs(t, err, want)
	}
}

// gaveUp returns the *Error that err is.
func gaveUp(t *testing.T, err error) *backoff.Error {
	t.Helper()
	e, ok := err.(*backoff.Error)
	require.True(t, ok, "want an *Error, got %T: %v", err, err)
	return e
}

// refusedBy returns the *OpenError that err matches.
func refusedBy(t *testing.T, err error) (open *backoff.OpenError) {
	t.Helper()
	require.ErrorAs(t, err, &open)
	return open
}

// granted is the second of what Begin, Retry and Tried return.
func granted[T any](_ T, ok bool) bool { return ok }

func msec(ms ...int64) []time.Duration {
	times := make([]time.Duration, len(ms))
	for i := range ms {
		times[i] = time.Duration(ms[i]) * time.Millisecond
	}
	return times
}

// fixed draws the same number again and again.
func fixed(u float64) func() float64 { return func() float64 { return u } }

// draws draws the given numbers, each once.
func draws(us ...float64) func() float64 {
	var mu sync.Mutex
	return func() float64 {
		mu.Lock()
		defer mu.Unlock()
		u := us[0]
		us = us[1:]
		return u
	}
}

// doer makes a Doer of a function: one that the package has never seen.
type doer func(ctx context.Context, op func(context.Context) error) error

func (d doer) Do(ctx context.Context, op func(context.Context) error) error { return d(ctx, op) }

// layers puts Doers around one another, the first one outermost.
func layers(doers ...backoff.Doer) backoff.Doer {
	return doer(func(ctx context.Context, op func(context.Context) error) error {
		for _, d := range slices.Backward(doers) {
			inside := op
			op = func(ctx context.Context) error { return d.Do(ctx, inside) }
		}
		return op(ctx)
	})
}
