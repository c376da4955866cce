package recipes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

// graphError finds the errors of a response with status 200.
func graphError(resp *http.Response) error { // Transport{Inspect: graphError}
	text, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(text)) // the caller reads it again
	var reply struct {
		Errors []struct {
			Extensions struct {
				Code       string
				RetryAfter float64 // in seconds, as some servers send it
			}
		}
	}
	if json.Unmarshal(text, &reply) == nil {
		for _, e := range reply.Errors {
			switch failed := e.Extensions; failed.Code {
			case "RATE_LIMITED":
				limited := backoff.OfClass(&backoffhttp.StatusError{Code: 429, Header: resp.Header}, backoff.ClassThrottled)
				if failed.RetryAfter > 0 {
					limited = backoff.RetryAfter(limited, time.Duration(failed.RetryAfter*float64(time.Second)))
				}
				return limited
			case "INTERNAL_SERVER_ERROR": // only a query is sent again
				return backoff.OfClass(&backoffhttp.StatusError{Code: 500, Header: resp.Header}, backoff.ClassRetryable)
			}
		}
	}
	return errors.Join(err, backoffhttp.Check(resp))
}

func asQuery(ctx context.Context) context.Context { // a mutation keeps the policy of the client
	return backoffhttp.WithRetry(ctx, func(p *backoff.Policy) { p.Idempotency = backoff.Idempotent })
}

// A mutation is sent again only after a rate limit, or with a key, and a query after each
// transient failure. The last reply is the caller's, also if it is a rate limit.
func TestAQueryIsSentAgainAndAMutationOnlyIfItWasNotExecuted(t *testing.T) {
	const (
		done    = `{"data":{}}`
		limited = `{"errors": [{"extensions": {"code": "RATE_LIMITED"}}]}`
		later   = `{"errors":[{"extensions":{"code":"RATE_LIMITED","retryAfter":2.5}}]}`
		failed  = `{"errors":[{"message":"x","path":["a",0],"extensions":{"code":"INTERNAL_SERVER_ERROR"}}],"data":null}`
		broken  = ""
	)
	for _, c := range []struct {
		ctx      context.Context
		key      string
		replies  []string
		requests int
		least    time.Duration // that the call takes
		want     string
	}{
		{context.Background(), "", []string{limited, done}, 2, 0, "200 " + done},
		{context.Background(), "", []string{broken, done}, 1, 0, "503 "},
		{context.Background(), "order 17", []string{broken, done}, 2, 0, "200 " + done},
		{asQuery(context.Background()), "", []string{limited, broken, done}, 3, 0, "200 " + done},
		{context.Background(), "", []string{limited, limited, limited}, 3, 0, "200 " + limited},
		{context.Background(), "", []string{later, done}, 2, 2500 * time.Millisecond, "200 " + done},
		{context.Background(), "", []string{failed, done}, 1, 0, "200 " + failed},
		{asQuery(context.Background()), "", []string{failed, done}, 2, 0, "200 " + done},
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
			began := time.Now()
			resp := must(client.Do(req))
			if took := time.Since(began); took < c.least {
				t.Errorf("%q took %v", c.replies, took)
			}
			got := fmt.Sprint(resp.StatusCode, " ", string(must(io.ReadAll(resp.Body))))
			if bad := backoffhttp.Check(resp) != nil; got != c.want || bad == strings.HasSuffix(got, done) || server.requests != c.requests {
				t.Errorf("after %d requests of %q: %s, failed: %t", server.requests, c.replies, got, bad)
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
