package migrate

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"golang.org/x/time/rate"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/plug"
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
		program: "vault-client-go", place: "A read after a write, from a replica that is behind",
		script: []answer{{status: 200}, {status: 412}, {status: 412}, {status: 200}}, before: readsItsWrites(retrying), here: readsItsWrites(wrapped),
		was: outcome{attempts: exactly(4), gaps: [2]float64{0, 3}, sees: "200"},
	},
	{
		program: "vault-client-go", place: "Three requests, one a second",
		script: times(1, answer{status: 200}), before: rateLimited(retrying), here: rateLimited(wrapped),
		was: outcome{attempts: exactly(3), gaps: exactly(1), sees: "200"},
	},
	{
		program: "vault-client-go", place: "A final response",
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

// kept is the same client, which stays, and gets the functions of a policy from
// package plug.
var kept = []move{
	{
		program: "vault-client-go, kept", place: "412 twice",
		script: append(times(2, answer{status: 412}), answer{status: 200}), before: retryableRequest, here: plugged(true),
		was: outcome{attempts: exactly(3), gaps: [2]float64{1, 3}, sees: "200"},
	},
	{
		program: "vault-client-go, kept", place: "503 again and again, with KeepResponse",
		script: times(1, answer{status: 503}), before: retryableRequest, here: plugged(true),
		was: outcome{attempts: exactly(3), gaps: [2]float64{1, 3}, sees: "503"},
	},
	{
		program: "vault-client-go, kept", place: "503 again and again, with ErrorHandler",
		script: times(1, answer{status: 503}), before: withoutHandler, here: plugged(false),
		was:    outcome{attempts: exactly(3), gaps: [2]float64{1, 3}, sees: "another error"},
		is:     outcome{attempts: exactly(3), gaps: [2]float64{1, 3}, sees: "last failure, limit"},
		better: []reason{saysLast},
	},
	{
		program: "vault-client-go, kept", place: "429 with Retry-After: 7",
		script: []answer{{status: 429, after: 7 * time.Second}, {status: 200}}, before: retryableRequest, here: plugged(true),
		was:    outcome{attempts: exactly(2), gaps: [2]float64{1, 1.5}, sees: "200"},
		is:     outcome{attempts: exactly(2), gaps: [2]float64{7, 7.7}, sees: "200"},
		better: []reason{obeys},
	},
}

var errBroken = &net.OpError{Op: "read", Err: syscall.ECONNRESET}

// retrying is the client of the program.
func retrying(transport http.RoundTripper) *http.Client {
	return retryableVault(transport).StandardClient()
}

func retryableVault(transport http.RoundTripper) *retryablehttp.Client {
	return &retryablehttp.Client{
		HTTPClient:   &http.Client{Transport: transport},
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
}

// wrapped is the client here.
func wrapped(transport http.RoundTripper) *http.Client {
	return backoffhttp.WrapClient(&http.Client{Transport: transport}, vaultWaits())
}

// vaultWaits are the settings of the program.
func vaultWaits() backoff.Policy {
	policy := vaultPolicy()
	policy.Jitter = backoff.UniformJitter(1, 1.5)
	return policy
}

func retryableRequest(ctx context.Context, r *remote) (string, error) {
	return statusOf(r.post(ctx, retrying(r)))
}

func vaultRequest(ctx context.Context, r *remote) (string, error) {
	return statusOf(r.post(ctx, wrapped(r)))
}

func withoutHandler(ctx context.Context, r *remote) (string, error) {
	c := retryableVault(r)
	c.ErrorHandler = nil
	return statusOf(r.post(ctx, c.StandardClient()))
}

func plugged(keepAnswer bool) form {
	return func(ctx context.Context, r *remote) (string, error) {
		policy := vaultWaits()
		retry := plug.RetryableHTTP(&policy)
		c := retryableVault(r)
		c.CheckRetry, c.Backoff = retry.CheckRetry, retry.Backoff
		c.ErrorHandler, c.RetryMax = retry.ErrorHandler, retry.RetryMax()
		if keepAnswer {
			c.ErrorHandler = retry.KeepResponse
		}
		return statusOf(r.post(ctx, c.StandardClient()))
	}
}

// readsItsWrites writes, and reads with the state of the write in a header, as
// the program does for callers that must read what they wrote.
func readsItsWrites(client func(http.RoundTripper) *http.Client) form {
	return func(ctx context.Context, r *remote) (string, error) {
		state := &replicaState{base: r}
		return repeated(2, func() (string, error) { return statusOf(r.post(ctx, client(state))) })
	}
}

type replicaState struct {
	base   http.RoundTripper
	writes int
}

func (s *replicaState) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("X-Vault-Index", strconv.Itoa(s.writes))
	resp, err := s.base.RoundTrip(req)
	if err == nil && resp.StatusCode == http.StatusOK {
		s.writes++
	}
	return resp, err
}

// rateLimited waits for the limiter before each request, and not before each
// attempt.
func rateLimited(client func(http.RoundTripper) *http.Client) form {
	return func(ctx context.Context, r *remote) (string, error) {
		limiter := rate.NewLimiter(1, 1)
		return repeated(3, func() (string, error) {
			if err := limiter.Wait(ctx); err != nil {
				return "", err
			}
			return statusOf(r.post(ctx, client(r)))
		})
	}
}

// statusOf is what the caller of an HTTP client sees.
func statusOf(resp *http.Response, err error) (string, error) {
	if err != nil {
		return "", err
	}
	resp.Body.Close()
	return strconv.Itoa(resp.StatusCode), nil
}
