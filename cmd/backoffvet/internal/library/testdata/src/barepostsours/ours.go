// A client of package backoffhttp sends a POST once, whatever the policy around it says.
package barepostsours

import (
	"context"
	"net/http"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

var (
	policy backoff.Policy
	client = backoffhttp.Client(backoff.Policy{})
)

func post(ctx context.Context) error {
	return policy.Do(ctx, func(ctx context.Context) error {
		_, err := client.Post("https://example.com", "", nil)
		return err
	})
}

func request(ctx context.Context) error {
	return policy.Do(ctx, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, "POST", "https://example.com", nil)
		if err == nil {
			_, err = client.Do(req)
		}
		return err
	})
}

func byDefaultClient(ctx context.Context) error {
	return policy.Do(ctx, func(ctx context.Context) error {
		_, err := http.DefaultClient.Post("https://example.com", "", nil) // want `this POST` `success whatever`
		return err
	})
}

// One client of package backoffhttp says nothing of another.
func byAnother(ctx context.Context) error {
	other := &http.Client{}
	return policy.Do(ctx, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, "POST", "https://example.com", nil) // want `this POST`
		if err != nil {
			return err
		}
		resp, err := other.Do(req)
		if err != nil {
			return err
		}
		return backoffhttp.Check(resp)
	})
}
