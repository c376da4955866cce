package backoffhttp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

func respond(t testing.TB, code int, header ...string) *http.Response {
	t.Helper()
	resp, err := answer(code, header...)(newRequest(t, "GET", "http://a.test/", nil))
	require.NoError(t, err)
	return resp
}

func TestRetryAfterInAllItsForms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the clock is 2000-01-01 00:00:00 UTC
		for _, c := range []struct {
			name, value string
			want        time.Duration
			ok          bool
		}{
			{"Retry-After", "120", 2 * time.Minute, true},
			{"Retry-After", "Sat, 01 Jan 2000 00:02:00 GMT", 2 * time.Minute, true},
			{"Retry-After", "soon", 0, false},
			{"x-amz-retry-after", "1500", 1500 * time.Millisecond, true},
			{"x-amz-retry-after", "99999999999999999999", 5 * time.Second * 10 / 11, true},
			{"ratelimit", `"default";r=0;t=30`, 30 * time.Second, true},
			{"X-RateLimit-Reset", "30", 0, false},
		} {
			got, ok := backoffhttp.RetryAfter(respond(t, 503, c.name, c.value))
			require.Equal(t, c.ok, ok, "%s: %q", c.name, c.value)
			require.Equal(t, c.want, got, "%s: %q", c.name, c.value)
		}
	})
}

// Never below Retry-After, and not all at the same time.
func TestARetryAfterIsSpreadUpwards(t *testing.T) {
	var seen []time.Duration
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			w := newWire(answer(503, "Retry-After", "120"), answer(200))
			tr := &backoffhttp.Unguarded{Base: w}
			getRoot(t, tr)
			require.GreaterOrEqual(t, w.waits()[0], 120*time.Second)
			require.LessOrEqual(t, w.waits()[0], 132*time.Second)
			seen = append(seen, w.waits()[0])
		})
	}
	require.NotEqual(t, seen[0], seen[1])
}

// With any answer that is retried, and with 413.
func TestRetryAfterCountsWithEveryAnswerThatIsRetried(t *testing.T) {
	for _, code := range []int{408, 413, 425, 429, 500, 502, 503, 504, 509, 520, 599} {
		synctest.Test(t, func(t *testing.T) {
			w := newWire(answer(code, "Retry-After", "2"), answer(200))
			require.Equal(t, 200, getRoot(t, over(w)).StatusCode)
			require.GreaterOrEqual(t, w.waits()[0], 2*time.Second, "%d", code)
		})
	}
	for _, code := range []int{301, 400, 404, 501} {
		w := newWire(answer(code, "Retry-After", "2"))
		getRoot(t, over(w))
		require.Equal(t, 1, w.requests(), "%d: Retry-After says when, not whether", code)
	}
}

// A longer wait than MaxRetryAfter ends the call. The answer is
// returned.
func TestARetryAfterBeyondMaxRetryAfterEndsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(answer(429, "Retry-After", "86400"))
		began := time.Now()
		resp := roundTrip(t, &backoffhttp.Transport{Base: w}, newRequest(t, "GET", "http://a.test/", nil))
		require.Equal(t, 429, resp.StatusCode)
		require.Zero(t, time.Since(began))
		gave := gaveUp(t, resp)
		require.Equal(t, 24*time.Hour, gave.RetryAfter())
	})
}

// What AWS clamps to: its own wait, up to 5 s above it.
func TestTheRetryAfterOfAWSStaysWithin5sOfTheOwnWait(t *testing.T) {
	for _, asked := range []string{"0", "50", "3000", "5000", "60000", "99999999999"} {
		for _, u := range []float64{0, 0.5, 0.999999} {
			synctest.Test(t, func(t *testing.T) {
				w := newWire(answer(503, "X-Amz-Retry-After", asked), answer(200))
				tr := &backoffhttp.Unguarded{Base: w}
				tr.Policy = backoff.Policy{Schedule: backoff.Constant(time.Second), Rand: func() float64 { return u }}
				getRoot(t, tr)
				own := time.Duration(u * float64(time.Second))
				require.GreaterOrEqual(t, w.waits()[0], own)
				require.LessOrEqual(t, w.waits()[0], own+5*time.Second)
			})
		}
	}
}

// A refusal beats any classifier and any idempotency.
func TestADoNotRetryIsObeyed(t *testing.T) {
	for _, header := range [][]string{
		{"X-Should-Retry", "false"},
		{"x-should-retry", "False"},
		{"Stripe-Should-Retry", "false"},
		{"X-Envoy-Overloaded", "true"},
		{"x-envoy-overloaded", "1"},
		{"X-Envoy-Ratelimited", "true"},
		{"grpc-retry-pushback-ms", "-1"},
		{"grpc-retry-pushback-ms", "soon"},
		{"grpc-retry-pushback-ms", ""},
		{"grpc-retry-pushback-ms", "10", "grpc-retry-pushback-ms", "20"},
		{"X-Should-Retry", "true", "X-Envoy-Overloaded", "true"},
		{"X-Should-Retry", "false", "Stripe-Should-Retry", "true"},
	} {
		tr, w := scripted(answer(503, header...))
		tr.Policy.Classify = func(error) backoff.Class { return backoff.ClassRetryable }
		tr.Policy.Idempotency = backoff.Idempotent
		resp := getRoot(t, tr)
		require.Equal(t, 1, w.requests(), "%v", header)
		require.Equal(t, backoff.ReasonOverloaded, gaveUp(t, resp).Reason)
	}
}

