package guards

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	cenkalti "github.com/cenkalti/backoff/v7"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/timeout"
	"github.com/hashicorp/go-retryablehttp"
	"resty.dev/v3"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/presets"
)

// A client is one way to call a service.
type client struct {
	name    string // for flags and data
	caption string // for the page
	about   string // its settings
	module  string // of a peer
	// start makes one process of the client. timeout limits an attempt, and 0 means no limit.
	start func(base http.RoundTripper, timeout time.Duration) send
}

// send makes one call.
type send func(*http.Request) (*http.Response, error)

// The names of the clients that bars are about.
const (
	ours      = "ours"
	failfast  = "failfast"
	eight     = "eight"
	unguarded = "unguarded"
	none      = "none"
	hashicorp = "retryablehttp"
)

var clients = []client{
	{
		name: ours, caption: "backoffhttp.Client", about: "this library, as it comes",
		start: library(backoff.Policy{}, nil),
	},
	{
		name: failfast, caption: "ours, fail fast", about: "this library, with a guard.Service for each host whose calls do not wait",
		start: library(backoff.Policy{}, failFast),
	},
	{
		name: hashicorp, caption: "go-retryablehttp", about: "its defaults: 5 attempts, waits of 1 s, doubling",
		module: "github.com/hashicorp/go-retryablehttp",
		start: func(base http.RoundTripper, timeout time.Duration) send {
			c := retryablehttp.NewClient()
			c.HTTPClient = &http.Client{Transport: base, Timeout: timeout}
			c.Logger, c.ErrorHandler = nil, retryablehttp.PassthroughErrorHandler
			return c.StandardClient().Do
		},
	},
	{
		name: "failsafe", caption: "failsafe-go", about: "4 attempts, waits of 100 ms, doubling, ±50 %, and its budget: a fifth of all that is under way, and three at least",
		module: "github.com/failsafe-go/failsafe-go",
		start:  failsafeWith(),
	},
	{
		name: "cenkalti", caption: "cenkalti/backoff", about: "its defaults: attempts for 15 minutes, waits of 500 ms, times 1.5, ±50 %; a status that no retry changes is marked permanent",
		module: "github.com/cenkalti/backoff/v7",
		start:  startCenkalti,
	},
	{
		name: "resty", caption: "resty", about: "4 attempts, its waits of 100 ms to 2 s, and its conditions for 429, for 5xx and for no answer",
		module: "resty.dev/v3",
		start:  startResty,
	},
	{
		name: unguarded, caption: "ours, unguarded", about: "this library, with backoffhttp.Unguarded: retries alone",
		start: unguardedBy(func() backoff.Budget { return nil }),
	},
	{
		name: "awsquota", caption: "ours, AWS quota", about: "this library, with presets.AWSQuota in place of the guards",
		start: unguardedBy(func() backoff.Budget { return presets.NewAWSQuota() }),
	},
	{
		name: none, caption: "no retries", about: "net/http alone",
		start: func(base http.RoundTripper, timeout time.Duration) send {
			return (&http.Client{Transport: base, Timeout: timeout}).Do
		},
	},
}

// onPage reports whether a client lives in all worlds, and has a column in all tables.
func onPage(c client) bool {
	return slices.ContainsFunc(clients, func(o client) bool { return o.name == c.name })
}

// besides are clients that are in some bars, and not in most tables of the page.
var besides = append([]client{
	{name: eight, about: "this library, with 8 attempts", start: library(backoff.Policy{MaxAttempts: 8}, nil)},
}, limiters...)

// library returns how to start the client that backoffhttp.Client makes, with a
// Service for each host: that of the Transport itself if it is nil.
func library(policy backoff.Policy, service func(host string) *guard.Service) func(http.RoundTripper, time.Duration) send {
	return func(base http.RoundTripper, timeout time.Duration) send {
		policy.AttemptTimeout = timeout
		t := &backoffhttp.Transport{Base: base, Policy: policy}
		if service != nil {
			t.Services = &guard.Services{New: service}
		}
		return sending(t)
	}
}

// failFast makes the Service of a host, for which calls do not wait.
func failFast(host string) *guard.Service { return &guard.Service{Name: host, FailFast: true} }

// unguardedBy returns how to start a client without guards, whose policy has a budget.
func unguardedBy(budget func() backoff.Budget) func(http.RoundTripper, time.Duration) send {
	return func(base http.RoundTripper, timeout time.Duration) send {
		return sending(&backoffhttp.Unguarded{Base: base, Policy: backoff.Policy{AttemptTimeout: timeout, Budget: budget()}})
	}
}

func sending(t http.RoundTripper) send { return (&http.Client{Transport: t}).Do }

// failsafeWith returns how to start failsafe-go with its retries, and with policies
// below them.
func failsafeWith(below ...func() failsafe.Policy[*http.Response]) func(http.RoundTripper, time.Duration) send {
	return func(base http.RoundTripper, limit time.Duration) send {
		policies := []failsafe.Policy[*http.Response]{
			failsafehttp.NewRetryPolicyBuilder().WithMaxRetries(3).WithBackoff(100*time.Millisecond, 10*time.Second).
				WithJitterFactor(0.5).WithBudget(budget.New()).ReturnLastFailure().Build(),
		}
		for _, policy := range below {
			policies = append(policies, policy())
		}
		if limit > 0 {
			policies = append(policies, timeout.New[*http.Response](limit))
		}
		return sending(failsafehttp.NewRoundTripper(base, policies...))
	}
}

func startResty(base http.RoundTripper, timeout time.Duration) send {
	c := resty.NewWithClient(&http.Client{Transport: base, Timeout: timeout}).SetRetryCount(3).
		AddRetryConditions(resty.RetryConditionStatus5XX, resty.RetryConditionStatusTooManyRequests, resty.RetryConditionStatusZero)
	return func(req *http.Request) (*http.Response, error) {
		r := c.R().SetContext(req.Context())
		r.Header = req.Header
		resp, err := r.Execute(req.Method, req.URL.String())
		if resp == nil {
			return nil, err
		}
		return resp.RawResponse, err
	}
}

func startCenkalti(base http.RoundTripper, timeout time.Duration) send {
	c := &http.Client{Transport: base, Timeout: timeout}
	return func(req *http.Request) (*http.Response, error) {
		return cenkalti.Retry(req.Context(), func() (*http.Response, error) {
			resp, err := c.Do(req)
			if err != nil || resp.StatusCode < http.StatusBadRequest {
				return resp, err
			}
			resp.Body.Close()
			return nil, failed(resp)
		})
	}
}

// failed tells cenkalti/backoff what to do about a status.
func failed(resp *http.Response) error {
	err := errors.New(resp.Status)
	if wait, ok := backoffhttp.RetryAfter(resp); ok {
		return cenkalti.RetryAfter(wait, err)
	}
	if resp.StatusCode < 500 && resp.StatusCode != http.StatusTooManyRequests {
		return cenkalti.Permanent(err)
	}
	return err
}

// get makes a GET, and reports whether it succeeded.
func get(ctx context.Context, do send, url string, header http.Header) bool {
	return ask(ctx, do, http.MethodGet, url, header)
}

// ask makes a request, and reports whether it succeeded.
func ask(ctx context.Context, do send, method, url string, header http.Header) bool {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		panic(err) // of a world
	}
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := do(req)
	if resp == nil || resp.Body == nil {
		return false
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	return err == nil && resp.StatusCode < http.StatusBadRequest
}
