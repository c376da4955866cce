package migrate

import (
	"context"
	"net/http"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/plug"
)

func retryableClient() *http.Client {
	c := retryablehttp.NewClient()
	c.RetryMax = 3
	c.RetryWaitMin = 100 * time.Millisecond
	c.RetryWaitMax = 5 * time.Second
	c.Logger = nil
	client := c.StandardClient()
	return client
}

func retryablePlugged() *http.Client {
	retry := plug.RetryableHTTP(backoff.Policy{})
	c := retryablehttp.NewClient()
	c.CheckRetry, c.Backoff = retry.CheckRetry, retry.Backoff
	c.ErrorHandler, c.RetryMax = retry.ErrorHandler, retry.RetryMax()
	return c.StandardClient()
}

func retryableWhole() *http.Client {
	c := retryablehttp.NewClient()
	c.HTTPClient = &http.Client{Timeout: 10 * time.Second, CheckRedirect: noRedirects}
	c.RetryMax, c.RetryWaitMin, c.RetryWaitMax = 2, time.Second, time.Second
	c.Backoff = retryablehttp.LinearJitterBackoff
	c.CheckRetry = func(ctx context.Context, resp *http.Response, err error) (bool, error) {
		if err == nil && resp.StatusCode == http.StatusPreconditionFailed {
			return true, nil
		}
		return retryablehttp.DefaultRetryPolicy(ctx, resp, err)
	}
	c.ErrorHandler = retryablehttp.PassthroughErrorHandler
	return c.StandardClient()
}

func retryableKept() *http.Client {
	policy := vaultPolicy()
	retry := plug.RetryableHTTP(policy)
	c := retryablehttp.NewClient()
	c.HTTPClient = &http.Client{Timeout: 10 * time.Second, CheckRedirect: noRedirects}
	c.CheckRetry, c.Backoff = retry.CheckRetry, retry.Backoff
	c.ErrorHandler, c.RetryMax = retry.KeepResponse, retry.RetryMax()
	return c.StandardClient()
}
