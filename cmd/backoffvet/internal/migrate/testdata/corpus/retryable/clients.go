// Package retryable has clients of go-retryablehttp as programs make them.
package retryable

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"corpus/world"
)

// Sites are the call sites by their names.
var Sites = map[string]world.Site{
	"standard": standard, "passthrough": passthrough, "wrapped": wrapped, "statuses": statuses, "linear": linear,
	"kept": kept, "field": field, "inFunction": inFunction, "posts": posts, "noWait": noWait,
	"ownCheck": ownCheck, "conditional": conditional,
}

// get sends a request and looks at the answer.
func get(ctx context.Context, client *http.Client) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://service.test/", nil)
	if err != nil {
		return err
	}
	return look(client.Do(req))
}

func look(resp *http.Response, err error) error {
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	switch resp.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusNotFound:
		return world.ErrGone
	}
	return fmt.Errorf("%w: %s", world.ErrGaveUp, resp.Status)
}

func standard(ctx context.Context, s *world.Service) error {
	c := retryablehttp.NewClient()
	c.RetryMax = 3
	c.RetryWaitMin = 100 * time.Millisecond
	c.RetryWaitMax = 5 * time.Second
	c.Logger = nil
	c.HTTPClient.Transport = s
	return get(ctx, c.StandardClient())
}

func passthrough(ctx context.Context, s *world.Service) error {
	retryClient := retryablehttp.NewClient()
	retryClient.HTTPClient = &http.Client{Transport: s, Timeout: 10 * time.Second}
	retryClient.RetryMax = 2
	retryClient.Logger = nil
	retryClient.ErrorHandler = retryablehttp.PassthroughErrorHandler
	client := retryClient.StandardClient()
	return get(ctx, client)
}

func newClient(base http.RoundTripper, retries int) *http.Client {
	c := retryablehttp.NewClient()
	c.HTTPClient.Transport = base
	c.HTTPClient.Timeout = 30 * time.Second
	c.RetryMax, c.RetryWaitMin, c.RetryWaitMax = retries, time.Second, 4*time.Second
	c.Backoff = retryablehttp.DefaultBackoff
	c.ErrorHandler = retryablehttp.PassthroughErrorHandler
	c.Logger = nil
	return c.StandardClient()
}

func wrapped(ctx context.Context, s *world.Service) error { return get(ctx, newClient(s, 4)) }

// statuses retries what is gone, too.
func statuses(ctx context.Context, s *world.Service) error {
	c := retryablehttp.NewClient()
	c.HTTPClient = &http.Client{Transport: s}
	c.RetryMax = 3
	c.CheckRetry = func(ctx context.Context, resp *http.Response, err error) (bool, error) {
		if err == nil && resp.StatusCode == http.StatusNotFound {
			return true, nil
		}
		return retryablehttp.DefaultRetryPolicy(ctx, resp, err)
	}
	c.ErrorHandler = retryablehttp.PassthroughErrorHandler
	c.Logger = nil
	return get(ctx, c.StandardClient())
}

func linear(ctx context.Context, s *world.Service) error {
	c := retryablehttp.NewClient()
	c.HTTPClient = &http.Client{Transport: s}
	c.RetryMax, c.RetryWaitMin, c.RetryWaitMax = 4, time.Second, time.Second
	c.Backoff = retryablehttp.LinearJitterBackoff
	c.ErrorHandler = retryablehttp.PassthroughErrorHandler
	c.Logger = nil
	return get(ctx, c.StandardClient())
}

// kept calls the client itself.
func kept(ctx context.Context, s *world.Service) error {
	client := retryablehttp.NewClient()
	client.RetryMax = 3
	client.RetryWaitMin = 2 * time.Second
	client.RetryWaitMax = 5 * time.Second
	client.HTTPClient.Transport = s
	client.Logger = nil

	req, err := retryablehttp.NewRequestWithContext(ctx, http.MethodGet, "http://service.test/", nil)
	if err != nil {
		return err
	}
	return look(client.Do(req))
}

type api struct{ client *retryablehttp.Client }

// newAPI has the defaults of the library.
func newAPI(base http.RoundTripper) *api {
	client := retryablehttp.NewClient()
	client.HTTPClient.Transport = base
	client.ErrorHandler = retryablehttp.PassthroughErrorHandler
	client.Logger = nil
	return &api{client: client}
}

func field(ctx context.Context, s *world.Service) error {
	return get(ctx, newAPI(s).client.StandardClient())
}

// inFunction sets nothing.
func inFunction(ctx context.Context, s *world.Service) error {
	c := retryablehttp.NewClient()
	c.Logger, c.HTTPClient.Transport = nil, s
	return get(ctx, c.StandardClient())
}

// posts sends a body.
func posts(ctx context.Context, s *world.Service) error {
	c := retryablehttp.NewClient()
	c.HTTPClient = &http.Client{Transport: s}
	c.RetryMax = 2
	c.ErrorHandler = retryablehttp.PassthroughErrorHandler
	c.Logger = nil
	client := c.StandardClient()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://service.test/", strings.NewReader("body"))
	if err != nil {
		return err
	}
	return look(client.Do(req))
}

func noWait(ctx context.Context, s *world.Service) error {
	c := retryablehttp.NewClient()
	c.RetryMax = 2
	c.RetryWaitMin = 0
	c.RetryWaitMax = 0
	c.HTTPClient.Transport = s
	c.Logger = nil
	return get(ctx, c.StandardClient())
}

// ownCheck decides by itself.
func ownCheck(ctx context.Context, s *world.Service) error {
	c := retryablehttp.NewClient()
	c.HTTPClient.Transport = s
	c.Logger = nil
	c.RetryMax = 2
	c.CheckRetry = func(_ context.Context, resp *http.Response, err error) (bool, error) {
		return err != nil || resp.StatusCode >= 400, nil
	}
	return get(ctx, c.StandardClient())
}

func conditional(ctx context.Context, s *world.Service) error {
	c := retryablehttp.NewClient()
	c.HTTPClient.Transport = s
	c.Logger = nil
	if s != nil {
		c.RetryMax = 1
	}
	return get(ctx, c.StandardClient())
}
