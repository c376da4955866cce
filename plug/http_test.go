package plug_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/plug"
)

func response(method string, status int, header ...string) *http.Response {
	req, _ := http.NewRequest(method, "http://example.com", nil)
	resp := &http.Response{StatusCode: status, Header: http.Header{}, Request: req, Body: io.NopCloser(strings.NewReader(""))}
	for i := 0; i < len(header); i += 2 {
		resp.Header.Set(header[i], header[i+1])
	}
	return resp
}

// checkRetry returns what CheckRetry says, which is no error.
func checkRetry(t *testing.T, h *plug.HTTPRetry, resp *http.Response, failed error) bool {
	t.Helper()
	again, err := h.CheckRetry(t.Context(), resp, failed)
	require.NoError(t, err)
	return again
}

func TestCheckRetryAndShouldRetryAgree(t *testing.T) {
	keyed := response("POST", 503)
	keyed.Request.Header.Set("Idempotency-Key", "k")
	conditional := response("POST", 503)
	conditional.Request.Header.Set("If-None-Match", "*")
	redirected := response("GET", 503)
	redirected.Request.Response = response("POST", 303)
	transport := &backoffhttp.Transport{Policy: backoff.Policy{MaxAttempts: 2, Schedule: backoff.Constant(0)}}
	spent, err := transport.Middleware(response("GET", 0).Request, func(req *http.Request) (*http.Response, error) {
		resp := response("GET", 503)
		resp.Request = req
		return resp, nil
	})
	require.NoError(t, err)
	cases := []struct {
		name string
		resp *http.Response
		err  error
		want bool
	}{
		{name: "neither answer nor error"},
		{name: "200", resp: response("GET", 200)},
		{name: "404", resp: response("GET", 404)},
		{name: "429", resp: response("GET", 429), want: true},
		{name: "501", resp: response("GET", 501)},
		{name: "503", resp: response("DELETE", 503), want: true},
		{name: "POST", resp: response("POST", 503)},
		{name: "PATCH", resp: response("PATCH", 429)},
		{name: "POST with a key", resp: keyed, want: true},
		{name: "PROPFIND", resp: response("PROPFIND", 503)},
		{name: "an upload that is conditional", resp: conditional, want: true},
		{name: "a POST that became a GET", resp: redirected},
		{name: "X-Should-Retry: false", resp: response("GET", 503, "X-Should-Retry", "false")},
		{name: "no request", resp: &http.Response{StatusCode: 503}, want: true},
		{name: "beyond MaxRetryAfter", resp: response("GET", 503, "Retry-After", "301")},
		{name: "reset", err: &url.Error{Op: "Get", Err: syscall.ECONNRESET}, want: true},
		{name: "reset POST", err: &url.Error{Op: "Post", Err: syscall.ECONNRESET}},
		{name: "refused POST", err: &url.Error{Op: "Post", Err: syscall.ECONNREFUSED}, want: true},
		{name: "a transport gave up", resp: spent},
		{name: "unknown", err: errors.New("who knows")},
		{name: "gave up", err: &backoff.Error{Reason: backoff.ReasonAttempts, Last: syscall.ECONNRESET}},
	}
	check, should := plug.RetryableHTTP(steps).CheckRetry, plug.ShouldRetry(steps)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	for _, c := range cases {
		got, err := check(ctx, c.resp, c.err)
		require.NoError(t, err, c.name)
		require.Equal(t, c.want, got, c.name)
		require.Equal(t, c.want, should(c.resp, c.err), c.name)
	}
	cancel()
	again, err := check(ctx, response("GET", 503), nil)
	require.False(t, again)
	require.ErrorIs(t, err, context.Canceled)
}

