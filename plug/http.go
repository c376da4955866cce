package plug

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/internal/errtree"
	"github.com/gobackoff/backoff/internal/gaveup"
)

// HTTPRetry has a policy's functions for github.com/hashicorp/go-retryablehttp
// and for libraries built on it, such as Vault's client. See [RetryableHTTP].
type HTTPRetry struct{ rule }

// RetryableHTTP returns p as the functions of a go-retryablehttp client:
//
//	retry := plug.RetryableHTTP(policy)
//	client.CheckRetry, client.Backoff = retry.CheckRetry, retry.Backoff
//	client.ErrorHandler, client.RetryMax = retry.ErrorHandler, retry.RetryMax()
//
// If the program reads the last response, as with PassthroughErrorHandler,
// take KeepResponse for ErrorHandler.
//
// p.Classify gets what it gets in a backoffhttp.Transport: the error of the
// client, or a [*backoffhttp.StatusError] for a response from 400 on. What it
// does not know, [backoffhttp.Classify] decides. To retry a response below
// 400, make an error of it first:
//
//	client.CheckRetry = func(ctx context.Context, resp *http.Response, err error) (bool, error) {
//		if err == nil {
//			err = backoffhttp.Check(resp, http.StatusOK)
//		}
//		return retry.CheckRetry(ctx, resp, err)
//	}
//
// Unlike the functions of that client, these obey Retry-After in every response
// that is retried, within p.MaxRetryAfter, and a server's "do not retry". They
// do not begin a wait that would pass the context's deadline. They send a
// request again if [backoffhttp.Idempotency] says that it may be sent twice, and
// a POST or PATCH otherwise only if it provably never arrived. A body that is
// read from another service must mark its errors, by [backoff.OfClass], since they
// look like those of the server. If all requests of the client may be sent twice,
// say so: p.Idempotency = backoff.Idempotent.
// RetryWaitMin and RetryWaitMax of the client have no effect.
//
// MaxAttempts (by RetryMax), Schedule, Jitter (without its memory of the
// previous wait), MaxDelay, MaxRetryAfter, Classify and Idempotency hold, and
// the schedules of ByClass for responses; an attempt without one waits by
// Schedule. Of several limits of attempts the smallest above 1 holds, and 1
// for its class. The shape has no field for MaxElapsed, AttemptTimeout (set
// the Timeout of the HTTPClient), Budget and Observer. If you need them, and
// nothing ties you to that client, use [backoffhttp.WrapClient].
//
// If the policy is invalid, nothing is retried and every call fails with
// the reason. If p has no limit of attempts, a call whose context has no
// deadline fails after its first failure. An HTTPRetry is safe for concurrent
// use.
func RetryableHTTP(p backoff.Policy) *HTTPRetry {
	own := p.Classify
	p.Classify = backoffhttp.Classify
	if own != nil {
		p.Classify = func(err error) backoff.Class { return cmp.Or(own(err), backoffhttp.Classify(err)) }
	}
	return &HTTPRetry{newRule(p)}
}

// RetryMax returns the number of retries that p allows.
func (h *HTTPRetry) RetryMax() int {
	if n := h.attempts(); n > 0 {
		return n - 1
	}
	return math.MaxInt32
}

// CheckRetry reports whether a request that ended with resp or err is sent
// again. A response that is not retried reaches the caller unchanged, without
// an error. If only its request forbids a retry, [backoffhttp.Check] says so, and
// no policy around the call retries it.
func (h *HTTPRetry) CheckRetry(ctx context.Context, resp *http.Response, err error) (bool, error) {
	switch {
	case h.err != nil:
		return false, h.err
	case ctx.Err() != nil:
		return false, errtree.Ended(ctx)
	}
	if resp != nil {
		gaveup.Unmark(ctx, resp)
	}
	if err == nil {
		err = failure(resp)
	}
	if !h.retryable(err) {
		return false, nil
	}
	if !h.maySendAgain(ctx, resp, err) {
		mark(resp, h.gaveUp(backoff.ReasonNotIdempotent, 1, err)) // as a rule; what came before never arrived
		return false, nil
	}
	if refused := h.refusal(ctx, h.attempts()); refused != nil {
		return false, refused
	}
	if hint, _ := hintOf(resp); passesDeadline(ctx, hint) {
		return false, h.pastDeadline(0, err) // ErrorHandler knows the attempts
	}
	return true, nil
}

// Backoff returns the wait after a failed request. attempt counts from 0; the
// bounds are ignored.
func (h *HTTPRetry) Backoff(_, _ time.Duration, attempt int, resp *http.Response) time.Duration {
	retry := fromOne(attempt)
	if d := h.waits.Decide(retry, retried(resp)); d.Again {
		return d.Wait
	}
	return h.delay(retry)
}

// ErrorHandler makes the error of a call that is given up: a [*backoff.Error],
// which is permanent to the policies around the call. It wraps the last error, or
// a [*backoffhttp.StatusError] with the last status. An error that was not to
// be retried is returned as it is. ErrorHandler closes the body of the
// response.
func (h *HTTPRetry) ErrorHandler(resp *http.Response, err error, attempts int) (*http.Response, error) {
	if resp != nil && resp.Body != nil {
		resp.Body.Close()
	}
	return nil, h.final(resp, err, attempts)
}

