package migrate

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

// The client of Vault, vault-client-go v0.4.3: go-retryablehttp with a CheckRetry, a
// Backoff and an ErrorHandler of its own. Reads and writes are retried alike.

var vault = []move{
	{
		program: "vault-client-go", sites: 1, place: "PUT or POST, 503 twice",
		script: append(times(2, answer{status: 503}), answer{status: 200}), before: retryableRequest, here: vaultRequest,
		was: outcome{attempts: exactly(3), gaps: [2]float64{1, 3}, sees: "200"},
	},
	{
		program: "vault-client-go", place: "PUT or POST, 503 again and again",
		script: times(1, answer{status: 503}), before: retryableRequest, here: vaultRequest,
		was: outcome{attempts: exactly(3), gaps: [2]float64{1, 3}, sees: "503"},
	},
	{
		program: "vault-client-go", place: "412: the state that was asked for is not there yet",
		script: append(times(2, answer{status: 412}), answer{status: 200}), before: retryableRequest, here: vaultRequest,
		was: outcome{attempts: exactly(3), gaps: [2]float64{1, 3}, sees: "200"},
	},
	{
		program: "vault-client-go", place: "429 with Retry-After: 7",
		script: []answer{{status: 429, after: 7 * time.Second}, {status: 200}}, before: retryableRequest, here: vaultRequest,
		was:    outcome{attempts: exactly(2), gaps: [2]float64{1, 1.5}, sees: "200"},
		is:     outcome{attempts: exactly(2), gaps: [2]float64{7, 7.7}, sees: "200"},
		better: []reason{obeys},
	},
	{
		program: "vault-client-go", place: "A final answer",
		script: times(1, answer{status: 400}), before: retryableRequest, here: vaultRequest,
		was: outcome{attempts: exactly(1), sees: "400"},
	},
	{
		program: "vault-client-go", place: "The connection breaks again and again",
		script: times(1, answer{err: errBroken}), before: retryableRequest, here: vaultRequest,
		was:    outcome{attempts: exactly(3), gaps: [2]float64{1, 3}, sees: "last failure"},
		is:     outcome{attempts: exactly(3), gaps: [2]float64{1, 3}, sees: "last failure, limit"},
		better: []reason{saysWhy},
	},
}

var errBroken = &net.OpError{Op: "read", Err: syscall.ECONNRESET}

func retryableRequest(ctx context.Context, r *remote) (string, error) {
	c := &retryablehttp.Client{
		HTTPClient:   &http.Client{Transport: r},
		RetryWaitMin: time.Second,
		RetryWaitMax: 1500 * time.Millisecond,
		RetryMax:     2,
		CheckRetry: func(ctx context.Context, resp *http.Response, err error) (bool, error) {
			again, err := retryablehttp.DefaultRetryPolicy(ctx, resp, err)
			return again || err == nil && resp != nil && resp.StatusCode == http.StatusPreconditionFailed, err
		},
		Backoff:      retryablehttp.LinearJitterBackoff,
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
	return status(r.post(ctx, c.StandardClient()))
}

func vaultRequest(ctx context.Context, r *remote) (string, error) {
	policy := backoff.Policy{
		MaxAttempts: 3,
		Schedule:    backoff.Linear{Initial: time.Second, Step: time.Second},
		Jitter:      backoff.UniformJitter(1, 1.5),
		Idempotency: backoff.Idempotent,
		Classify: func(err error) backoff.Class {
			if status, ok := errors.AsType[*backoffhttp.StatusError](err); ok && status.Code == http.StatusPreconditionFailed {
				return backoff.ClassRetryable
			}
			return backoff.ClassUnknown // as usual
		},
	}
	return status(r.post(ctx, backoffhttp.WrapClient(&http.Client{Transport: r}, policy)))
}

// status is what the caller of an HTTP client sees.
func status(resp *http.Response, err error) (string, error) {
	if err != nil {
		return "", err
	}
	resp.Body.Close()
	return strconv.Itoa(resp.StatusCode), nil
}
