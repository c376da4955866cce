package plug_test

import (
	"errors"
	"math"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
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

// The closure of the package's documentation. internal/lab/plugtest holds that it, and
// the types of this package, have the shapes of their clients.
func TestAcmeStopsAtTheLimitAndObeysRetryAfter(t *testing.T) {
	delay := func(n int, resp *http.Response) time.Duration { return steps.Decide(n, backoffhttp.Check(resp)).Wait }
	require.Equal(t, 100*time.Millisecond, delay(1, &http.Response{StatusCode: 503}))
	require.Equal(t, 200*time.Millisecond, delay(2, &http.Response{StatusCode: 503}))
	require.Zero(t, delay(4, &http.Response{StatusCode: 503}), "0 stops acme")
	require.Zero(t, delay(1, &http.Response{StatusCode: 400}))
	hinted := &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"7"}}}
	require.GreaterOrEqual(t, delay(1, hinted), 7*time.Second)
}

func TestFromZeroIsSafeForAnyNumber(t *testing.T) {
	seen := 0
	shifted := plug.FromZero(func(n int) time.Duration { seen = n; return 0 })
	for from, want := range map[int]int{0: 1, 1: 2, -1: 1, math.MinInt: 1, math.MaxInt: math.MaxInt} {
		shifted(from)
		require.Equal(t, want, seen, "%d", from)
	}
	require.Equal(t, 100*time.Millisecond, plug.FromZero(steps.Delay)(0))
	require.Zero(t, steps.Delay(0), "autopaho asks for 0 before the first try")
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
		ceiling := max(p.Delay(math.MaxInt), 0)
		least := p.Delay(1)
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
		within(plug.FromZero(p.Delay)(n))
		within(plug.DelayFunc(p)())
		within(plug.Workqueue[int](p).When(n))
	})
}

var errTransient = backoff.OfClass(errors.New("transient"), backoff.ClassRetryable)