// KeepResponse is an ErrorHandler that returns the last response, with its
// body unread, and no error, as a backoffhttp.Transport does.
// [backoffhttp.Check] then returns that the call was given up, and why. If
// there is no response, if the context has ended, or if the policy refuses the
// call, KeepResponse returns the error of ErrorHandler.
func (h *HTTPRetry) KeepResponse(resp *http.Response, err error, attempts int) (*http.Response, error) {
	_, checked := fromCheckRetry(err)
	final := h.final(resp, err, attempts)
	why, gaveUp := final.(*backoff.Error)
	_, answered := errtree.As[*backoffhttp.StatusError](final)
	if resp == nil || !gaveUp || !answered || err != nil && !checked { // the client closes an answer before PrepareRetry fails
		return h.ErrorHandler(resp, final, attempts)
	}
	mark(resp, why)
	return resp, nil
}

// mark keeps with an answer why the call ended, if the answer has its request.
func mark(resp *http.Response, why *backoff.Error) {
	if resp != nil && resp.Request != nil {
		gaveup.Set(resp, &gaveup.Mark{Why: why, Answer: resp})
	}
}

// fromCheckRetry returns an error of CheckRetry, which does not count attempts.
func fromCheckRetry(err error) (*backoff.Error, bool) {
	gave, ok := err.(*backoff.Error)
	return gave, ok && gave != nil && gave.Last != nil && gave.Attempts == 0
}

// final returns the error of a call that is given up.
func (h *HTTPRetry) final(resp *http.Response, err error, attempts int) error {
	if err == nil {
		err = retried(resp)
	}
	final, checked := fromCheckRetry(err)
	switch {
	case err == nil:
		return errors.New("backoff: plug: the request failed")
	case checked:
		final.Attempts = attempts
		return final
	case !h.retryable(err):
		return err
	case attempts <= h.RetryMax() && !h.maySendAgain(contextOf(resp), resp, err):
		return h.gaveUp(backoff.ReasonNotIdempotent, max(attempts, 1), err)
	}
	return h.gaveUp(backoff.ReasonAttempts, max(attempts, 1), err)
}

// ShouldRetry returns p as the RetryOptions.ShouldRetry of Azure's azcore:
//
//	options.Retry = policy.RetryOptions{MaxRetries: 3, ShouldRetry: plug.ShouldRetry(p)}
//
// The function returns false for success. It returns false for an error that
// p.Classify, or [backoffhttp.Classify] after it, does not know to be
// transient, and for a Retry-After beyond p.MaxRetryAfter. As with
// [RetryableHTTP], p.Classify gets a [*backoffhttp.StatusError] for a response
// from 400 on. The function returns false for a POST or PATCH that may have
// arrived, unless [backoffhttp.Idempotency] or p.Idempotency says otherwise.
// Attempts and delays are settings of azcore, which obeys the server's
// Retry-After by itself.
//
// An invalid policy retries nothing. The function is safe for concurrent
// use.
func ShouldRetry(p backoff.Policy) func(*http.Response, error) bool {
	h := RetryableHTTP(p)
	return func(resp *http.Response, err error) bool {
		if err == nil {
			err = failure(resp)
		}
		return h.retryable(err) && h.maySendAgain(contextOf(resp), resp, err)
	}
}

// maySendAgain reports whether the request allows a retry after a failure.
func (h *HTTPRetry) maySendAgain(ctx context.Context, resp *http.Response, err error) bool {
	if h.policy.Idempotency != nil {
		return h.repeatable(ctx, err)
	}
	return idempotency(resp, err).Repeatable(ctx, h.class(err))
}

// idempotency returns whether the request behind a response, or behind an error
// of net/http, may be sent twice. A client that is asked to try again begins
// with the request that it was given, before all redirects. If neither shows the
// request, as an error of azcore's transport does not, it may: the client that
// asks has decided so.
func idempotency(resp *http.Response, err error) backoff.Idempotency {
	if resp != nil && resp.Request != nil {
		req := resp.Request
		for req.Response != nil && req.Response.Request != nil {
			req = req.Response.Request
		}
		return backoffhttp.Idempotency(req)
	}
	if failed, ok := errtree.As[*url.Error](err); ok && failed != nil {
		return backoffhttp.Idempotency(&http.Request{Method: strings.ToUpper(failed.Op), URL: new(url.URL)})
	}
	return backoff.Idempotent
}

// contextOf returns the context of the request behind a response.
func contextOf(resp *http.Response) context.Context {
	if resp == nil || resp.Request == nil {
		return context.Background()
	}
	return resp.Request.Context()
}

// failure returns an error for an answer that is one, with what the server says
// about retries.
func failure(resp *http.Response) error {
	if resp == nil {
		return nil
	}
	return backoffhttp.Check(resp)
}

// retried is failure for an answer that is known to be retried. A CheckRetry
// around that of the policy may retry an answer below 400, or to a request that
// is not idempotent.
func retried(resp *http.Response) error {
	err := failure(resp)
	if gave, ok := err.(*backoff.Error); ok && gave.Reason == backoff.ReasonNotIdempotent {
		return gave.Last
	}
	if err != nil || resp == nil {
		return err
	}
	status := &backoffhttp.StatusError{Code: resp.StatusCode, Status: resp.Status, Header: resp.Header}
	return backoff.OfClass(hinted(status, resp), backoff.ClassRetryable)
}
