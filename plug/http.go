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

// HTTPRetry is a policy in the shapes that github.com/hashicorp/go-retryablehttp asks for,
// and who passes them on, such as Vault's client. See [RetryableHTTP].
type HTTPRetry struct{ rule }

// RetryableHTTP returns p as the functions of a go-retryablehttp client:
//
//	retry := plug.RetryableHTTP(&policy)
//	client.CheckRetry, client.Backoff = retry.CheckRetry, retry.Backoff
//	client.ErrorHandler, client.RetryMax = retry.ErrorHandler, retry.RetryMax()
//
// Unlike that client's own, they honour Retry-After with every answer that is retried, within p.MaxRetryAfter,
// do not begin a wait that would pass the context's deadline, and send a POST or PATCH again only
// where it provably never arrived, or carries an Idempotency-Key. To have it otherwise, set p.Idempotency.
// RetryWaitMin and RetryWaitMax of the client are without effect.
//
// MaxAttempts (by RetryMax), Schedule, Jitter (without its memory of the wait before), MaxDelay, MaxRetryAfter, Classify
// and Idempotency hold. The shape has no place for MaxElapsed, AttemptTimeout, Budget and Observer.
// For these, and where nothing ties you to that client, use a backoffhttp.Transport.
//
// A nil or invalid policy makes no retries, and every call fails with the reason. So does a call whose
// context has no deadline, after its first failure, if p has no limit of attempts. It is safe for concurrent use.
func RetryableHTTP(p *backoff.Policy) *HTTPRetry { return &HTTPRetry{ruleOf(p)} }

// RetryMax is the number of retries that p allows.
func (h *HTTPRetry) RetryMax() int {
	if n := h.attempts(); n > 0 {
		return n - 1
	}
	return math.MaxInt32
}

// CheckRetry reports whether a request that ended with resp or err is to be sent again. An answer
// that is not is passed on as it came, without an error.
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
	if !h.repeats(ctx, resp, err) {
		return false, nil
	}
	if refused := h.refusal(ctx); refused != nil {
		return false, refused
	}
	if deadline, ok := ctx.Deadline(); ok && hintOf(resp) >= time.Until(deadline) {
		return false, &backoff.Error{Name: h.policy.Name, Reason: backoff.ReasonDeadline, Last: err}
	}
	return true, nil
}

// Backoff returns the wait after a failed request. attempt counts from 0; the bounds are ignored.
func (h *HTTPRetry) Backoff(_, _ time.Duration, attempt int, resp *http.Response) time.Duration {
	retry := fromOne(attempt)
	if wait, again := h.waits.Decide(retry, failure(resp)); again {
		return wait
	}
	return h.delay(retry)
}

// ErrorHandler makes the error of a call that is given up: a [*backoff.Error], which is final to
// the policies around it, and in whose tree is the last error, or one with the last status. What
// was not to be retried comes back as it is. The answer's body is closed.
func (h *HTTPRetry) ErrorHandler(resp *http.Response, err error, attempts int) (*http.Response, error) {
	if err == nil {
		err = failure(resp)
	}
	if resp != nil && resp.Body != nil {
		resp.Body.Close()
	}
	var gave *backoff.Error
	switch {
	case err == nil:
		return nil, errors.New("backoff: plug: the request failed")
	case errors.As(err, &gave) && gave.Last != nil && gave.Attempts == 0: // by CheckRetry, which does not count
		gave.Attempts = attempts
		return nil, gave
	case !h.retryable(err):
		return nil, err
	}
	return nil, &backoff.Error{Name: h.policy.Name, Attempts: max(attempts, 1), Reason: backoff.ReasonAttempts, Last: err}
}

// ShouldRetry returns p in the shape of RetryOptions.ShouldRetry of Azure's azcore:
//
//	options.Retry = policy.RetryOptions{MaxRetries: 3, ShouldRetry: plug.ShouldRetry(&p)}
//
// It is false for success, for what p.Classify or [backoff.DefaultClassifier] does not
// know to be transient, for a hint beyond p.MaxRetryAfter, and for a POST or PATCH that may have arrived, unless it
// carries an Idempotency-Key or p.Idempotency says otherwise. Attempts and delays are numbers of
// azcore's; it obeys the server's hints by itself.
//
// A nil or invalid policy retries nothing. The function is safe for concurrent use.
func ShouldRetry(p *backoff.Policy) func(*http.Response, error) bool {
	h := RetryableHTTP(p)
	return func(resp *http.Response, err error) bool {
		if err == nil {
			err = failure(resp)
		}
		return h.repeats(contextOf(resp), resp, err)
	}
}

// repeats looks at both factors: the failure, and the request.
func (h *HTTPRetry) repeats(ctx context.Context, resp *http.Response, err error) bool {
	if !h.retryable(err) {
		return false
	}
	if h.policy.Idempotency != nil {
		return h.repeatable(ctx, err)
	}
	return idempotent(resp, err) || backoff.NonIdempotent.Repeatable(ctx, h.class(err))
}

// idempotent reports whether the request behind an answer, or an error of net/http, may be sent twice
// (RFC 9110, 9.2.2). Where nothing tells, such as an error of azcore's transport, its
// client's word stands.
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

func contextOf(resp *http.Response) context.Context {
	if resp == nil || resp.Request == nil {
		return context.Background()
	}
	return resp.Request.Context()
}

// hintOf is what an answer asks for; 0 if nothing.
func hintOf(resp *http.Response) time.Duration {
	if resp == nil {
		return 0
	}
	d, _ := retryafter.From(resp.Header, time.Now())
	return d
}