// The client counts without knowing the class, so it gets the smallest limit,
// and is told which class is not retried at all.
func TestTheSmallestLimitHoldsWhereTheClassIsNotKnown(t *testing.T) {
	throttled, transient := backoff.ClassThrottled, backoff.ClassRetryable
	for _, row := range []struct {
		policy int
		limits map[backoff.Class]int
		want   int
	}{
		{3, map[backoff.Class]int{throttled: 10}, 3},
		{5, map[backoff.Class]int{throttled: 2}, 2},
		{0, map[backoff.Class]int{throttled: -1}, 4},
		{-1, map[backoff.Class]int{throttled: 6}, 6},
		{1, map[backoff.Class]int{throttled: 6}, 6},
		{1, map[backoff.Class]int{throttled: -1, transient: 1}, 0},
		{4, map[backoff.Class]int{throttled: 1}, 4},
		{1, map[backoff.Class]int{throttled: 1}, 1},
	} {
		policy := backoff.Policy{MaxAttempts: row.policy, ByClass: map[backoff.Class]backoff.ClassLimits{}}
		for class, n := range row.limits {
			policy.ByClass[class] = backoff.ClassLimits{MaxAttempts: n}
		}
		retry := plug.RetryableHTTP(policy)
		want := row.want - 1
		if row.want == 0 {
			want = math.MaxInt32
		}
		require.Equal(t, want, retry.RetryMax(), "%+v", row)
		if row.want == 0 {
			continue // refused without a deadline
		}
		for status, class := range map[int]backoff.Class{429: throttled, 503: transient} {
			own := row.policy
			if n, ok := row.limits[class]; ok {
				own = n
			}
			require.Equal(t, own != 1, checkRetry(t, retry, response("GET", status), nil), "%+v: %d", row, status)
		}
	}
	policy := steps
	policy.ByClass = map[backoff.Class]backoff.ClassLimits{throttled: {MaxAttempts: 2, Schedule: backoff.Constant(time.Second)}}
	require.Equal(t, time.Second, plug.RetryableHTTP(policy).Backoff(0, 0, 7, response("GET", 429)))
	require.Equal(t, steps.WaitBefore(1), plug.RetryableHTTP(policy).Backoff(0, 0, 0, response("GET", 503)))
	require.Equal(t, 2, policy.ByClass[throttled].MaxAttempts, "the caller's map is not written")
	require.Equal(t, uint(2), plug.GRPC(policy).Max())
}

// onStatus knows one status, which is retryable, and shows its error to see.
func onStatus(code int, see func(*backoffhttp.StatusError)) backoff.Classifier {
	return func(err error) backoff.Class {
		var status *backoffhttp.StatusError
		if errors.As(err, &status) && status.Code == code {
			see(status)
			return backoff.ClassRetryable
		}
		return backoff.ClassUnknown
	}
}

// Vault answers 412 until a write has reached the node that is asked.
func TestAClassifierGetsWhatItGetsInATransport(t *testing.T) {
	p := steps
	p.Classify = onStatus(412, func(status *backoffhttp.StatusError) { require.Equal(t, "7", status.Header.Get("X-Vault-Index")) })
	for status, want := range map[int]bool{412: true, 404: false, 503: true} {
		resp := response("GET", status, "X-Vault-Index", "7")
		require.Equal(t, want, checkRetry(t, plug.RetryableHTTP(p), resp, nil), status)
		require.Equal(t, want, plug.ShouldRetry(p)(resp, nil), status)
	}
	_, err := plug.RetryableHTTP(p).ErrorHandler(response("GET", 412, "X-Vault-Index", "7"), nil, 4)
	var status *backoffhttp.StatusError
	require.ErrorAs(t, err, &status)
	require.Equal(t, 412, status.Code)
}

func TestWhatAClassifierDoesNotKnowIsDecidedAsInATransport(t *testing.T) {
	silent := steps
	silent.Classify = func(error) backoff.Class { return backoff.ClassUnknown }
	for _, p := range []backoff.Policy{steps, silent} {
		closed := &url.Error{Op: "Get", Err: errors.New("http: server closed idle connection")}
		require.True(t, plug.ShouldRetry(p)(nil, closed))
		require.True(t, plug.ShouldRetry(p)(response("GET", 413, "Retry-After", "1"), nil))
		require.False(t, plug.ShouldRetry(p)(response("GET", 413), nil))
	}
}