// Stripe's SDKs let the header overrule the status, both ways.
func TestADoRetryOverrulesTheStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(answer(409, "Stripe-Should-Retry", "true"), answer(400, "X-Should-Retry", "true"), answer(429, "X-Should-Retry", "true"), answer(200))
		var classes []backoff.Class
		tr := over(w)
		tr.Policy.Observer = func(_ context.Context, e backoff.Event) {
			if e.Kind == backoff.EventRetry {
				classes = append(classes, e.Class)
			}
		}
		require.Equal(t, 200, getRoot(t, tr).StatusCode)
		require.Equal(t, []backoff.Class{backoff.ClassRetryable, backoff.ClassRetryable, backoff.ClassThrottled}, classes)
	})
	w := newWire(answer(503, "X-Should-Retry", "true"))
	roundTrip(t, over(w), newRequest(t, "POST", "http://a.test/", nil))
	require.Equal(t, 1, w.requests(), "but not that the request is no effect")
}

// GRPC's pushback is exact.
func TestAPushbackIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(answer(503, "Grpc-Retry-Pushback-Ms", "1234"), answer(200))
		getRoot(t, over(w))
		require.Equal(t, []time.Duration{1234 * time.Millisecond}, w.waits())
	})
}

func TestASharedRetryAfterMayComeWithASuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, w := holding(answer(200, "Retry-After", "10"), answer(200))
		getRoot(t, tr)
		roundTrip(t, tr, newRequest(t, "GET", "http://b.test/", nil))
		require.Equal(t, []time.Duration{0}, w.waits(), "other hosts do not wait")
		getRoot(t, tr)
		require.GreaterOrEqual(t, w.waits()[1], 10*time.Second)
		require.LessOrEqual(t, w.waits()[1], 11*time.Second)
		getRoot(t, tr)
		require.Zero(t, w.waits()[2], "once")
	})
}

func TestASharedRetryAfterHoldsForAllCallsToTheHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, _ := holding(answer(429, "Retry-After", "5"), answer(200))
		go tr.RoundTrip(newRequest(t, "GET", "http://a.test/first", nil))
		synctest.Wait()
		began := time.Now()
		roundTrip(t, tr, newRequest(t, "GET", "http://a.test/second", nil))
		require.GreaterOrEqual(t, time.Since(began), 5*time.Second)
		time.Sleep(time.Minute)
	})
}

func TestASharedRetryAfterBeyondMaxRetryAfterIsIgnored(t *testing.T) {
	for asked, wait := range map[string]time.Duration{"301": 0, "300": 300 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			tr, w := holding(answer(200, "Retry-After", asked), answer(200))
			getRoot(t, tr)
			getRoot(t, tr)
			require.GreaterOrEqual(t, w.waits()[0], wait)
			require.LessOrEqual(t, w.waits()[0], wait+wait/10)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		tr, w := holding(answer(200, "Retry-After", "3000"), answer(200, "Retry-After", "1"), answer(200))
		tr.Policy.MaxRetryAfter = -1
		getRoot(t, tr)
		getRoot(t, tr)
		require.GreaterOrEqual(t, w.waits()[0], 3000*time.Second)
	})
}

// A "no" on a definitive answer adds nothing to it: a breaker must not take
// declined cards for an overloaded server.
func TestANoOnADefinitiveAnswerLeavesItDefinitive(t *testing.T) {
	all := httptest.NewRecorder()
	backoffhttp.DoNotRetry(all)
	for status, want := range map[int]backoff.Class{
		400: backoff.ClassPermanent, 402: backoff.ClassPermanent, 408: backoff.ClassPermanent, 409: backoff.ClassPermanent,
		413: backoff.ClassPermanent, 425: backoff.ClassPermanent,
		429: backoff.ClassOverloaded, 500: backoff.ClassOverloaded, 502: backoff.ClassOverloaded, 503: backoff.ClassOverloaded, 504: backoff.ClassOverloaded,
	} {
		for _, header := range []http.Header{
			{"Stripe-Should-Retry": {"false"}}, {"X-Envoy-Overloaded": {"true"}}, {"Grpc-Retry-Pushback-Ms": {"-1"}}, all.Header(),
		} {
			err := backoffhttp.Check(&http.Response{StatusCode: status, Header: header})
			require.Equal(t, want, backoff.DefaultClassifier(err), "status %d, %v", status, header)
		}
	}
}
