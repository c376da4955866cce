//go:build nightly

package plugtest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/plug"
)

// A vault calls a server as vault-client-go does: it follows redirects itself,
// retries 412 until a write has reached the node, and reads its errors from the
// body of the last answer, whatever the status.
type vault struct {
	do func(*http.Request) (*http.Response, error)
}

// vaultError is an error that Vault told.
type vaultError struct {
	Status int
	Errors []string
}

func (e *vaultError) Error() string { return "vault: " + strings.Join(e.Errors, ", ") }

func (v vault) call(ctx context.Context, method, url, body string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	resp, err := v.do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode < 400 {
		return string(text), err
	}
	failed := &vaultError{Status: resp.StatusCode}
	return "", errors.Join(json.Unmarshal(text, failed), failed, backoffhttp.Check(resp))
}

func vaultPolicy() backoff.Policy {
	p := steps
	p.MaxAttempts, p.Idempotency = 3, backoff.Idempotent
	p.Classify = func(err error) backoff.Class {
		if status, ok := errors.AsType[*backoffhttp.StatusError](err); ok && status.Code == http.StatusPreconditionFailed {
			return backoff.ClassRetryable
		}
		return backoff.ClassUnknown
	}
	return p
}

// vaults are a vault on a go-retryablehttp client, and one that has moved.
func vaults() map[string]vault {
	existing := func() *http.Client {
		c := own()
		c.Timeout = time.Second
		c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		return c
	}
	p := vaultPolicy()
	retry := plug.RetryableHTTP(&p)
	client := &retryablehttp.Client{
		HTTPClient: existing(), RetryMax: retry.RetryMax(),
		CheckRetry: retry.CheckRetry, Backoff: retry.Backoff, ErrorHandler: retry.KeepResponse,
	}
	return map[string]vault{
		"kept with plug": {func(req *http.Request) (*http.Response, error) {
			again, err := retryablehttp.FromRequest(req)
			if err != nil {
				return nil, err
			}
			return client.Do(again)
		}},
		"moved": {backoffhttp.WrapClient(existing(), p).Do},
	}
}

func TestVaultWaitsUntilAWriteHasReachedTheNode(t *testing.T) {
	for name, v := range vaults() {
		s := serve(t, answer(412, `{"errors":["required index state not present"]}`), answer(412, ""), answer(200, "secret"))
		text, err := v.call(t.Context(), "GET", s.URL+"/v1/secret/a", "")
		require.NoError(t, err, name)
		require.Equal(t, "secret", text)
		s.waited(t, 20*time.Millisecond, 40*time.Millisecond)
	}
}

func TestVaultTellsWhatTheLastAnswerSaid(t *testing.T) {
	for status, attempts := range map[int]int{503: 3, 412: 3, 400: 1, 404: 1} {
		for name, v := range vaults() {
			s := serve(t, answer(status, `{"errors":["Vault is sealed"]}`))
			outer := backoff.Policy{Schedule: backoff.Constant(0), Classify: backoffhttp.Classify}
			err := outer.Do(t.Context(), func(ctx context.Context) error {
				_, err := v.call(ctx, "PUT", s.URL+"/v1/secret/a", "data")
				return err
			})
			told, ok := errors.AsType[*vaultError](err)
			require.True(t, ok, "%s: %v", name, err)
			require.Equal(t, vaultError{status, []string{"Vault is sealed"}}, *told)
			require.Len(t, s.gaps(), attempts-1, "%s %d: attempts do not multiply", name, status)
			require.Equal(t, attempts > 1, errors.Is(err, backoff.ErrExhausted), err)
		}
	}
}

func TestVaultFollowsItsRedirectsItself(t *testing.T) {
	for name, v := range vaults() {
		s := serve(t, answer(307, "standby", "Location", "/v1/elsewhere"))
		text, err := v.call(t.Context(), "POST", s.URL+"/v1/secret/a", "data")
		require.NoError(t, err)
		require.Equal(t, "standby", text, name)
		s.waited(t)
	}
}

func TestVaultRepeatsAnAttemptThatTakesTooLong(t *testing.T) {
	for name, v := range vaults() {
		silent := func(_ http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}
		s := serve(t, silent, reset, answer(200, "written"))
		text, err := v.call(t.Context(), "POST", s.URL+"/v1/secret/a", "data")
		require.NoError(t, err, name)
		require.Equal(t, "written", text)
		require.Len(t, s.gaps(), 2)
		require.Greater(t, s.gaps()[0], 900*time.Millisecond, "a second, less the time in which the request arrives")
	}
}
