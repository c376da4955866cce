package plug_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/plug"
)

var (
	steps = backoff.Policy{
		MaxAttempts: 4,
		Schedule:    backoff.Exponential{Initial: 100 * time.Millisecond, Max: time.Second},
		Jitter:      backoff.NoJitter,
	}
	invalid = backoff.Policy{Schedule: backoff.Constant(-1)}
)

func TestFromZeroIsSafeForAnyNumber(t *testing.T) {
	seen := 0
	shifted := plug.FromZero(func(n int) time.Duration { seen = n; return 0 })
	for from, want := range map[int]int{0: 1, 1: 2, -1: 1, math.MinInt: 1, math.MaxInt: math.MaxInt} {
		shifted(from)
		require.Equal(t, want, seen, "%d", from)
	}
	require.Equal(t, 100*time.Millisecond, plug.FromZero(steps.WaitBefore)(0))
	require.Zero(t, steps.WaitBefore(0), "autopaho asks for 0 before the first try")
}

// ring is an error that wraps itself, and bush one that does so twice.
type (
	ring struct{}
	bush struct{}
)

func (ring) Error() string   { return "ring" }
func (ring) Unwrap() error   { return ring{} }
func (bush) Error() string   { return "bush" }
func (bush) Unwrap() []error { return []error{bush{}, nil, bush{}} }

func TestAnErrorThatWrapsItselfHangsNoClient(t *testing.T) {
	again := &backoff.Error{}
	again.Last = again
	for _, err := range []error{ring{}, bush{}, errors.Join(ring{}, nil), &url.Error{Op: "Get", Err: ring{}}, again, (*backoff.Error)(nil)} {
		for _, p := range []backoff.Policy{{}, {Classify: func(error) backoff.Class { return backoff.ClassRetryable }}} {
			h, unavailable := plug.RetryableHTTP(p), &http.Response{StatusCode: 503}
			_, _ = h.CheckRetry(t.Context(), unavailable, err)
			_, final := h.ErrorHandler(unavailable, err, 4)
			require.Error(t, final)
			_, final = h.KeepResponse(unavailable, err, 4)
			require.Error(t, final)
			plug.ShouldRetry(p)(unavailable, err)
			plug.GRPC(p).Retriable(err)
			r := plug.AWS(p)
			r.IsErrorRetryable(err)
			_, _ = r.RetryDelay(1, err)
		}
	}
}

func FuzzAttemptNumbers(f *testing.F) {
	for _, n := range []int{0, 1, -1, 62, 63, 64, math.MaxInt, math.MinInt} {
		f.Add(n, uint64(max(0, n)), int64(time.Millisecond), int64(time.Second))
	}
	f.Fuzz(func(t *testing.T, n int, u uint64, initial, limit int64) {
		p := backoff.Policy{
			MaxAttempts: 3,
			Schedule:    backoff.Exponential{Initial: time.Duration(initial), Max: time.Duration(limit)},
			Jitter:      backoff.NoJitter,
		}
		if p.Validate() != nil {
			return
		}
		ceiling := max(p.WaitBefore(math.MaxInt), 0)
		least := p.WaitBefore(1)
		within := func(d time.Duration) {
			if d < least || d > ceiling {
				t.Fatalf("%v is not within %v and %v", d, least, ceiling)
			}
		}
		d, err := plug.AWS(p).RetryDelay(n, errTransient)
		if err != nil {
			t.Fatal(err)
		}
		within(d)
		within(plug.RetryableHTTP(p).Backoff(0, 0, n, nil))
		within(plug.RetryableHTTP(p).Backoff(0, 0, n, &http.Response{StatusCode: 503}))
		within(plug.GRPC(p).Backoff(t.Context(), uint(u)))
		within(plug.FromZero(p.WaitBefore)(n))
		within(plug.DelayFunc(p)())
		within(plug.Workqueue[int](p).When(n))
	})
}

var errTransient = backoff.OfClass(errors.New("transient"), backoff.ClassRetryable)

// codeError is an error with a code.
type codeError int

func (codeError) Error() string { return "failed" }

func TestOnCodeClassifiesAnyComparableCode(t *testing.T) {
	status := func(err error) int {
		var s codeError
		errors.As(err, &s)
		return int(s)
	}
	classify := plug.OnCode(status, 502, 503)
	for code, want := range map[int]backoff.Class{502: backoff.ClassRetryable, 503: backoff.ClassRetryable, 500: backoff.ClassPermanent, 0: backoff.ClassPermanent} {
		require.Equal(t, want, classify(fmt.Errorf("op: %w", codeError(code))), "%d", code)
	}
	require.Equal(t, backoff.ClassPermanent, classify(nil), "though its code is the zero one")
	require.Equal(t, backoff.ClassPermanent, plug.OnCode(status, 0)(nil))
	require.Equal(t, backoff.ClassPermanent, plug.OnCode(status)(codeError(503)), "no codes, no retries")
}

// slice is an error that cannot be compared.
type slice []error