func TestAnAnswerBelow400CanBeRetried(t *testing.T) {
	p := steps
	p.Classify = onStatus(202, func(*backoffhttp.StatusError) {})
	h := plug.RetryableHTTP(p)
	resp := response("GET", 202, "Retry-After", "2")
	require.False(t, checkRetry(t, h, resp, nil), "an answer below 400 is none that a classifier gets")
	require.True(t, checkRetry(t, h, resp, backoffhttp.Check(resp, http.StatusOK)))
	require.GreaterOrEqual(t, h.Backoff(0, 0, 0, resp), 2*time.Second)
	_, err := h.ErrorHandler(resp, nil, 4)
	require.EqualError(t, err, "backoff: gave up after 4 attempts: status 202 Accepted")

	decided := plug.RetryableHTTP(steps) // by a CheckRetry around it, with no word to Classify
	require.GreaterOrEqual(t, decided.Backoff(0, 0, 0, resp), 2*time.Second)
}

func TestKeepResponseReturnsTheLastResponse(t *testing.T) {
	h := plug.RetryableHTTP(steps)
	resp := response("GET", 503)
	body := &closing{}
	resp.Body = body
	kept, err := h.KeepResponse(resp, nil, 4)
	require.NoError(t, err)
	require.Same(t, resp, kept)
	require.False(t, body.closed)
	var gave *backoff.Error
	require.ErrorAs(t, backoffhttp.Check(kept), &gave)
	require.Equal(t, 4, gave.Attempts)
	require.Equal(t, backoff.ReasonAttempts, gave.Reason)

	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	resp = response("GET", 503, "Retry-After", "60")
	_, vain := h.CheckRetry(ctx, resp, nil)
	kept, err = h.KeepResponse(resp, vain, 2)
	require.NoError(t, err)
	require.ErrorIs(t, backoffhttp.Check(kept), context.DeadlineExceeded)
	require.ErrorContains(t, backoffhttp.Check(kept), "gave up after 2 attempts")

	resp = &http.Response{StatusCode: 503}
	kept, err = h.KeepResponse(resp, nil, 4)
	require.NoError(t, err)
	require.EqualError(t, backoffhttp.Check(kept), "status 503 Service Unavailable", "nowhere to keep why")
}

func TestKeepResponseReturnsAnErrorIfThatIsHowTheCallEnded(t *testing.T) {
	h := plug.RetryableHTTP(steps)
	_, err := h.KeepResponse(nil, syscall.ECONNRESET, 4)
	require.ErrorIs(t, err, syscall.ECONNRESET)
	require.ErrorIs(t, err, backoff.ErrExhausted)

	for _, ended := range []error{context.Canceled, errors.New("PrepareRetry fails"), &url.Error{Op: "Get", Err: syscall.ECONNRESET}} {
		resp := response("GET", 302)
		body := &closing{}
		resp.Body = body
		kept, err := h.KeepResponse(resp, ended, 2)
		require.Nil(t, kept)
		require.ErrorIs(t, err, ended)
		require.True(t, body.closed)
	}
	refused := plug.RetryableHTTP(invalid)
	_, why := refused.CheckRetry(t.Context(), response("GET", 503), nil)
	kept, err := refused.KeepResponse(response("GET", 503), why, 1)
	require.Nil(t, kept)
	require.ErrorContains(t, err, "Policy.Schedule")
}

// The client asks its PrepareRetry before each retry, when it has closed the
// last answer.
func TestKeepResponseReturnsNoResponseThatTheClientHasClosed(t *testing.T) {
	status := backoffhttp.Check(response("GET", 503))
	for _, prepare := range []error{status, steps.Do(t.Context(), func(context.Context) error { return backoff.Pushback(status, 0) })} {
		kept, err := plug.RetryableHTTP(steps).KeepResponse(response("GET", 500), prepare, 2)
		require.Nil(t, kept)
		require.ErrorIs(t, err, status)
	}
}

