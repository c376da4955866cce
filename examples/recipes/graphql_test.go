package recipes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

func graphError(resp *http.Response) error { // Transport{Inspect: graphError}
	text, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(text)) // the caller reads it again
	if bytes.Contains(text, []byte(`"code":"RATE_LIMITED"`)) {
		return backoff.OfClass(&backoffhttp.StatusError{Code: 429, Header: resp.Header}, backoff.ClassThrottled)
	}
	return errors.Join(err, backoffhttp.Check(resp))
}

func asQuery(ctx context.Context) context.Context { // a mutation keeps the policy of the client
	return backoffhttp.WithRetry(ctx, func(p *backoff.Policy) { p.Idempotency = backoff.Idempotent })
}

// A mutation is sent again only after a rate limit, or with a key, and a query after each
// transient failure. The last reply is the caller's, also if it is a rate limit.
func TestAQueryIsSentAgainAndAMutationOnlyIfItWasNotExecuted(t *testing.T) {
	const done, limited, broken = `{"data":{}}`, `{"errors":[{"extensions":{"code":"RATE_LIMITED"}}]}`, ""
	for _, c := range []struct {
		ctx      context.Context
		key      string
		replies  []string
		requests int
		want     string
	}{
		{context.Background(), "", []string{limited, done}, 2, "200 " + done},
		{context.Background(), "", []string{broken, done}, 1, "503 "},
		{context.Background(), "order 17", []string{broken, done}, 2, "200 " + done},
		{asQuery(context.Background()), "", []string{limited, broken, done}, 3, "200 " + done},
		{context.Background(), "", []string{limited, limited, limited}, 3, "200 " + limited},
	} {
		synctest.Test(t, func(t *testing.T) {
			server := &graph{replies: c.replies}
			client := &http.Client{Transport: &backoffhttp.Transport{
				Base:    server,
				Policy:  backoff.Policy{Name: "graph", MaxAttempts: 3, Idempotency: backoffhttp.RepeatAfter429},
				Inspect: graphError,
			}}
			req := must(http.NewRequestWithContext(c.ctx, http.MethodPost, "http://graph.test", strings.NewReader("{}")))
			if c.key != "" {
				req.Header.Set("Idempotency-Key", c.key)
			}
			resp := must(client.Do(req))
			got := fmt.Sprint(resp.StatusCode, " ", string(must(io.ReadAll(resp.Body))))
			if failed := backoffhttp.Check(resp) != nil; got != c.want || failed == strings.HasSuffix(got, done) || server.requests != c.requests {
				t.Errorf("after %d requests of %q: %s, failed: %t", server.requests, c.replies, got, failed)
			}
		})
	}
}

// A graph is a server that gives its replies one after the other. "" is a 503.
type graph struct {
	replies  []string
	requests int
}

func (g *graph) RoundTrip(req *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if g.replies[g.requests] == "" {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	w.WriteString(g.replies[g.requests])
	g.requests++
	resp := w.Result()
	resp.Request = req
	return resp, nil
}
