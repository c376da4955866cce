package plug

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/retryafter"
)

// HTTPRetry is a policy in the shapes that
// github.com/hashicorp/go-retryablehttp takes, and libraries built on it, such
// as Vault's client. See [RetryableHTTP].
type HTTPRetry struct{ rule }

// RetryableHTTP returns p as the functions of a go-retryablehttp client:
//
//	retry := plug.RetryableHTTP(&policy)
//	client.CheckRetry, client.Backoff = retry.CheckRetry, retry.Backoff
//	client.ErrorHandler, client.RetryMax = retry.ErrorHandler, retry.RetryMax()
//
// Unlike the functions of that client, these obey Retry-After in every response
// that is retried, within p.MaxRetryAfter. They do not begin a wait that would
// pass the context's deadline. They send a POST or PATCH again only if it
// provably never arrived, or if it carries an Idempotency-Key; set
// p.Idempotency to change that. RetryWaitMin and RetryWaitMax of the client
// have no effect.
//
// MaxAttempts (by RetryMax), Schedule, Jitter (without its memory of the
// previous wait), MaxDelay, MaxRetryAfter, Classify and Idempotency hold, and
// the schedules of ByClass for answers; an attempt without one waits by
// Schedule. Of several limits of attempts the smallest above 1 holds, and 1
// for its class. The shape has no place for MaxElapsed, AttemptTimeout, Budget and Observer. If
// you need them, and nothing ties you to that client, use a
// backoffhttp.Transport.
//
// If the policy is nil or invalid, nothing is retried and every call fails with
// the reason. If p has no limit of attempts, a call whose context has no
// deadline fails after its first failure. An HTTPRetry is safe for concurrent
// use.
func RetryableHTTP(p *backoff.Policy) *HTTPRetry { return &HTTPRetry{newRule(p)} }

// RetryMax returns the number of retries that p allows.
func (h *HTTPRetry) RetryMax() int {
	if n := h.attempts(); n > 0 {
		return n - 1
	}
	return math.MaxInt32
}

// CheckRetry reports whether a request that ended with resp or err is sent
// again. A response that is not retried reaches the caller unchanged, without
// an error.
func (h *HTTPRetry) CheckRetry(ctx context.Context, resp *http.Response, err error) (bool, error) {
	switch {
	case h.err != nil:
		return false, h.err
	case ctx.Err() != nil:
		return false, ctx.Err()
	}
	if err == nil {
		err = failure(resp)
	}
	if !h.shouldRetry(ctx, resp, err) {
		return false, nil
	}
	if refused := h.refusal(ctx, h.attempts()); refused != nil {
		return false, refused
	}
	if deadline, ok := ctx.Deadline(); ok && hintOf(resp) >= time.Until(deadline) {
		return false, &backoff.Error{Name: h.policy.Name, Reason: backoff.ReasonDeadline, Last: err}
	}
	return true, nil
}

// Backoff returns the wait after a failed request. attempt counts from 0; the
// bounds are ignored.
func (h *HTTPRetry) Backoff(_, _ time.Duration, attempt int, resp *http.Response) time.Duration {
	retry := fromOne(attempt)
	if wait, again := h.waits.Decide(retry, failure(resp)); again {
		return wait
	}
	return h.delay(retry)
}

// ErrorHandler makes the error of a call that is given up: a [*backoff.Error],
// which is final to the policies around the call. It wraps the last error, or
// an error with the last status. An error that was not to be retried comes back
// as it is. ErrorHandler closes the body of the response.
func (h *HTTPRetry) ErrorHandler(resp *http.Response, err error, attempts int) (*http.Response, error) {
	if err == nil {
		err = failure(resp)
	}
	if resp != nil && resp.Body != nil {
		resp.Body.Close()
	}
	final, ok := err.(*backoff.Error)
	switch {
	case err == nil:
		return nil, errors.New("backoff: plug: the request failed")
	case ok && final.Last != nil && final.Attempts == 0: // from CheckRetry, which does not count attempts
		final.Attempts = attempts
		return nil, final
	case !h.retryable(err):
		return nil, err
	}
	return nil, &backoff.Error{Name: h.policy.Name, Attempts: max(attempts, 1), Reason: backoff.ReasonAttempts, Last: err}
}

// ShouldRetry returns p in the shape of RetryOptions.ShouldRetry of Azure's
// azcore:
//
//	options.Retry = policy.RetryOptions{MaxRetries: 3, ShouldRetry: plug.ShouldRetry(&p)}
//
// The function returns false for success. It returns false for an error that
// p.Classify or [backoff.DefaultClassifier] does not know to be transient, and
// for a Retry-After beyond p.MaxRetryAfter. It returns false for a POST or
// PATCH that may have arrived, unless the request carries an Idempotency-Key or
// p.Idempotency says otherwise. Attempts and delays are settings of azcore,
// which obeys the server's Retry-After by itself.
//
// A nil or invalid policy retries nothing. The function is safe for concurrent
// use.
func ShouldRetry(p *backoff.Policy) func(*http.Response, error) bool {
	h := RetryableHTTP(p)
	return func(resp *http.Response, err error) bool {
		if err == nil {
			err = failure(resp)
		}
		return h.shouldRetry(contextOf(resp), resp, err)
	}
}

// shouldRetry reports whether both the failure and the request allow a retry.
func (h *HTTPRetry) shouldRetry(ctx context.Context, resp *http.Response, err error) bool {
	if !h.retryable(err) {
		return false
	}
	if h.policy.Idempotency != nil {
		return h.repeatable(ctx, err)
	}
	return idempotent(resp, err) || backoff.NonIdempotent.Repeatable(ctx, h.class(err))
}

// idempotent reports whether the request behind a response, or behind an error
// of net/http, may be sent twice (RFC 9110, 9.2.2). If neither shows the
// request, as an error of azcore's transport does not, it reports true: the
// client that asks has decided so.
func idempotent(resp *http.Response, err error) bool {
	method := ""
	if failed, ok := errors.AsType[*url.Error](err); ok {
		method = failed.Op
	}
	if resp != nil && resp.Request != nil {
		method = resp.Request.Method
		if resp.Request.Header.Get("Idempotency-Key") != "" || resp.Request.Header.Get("X-Idempotency-Key") != "" {
			return true
		}
	}
	switch strings.ToUpper(method) {
	case "POST", "PATCH", "CONNECT":
		return false
	}
	return true
}

// contextOf returns the context of the request behind a response.
func contextOf(resp *http.Response) context.Context {
	if resp == nil || resp.Request == nil {
		return context.Background()
	}
	return resp.Request.Context()
}

// hintOf returns how long the server asked to wait; 0 if it did not.
func hintOf(resp *http.Response) time.Duration {
	if resp == nil {
		return 0
	}
	d, _ := retryafter.From(resp.Header, time.Now())
	return d
}
