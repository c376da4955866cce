//go:build nightly

package plugtest

import (
	"context"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/plug"
)

func retryable(p backoff.Policy) *retryablehttp.Client {
	client := retryablehttp.NewClient()
	client.Logger = nil
	client.HTTPClient = own()
	retry := plug.RetryableHTTP(p)
	client.CheckRetry, client.Backoff = retry.CheckRetry, retry.Backoff
	client.ErrorHandler, client.RetryMax = retry.ErrorHandler, retry.RetryMax()
	return client
}

func send(ctx context.Context, p backoff.Policy, method, url string) (*http.Response, error) {
	req, err := retryablehttp.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return nil, err
	}
	return retryable(p).Do(req)
}

func TestRetryableHTTPRetriesWithThePolicysWaits(t *testing.T) {
	s := serve(t, answer(502, ""), reset, answer(200, ""))
	resp, err := send(t.Context(), steps, "GET", s.URL)
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode)
	s.waited(t, 20*time.Millisecond, 40*time.Millisecond)

	s = serve(t, answer(500, "", "Retry-After", "1"), answer(200, ""))
	_, err = send(t.Context(), steps, "GET", s.URL)
	require.NoError(t, err)
	s.waited(t, time.Second)
}

func TestRetryableHTTPGivesUpForGood(t *testing.T) {
	s := serve(t, answer(503, ""))
	outer := backoff.Policy{Schedule: backoff.Constant(0)}
	err := outer.Do(t.Context(), func(ctx context.Context) error {
		_, err := send(ctx, steps, "GET", s.URL)
		return err
	})
	require.EqualError(t, err, "backoff: test: gave up after 4 attempts: status 503 Service Unavailable")
	require.ErrorIs(t, err, backoff.ErrExhausted)
	s.waited(t, 20*time.Millisecond, 40*time.Millisecond, 80*time.Millisecond)

	s = serve(t, reset)
	_, err = send(t.Context(), steps, "GET", s.URL)
	require.ErrorIs(t, err, syscall.ECONNRESET)
	require.ErrorIs(t, err, backoff.ErrExhausted)
	require.Len(t, s.gaps(), 3)
}

func TestOpenAIUnderTheMiddleware(t *testing.T) {
	transport := &backoffhttp.Unguarded{Policy: steps}
	busy := answer(429, `{"error":{"message":"rate limit"}}`, "Retry-After-Ms", "150", "Content-Type", "application/json")
	s := serve(t, busy, busy, answer(200, `{"id":"m","object":"model"}`, "Content-Type", "application/json"))
	client := openai.NewClient(option.WithBaseURL(s.URL), option.WithAPIKey("key"),
		option.WithMaxRetries(0), option.WithMiddleware(transport.Middleware))

	model, err := client.Models.Get(t.Context(), "m")
	require.NoError(t, err)
	require.Equal(t, "m", model.ID)
	s.waited(t, 150*time.Millisecond, 150*time.Millisecond)

	s.script = []http.HandlerFunc{busy}
	_, err = client.Models.Get(t.Context(), "m")
	var refused *openai.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, 429, refused.StatusCode)
	require.Len(t, s.gaps(), 2+4)
}
