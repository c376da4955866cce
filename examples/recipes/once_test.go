package recipes

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/examples/internal/faulty"
)

func fetch(ctx context.Context, url string) ([]byte, error) {
	policy := backoff.Policy{
		Name:           "fetch",
		MaxAttempts:    -1,               // the deadline ends it
		AttemptTimeout: 10 * time.Second, // with the body
		Schedule:       backoff.Exponential{Max: 2 * time.Second},
		Classify:       backoffhttp.Classify, // a 404 is permanent
	}
	return backoff.DoValue(ctx, policy, func(ctx context.Context) ([]byte, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, backoff.Permanent(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		if err := backoffhttp.Check(resp); err != nil {
			return nil, err
		}
		return io.ReadAll(resp.Body)
	})
}

// The server breaks off in the middle of a body, and is unavailable for more
// requests than a client's budget would pay for.
func TestOneRequestGoesOnUntilItsDeadline(t *testing.T) {
	reset := func(_ *faulty.Server, w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(faulty.ResetAfter(w, 5), "the whole text")
	}
	busy := faulty.Status(503)
	server := faulty.Start(reset, busy, busy, busy, busy, faulty.Text("the whole text"), faulty.Status(404))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if text, err := fetch(ctx, server.URL); string(text) != "the whole text" || server.Requests() != 6 {
		t.Errorf("%q, %v after %d requests", text, err, server.Requests())
	}
	if _, err := fetch(ctx, server.URL); err == nil || !strings.Contains(err.Error(), "404") || server.Requests() != 7 {
		t.Errorf("%v after %d requests", err, server.Requests())
	}
}
