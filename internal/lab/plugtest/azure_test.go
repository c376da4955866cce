//go:build nightly

package plugtest

import (
	"net/http"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/plug"
)

func azure(t *testing.T, method, url string, client *http.Client, should func(*http.Response, error) bool) (*http.Response, error) {
	pipeline := runtime.NewPipeline("plugtest", "v1.0.0", runtime.PipelineOptions{}, &policy.ClientOptions{
		Transport: client,
		Retry:     policy.RetryOptions{MaxRetries: 3, RetryDelay: time.Millisecond, ShouldRetry: should},
	})
	req, err := runtime.NewRequest(t.Context(), method, url)
	require.NoError(t, err)
	return pipeline.Do(req)
}

func TestAzureRetriesWhatThePolicyRetries(t *testing.T) {
	should := plug.ShouldRetry(steps)
	s := serve(t, answer(502, ""), reset, answer(429, "", "Retry-After-Ms", "50"), answer(200, ""))
	resp, err := azure(t, "GET", s.URL, own(), should)
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode)
	s.waited(t, 0, 0, 50*time.Millisecond)

	s = serve(t, answer(501, ""))
	resp, err = azure(t, "GET", s.URL, own(), should)
	require.NoError(t, err)
	require.Equal(t, 501, resp.StatusCode)
	s.waited(t)

	s = serve(t, answer(503, ""))
	_, err = azure(t, "GET", s.URL, own(), should)
	require.NoError(t, err)
	require.Len(t, s.gaps(), 3)
}

func TestAzureDoesNotSendAPostTwice(t *testing.T) {
	s := serve(t, answer(503, ""))
	azure(t, "POST", s.URL, own(), plug.ShouldRetry(steps))
	s.waited(t)
	s = serve(t, reset)
	azure(t, "POST", s.URL, own(), plug.ShouldRetry(steps))
	s.waited(t)

	p := steps
	p.Idempotency = backoff.Idempotent
	s = serve(t, answer(503, ""))
	azure(t, "POST", s.URL, own(), plug.ShouldRetry(p))
	require.Len(t, s.gaps(), 3)
}

func TestAzureStopsWhereATransportOfOursGaveUp(t *testing.T) {
	calls := 0
	_, err := azure(t, "GET", "http://127.0.0.1:1", gaveUp(&calls), nil)
	require.ErrorIs(t, err, backoff.ErrExhausted)
	require.ErrorIs(t, err, errDown)
	require.Equal(t, 4, calls, "azcore's own loop makes 1 attempt, not 4")
}