func TestAnAnswerToAPOSTThatMayNotBeSentAgainSaysSo(t *testing.T) {
	h := plug.RetryableHTTP(steps)
	resp := response("POST", 503)
	require.False(t, checkRetry(t, h, resp, nil))
	var gave *backoff.Error
	require.ErrorAs(t, backoffhttp.Check(resp), &gave, "a policy around the call must not send it again")
	require.Equal(t, backoff.ReasonNotIdempotent, gave.Reason)

	resp = response("POST", 404)
	checkRetry(t, h, resp, nil)
	require.EqualError(t, backoffhttp.Check(resp), "status 404 Not Found", "no request is sent again after a 404")

	checkRetry(t, h, &http.Response{StatusCode: 503, Request: nil}, nil)
	_, err := h.ErrorHandler(nil, &url.Error{Op: "Post", Err: syscall.ECONNRESET}, 1)
	require.ErrorContains(t, err, "not idempotent")
	require.NotErrorIs(t, err, backoff.ErrExhausted)
}

func TestACheckRetryAroundThatOfThePolicyMaySendAPOSTAgain(t *testing.T) {
	h := plug.RetryableHTTP(steps)
	resp := response("POST", 503, "Retry-After", "2")
	checkRetry(t, h, resp, nil)
	require.GreaterOrEqual(t, h.Backoff(0, 0, 0, resp), 2*time.Second)
	_, err := h.ErrorHandler(resp, nil, h.RetryMax()+1)
	require.ErrorIs(t, err, backoff.ErrExhausted)
}

// A program may send the request of an answer again, with its context.
func TestWhyAnEarlierCallEndedSaysNothingAboutTheNext(t *testing.T) {
	h := plug.RetryableHTTP(steps)
	earlier, err := h.KeepResponse(response("GET", 503), nil, 4)
	require.NoError(t, err)
	resp := response("GET", 500)
	resp.Request = earlier.Request.WithContext(earlier.Request.Context())
	again, err := h.CheckRetry(earlier.Request.Context(), resp, nil)
	require.NoError(t, err)
	require.True(t, again)
	require.EqualError(t, backoffhttp.Check(resp), "status 500 Internal Server Error")
}

func TestIdempotencyOfThePolicyComesBeforeTheMethods(t *testing.T) {
	p := steps
	p.Idempotency = backoff.NonIdempotent
	require.False(t, plug.ShouldRetry(p)(response("GET", 503), nil))
	p.Idempotency = backoff.Idempotent
	require.True(t, plug.ShouldRetry(p)(response("POST", 503), nil))
	require.True(t, checkRetry(t, plug.RetryableHTTP(p), nil, &url.Error{Op: "Post", Err: syscall.ECONNRESET}))
}

func TestHTTPBackoffCountsFromZeroAndObeysRetryAfter(t *testing.T) {
	h := plug.RetryableHTTP(steps)
	require.Equal(t, 100*time.Millisecond, h.Backoff(time.Hour, time.Hour, 0, nil), "the client's bounds are ignored")
	require.Equal(t, 200*time.Millisecond, h.Backoff(0, 0, 1, response("GET", 503)))
	require.Equal(t, time.Second, h.Backoff(0, 0, math.MaxInt, nil))
	require.Equal(t, 100*time.Millisecond, h.Backoff(0, 0, -1, nil))
	for name, value := range map[string]string{"Retry-After": "2", "Retry-After-Ms": "2000", "X-Ms-Retry-After-Ms": "2000", "X-Amz-Retry-After": "2000"} {
		wait := h.Backoff(0, 0, 0, response("GET", 503, name, value))
		require.GreaterOrEqual(t, wait, 2*time.Second, name)
		require.LessOrEqual(t, wait, 2200*time.Millisecond, name)
	}
	require.Equal(t, 100*time.Millisecond, h.Backoff(0, 0, 0, response("GET", 503, "Retry-After", "soon")))
	require.LessOrEqual(t, h.Backoff(0, 0, 0, response("GET", 503, "X-Amz-Retry-After", "60000")), 5*time.Second)
	require.Equal(t, 100*time.Millisecond, h.Backoff(0, 0, 0, response("GET", 503, "Retry-After", "99999")), "of no answer that is retried")
}