func (slice) Error() string   { return "several" }
func (s slice) Unwrap() error { return s[0] }

func TestPermanentErrorsEndACallAndAllOthersAreLeftToTheDefault(t *testing.T) {
	tooLarge, cyclic := errors.New("too large"), make(slice, 1)
	cyclic[0] = cyclic
	classify := plug.PermanentErrors(nil, cyclic, tooLarge, codeError(400))
	for _, err := range []error{tooLarge, fmt.Errorf("send: %w", tooLarge), errors.Join(errors.New("x"), nil, codeError(400))} {
		require.Equal(t, backoff.ClassPermanent, classify(err))
	}
	for _, err := range []error{nil, errors.New("too large"), codeError(401), cyclic} {
		require.Equal(t, backoff.ClassUnknown, classify(err))
	}
	require.False(t, backoff.Policy{Classify: classify}.Retryable(nil))
}

// With gRPC this is OnCode(status.Code, codes.Unavailable, codes.Aborted).
func ExampleOnCode() {
	type code int
	codeOf := func(err error) (c code) { _, _ = fmt.Sscanf(err.Error(), "code %d", &c); return c }
	classify := plug.OnCode(codeOf, 14, 10)
	fmt.Println(classify(errors.New("code 14")), classify(errors.New("code 3")))
	// Output: retryable permanent
}

func TestGRPCHooksFollowThePolicy(t *testing.T) {
	unavailable := errors.New("unavailable")
	var seen []backoff.Event
	p := steps
	p.Name = "get"
	p.Classify = plug.OnCode(func(err error) bool { return err == unavailable }, true)
	p.Observer = func(_ context.Context, e backoff.Event) { seen = append(seen, e); panic("an observer's") }
	g := plug.GRPC(p)

	require.EqualValues(t, 4, g.Max())
	require.True(t, g.Retriable(unavailable))
	require.False(t, g.Retriable(errors.New("other")))
	require.False(t, g.Retriable(nil))
	require.False(t, plug.GRPC(steps).Retriable(unavailable), "no code is known without a classifier")
	require.Equal(t, 200*time.Millisecond, g.Backoff(t.Context(), 2))
	require.Equal(t, 100*time.Millisecond, g.Backoff(t.Context(), 0))
	require.Equal(t, time.Second, g.Backoff(t.Context(), math.MaxUint))

	g.OnRetry(t.Context(), 2, unavailable)
	require.Equal(t, []backoff.Event{{
		Kind: backoff.EventRetry, Name: "get", Attempt: 2, MaxAttempts: 4, Err: unavailable, Class: backoff.ClassRetryable,
	}}, seen)
	plug.GRPC(steps).OnRetry(t.Context(), 1, unavailable)
}

func TestGRPCRetriesNothingUnderWhatCannotBeObeyed(t *testing.T) {
	g := plug.GRPC(invalid)
	require.False(t, g.Retriable(errTransient))
	require.EqualValues(t, 1, g.Max())
	g.OnRetry(t.Context(), 1, errTransient)

	require.EqualValues(t, 4, plug.GRPC(backoff.Policy{MaxAttempts: -1}).Max())
	require.True(t, plug.GRPC(steps).Retriable(errTransient))
	p := steps
	p.Idempotency = backoff.NonIdempotent
	require.False(t, plug.GRPC(p).Retriable(errTransient))
}

func TestWorkqueueCountsEachItem(t *testing.T) {
	l := plug.Workqueue[string](steps)
	require.Equal(t, 100*time.Millisecond, l.When("a"))
	require.Equal(t, 200*time.Millisecond, l.When("a"))
	require.Equal(t, 100*time.Millisecond, l.When("b"))
	require.Equal(t, 2, l.NumRequeues("a"))
	l.Forget("a")
	l.Forget("never seen")
	require.Zero(t, l.NumRequeues("a"))
	require.Equal(t, 100*time.Millisecond, l.When("a"))
	for range 100 {
		require.LessOrEqual(t, l.When("a"), time.Second)
	}
}

func TestWorkqueueIsSafeForConcurrentUse(t *testing.T) {
	l := plug.Workqueue[int](steps)
	together(8, func(i int) {
		for range 100 {
			l.When(i % 2)
		}
		l.NumRequeues(i)
	})
	require.Equal(t, 400, l.NumRequeues(0))
}

func TestDelayFuncCounts(t *testing.T) {
	next := plug.DelayFunc(steps)
	for _, want := range []time.Duration{100, 200, 400, 800, 1000, 1000} {
		require.Equal(t, want*time.Millisecond, next())
	}
}

func TestShapesThatCannotRefuseFallBackOnTheZeroPolicy(t *testing.T) {
	longest := time.Duration(0)
	for range 100 {
		longest = max(longest, plug.DelayFunc(invalid)(), plug.Workqueue[int](invalid).When(1))
	}
	require.Positive(t, longest)
	require.LessOrEqual(t, longest, 100*time.Millisecond)
}
