package bareposts

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/guard"
)

var (
	shop    guard.Service
	policy  = backoff.Policy{Name: "charge", Classify: backoffhttp.Classify}
	keyed   = backoff.Policy{Name: "charge", Idempotency: backoff.Keyed}
	checked = backoff.Policy{Classify: backoff.RetryIf(isRefused)}
)

func isRefused(error) bool { return false }

func post(ctx context.Context) error {
	return policy.Do(ctx, func(ctx context.Context) error {
		resp, err := http.Post("https://example.com", "text/plain", nil) // want `this POST may be executed twice: .* Idempotency: backoff.NonIdempotent` `success whatever`
		if err != nil {
			return err
		}
		return resp.Body.Close()
	})
}

func postForm(ctx context.Context, client *http.Client) (*http.Response, error) {
	return backoff.DoValue(ctx, backoff.Policy{}, func(ctx context.Context) (*http.Response, error) {
		return client.PostForm("https://example.com", url.Values{}) // want `this POST`
	})
}

func newRequest(ctx context.Context, client *http.Client) error {
	r := policy.Start(ctx)
	for ctx := range r.Attempts() {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://example.com", strings.NewReader("a")) // want `this POST`
		if err != nil {
			return err
		}
		resp, err := client.Do(req) // want `success whatever`
		if err == nil {
			return resp.Body.Close()
		}
		r.Fail(err)
	}
	return r.Err()
}

func stacked(ctx context.Context) error {
	client := shop.With(policy)
	return client.Do(ctx, func(ctx context.Context) error {
		_, err := http.NewRequest("PATCH", "https://example.com", nil) // want `this POST`
		return err
	})
}

func madeOutside(ctx context.Context, client *http.Client) error {
	req, err := http.NewRequest("POST", "https://example.com", nil)
	if err != nil {
		return err
	}
	return policy.Do(ctx, func(ctx context.Context) error {
		_, err := client.Do(req.WithContext(ctx)) // want `success whatever`
		if err != nil {
			_, err = client.Do(req) // want `this POST`
		}
		return err
	})
}

type service struct{ client *http.Client }

func (s *service) charge(ctx context.Context) error {
	_, err := s.client.Post("https://example.com", "", nil) // want `this POST` `success whatever`
	return err
}

func byMethod(ctx context.Context, s *service) error { return policy.Do(ctx, s.charge) }

// Those below are right.

func get(ctx context.Context) error {
	return policy.Do(ctx, func(ctx context.Context) error {
		_, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://example.com", nil)
		return err
	})
}

func stated(ctx context.Context) error {
	once := policy
	once.Idempotency = backoff.NonIdempotent
	return once.Do(ctx, send)
}

func send(ctx context.Context) error {
	_, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://example.com", nil)
	return err
}

func others(ctx context.Context, given backoff.Policy, doer backoff.Doer) {
	_ = keyed.Do(ctx, send)
	_ = checked.Do(ctx, send)
	_ = given.Do(ctx, send)
	_ = doer.Do(ctx, send)
	_ = backoff.Policy{MaxAttempts: 1}.Do(ctx, send)
	_ = send(ctx)
}

func withKey(ctx context.Context, key string) error {
	return policy.Do(ctx, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://example.com", nil)
		if err == nil {
			req.Header.Set("Idempotency-Key", key)
		}
		return err
	})
}