func TestErrorHandlerSaysHowTheCallEnded(t *testing.T) {
	h := plug.RetryableHTTP(steps)
	closed := &closing{}
	resp := response("GET", 503)
	resp.Status, resp.Body = "503 Busy", closed
	_, err := h.ErrorHandler(resp, nil, 4)
	require.EqualError(t, err, "backoff: gave up after 4 attempts: status 503 Busy")
	require.True(t, closed.closed)
	require.Equal(t, backoff.ClassPermanent, backoff.DefaultClassifier(err))
	var header interface{ ResponseHeader() map[string][]string }
	require.ErrorAs(t, err, &header)
	require.NotNil(t, header.ResponseHeader())

	_, err = h.ErrorHandler(nil, syscall.ECONNRESET, 0)
	require.ErrorIs(t, err, syscall.ECONNRESET)
	require.ErrorIs(t, err, backoff.ErrExhausted)

	unknown := errors.New("who knows")
	_, err = h.ErrorHandler(nil, unknown, 1)
	require.Equal(t, unknown, err)
	_, err = h.ErrorHandler(nil, nil, 1)
	require.Error(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, vain := h.CheckRetry(ctx, response("GET", 503, "Retry-After", "60"), nil)
	_, err = h.ErrorHandler(nil, vain, 2)
	require.EqualError(t, err, "backoff: gave up after 2 attempts: context deadline exceeded; the next wait would pass it: status 503 Service Unavailable")
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// The error of an open circuit is shared by all calls that it refused.
func TestErrorHandlerLeavesTheErrorsOfOtherCallsAlone(t *testing.T) {
	other := &backoff.Error{Reason: backoff.ReasonBudget, Last: errors.New("down")}
	failed := &url.Error{Op: "Get", URL: "http://a.test", Err: &backoff.OpenError{Name: "a", Last: other}}
	_, err := plug.RetryableHTTP(steps).ErrorHandler(nil, failed, 2)
	require.Equal(t, failed, err)
	require.Zero(t, other.Attempts)
}

type closing struct{ closed bool }

func (c *closing) Read([]byte) (int, error) { return 0, io.EOF }
func (c *closing) Close() error             { c.closed = true; return nil }

func TestHTTPRefusesWhatCannotBeObeyed(t *testing.T) {
	h := plug.RetryableHTTP(invalid)
	require.Zero(t, h.RetryMax())
	_, err := h.CheckRetry(t.Context(), response("GET", 200), nil)
	require.ErrorContains(t, err, "Policy.Schedule")
	_, err = h.ErrorHandler(nil, err, 1)
	require.ErrorContains(t, err, "Policy.Schedule")
	require.False(t, plug.ShouldRetry(invalid)(response("GET", 503), nil))
	require.GreaterOrEqual(t, h.Backoff(0, 0, 0, nil), time.Duration(0))

	unlimited := plug.RetryableHTTP(backoff.Policy{MaxAttempts: -1})
	require.Equal(t, math.MaxInt32, unlimited.RetryMax())
	_, err = unlimited.CheckRetry(t.Context(), response("GET", 503), nil)
	require.ErrorContains(t, err, "set MaxAttempts, or give the call a deadline")
	require.False(t, checkRetry(t, unlimited, response("GET", 200), nil))

	yes := plug.ShouldRetry(backoff.Policy{Classify: func(error) backoff.Class { return backoff.ClassRetryable }})
	require.False(t, yes(nil, nil), "also where the classifier says yes to nil")
	require.False(t, yes(response("GET", 200), nil))
}

func TestTheErrorOfAnEndedContextMatchesItsCause(t *testing.T) {
	errCause := errors.New("shutting down")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errCause)
	_, err := plug.RetryableHTTP(backoff.Policy{}).CheckRetry(ctx, nil, nil)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, errCause)
}
