package nocheck

import (
	"context"
	"io"
	"net/http"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

var policy = backoff.Policy{Name: "get"}

func forgets(ctx context.Context, c *http.Client, req *http.Request) error {
	return policy.Do(ctx, func(ctx context.Context) error {
		resp, err := c.Do(req.WithContext(ctx)) // want `a success whatever its status`
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	})
}

func checks(ctx context.Context, c *http.Client, req *http.Request) error {
	return policy.Do(ctx, func(ctx context.Context) error {
		resp, err := c.Do(req.WithContext(ctx))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		return backoffhttp.Check(resp)
	})
}

func looks(ctx context.Context, c *http.Client, req *http.Request) (ok bool, err error) {
	err = policy.Do(ctx, func(ctx context.Context) error {
		resp, err := c.Do(req.WithContext(ctx))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		ok = resp.StatusCode == http.StatusOK
		return nil
	})
	return ok, err
}

func handsOn(ctx context.Context, c *http.Client, req *http.Request, read func(*http.Response) error) error {
	return policy.Do(ctx, func(ctx context.Context) error {
		resp, err := c.Do(req.WithContext(ctx))
		if err != nil {
			return err
		}
		return read(resp)
	})
}
