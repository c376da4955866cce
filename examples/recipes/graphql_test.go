package recipes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/examples/internal/faulty"
)

func graphError(resp *http.Response) error { // Transport{Inspect: graphError}
	text, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(text)) // the caller reads it again
	if bytes.Contains(text, []byte(`"code":"RATE_LIMITED"`)) {
		return backoff.OfClass(&backoffhttp.StatusError{Code: 429}, backoff.ClassThrottled)
	}
	return errors.Join(err, backoffhttp.Check(resp))
}

func asQuery(ctx context.Context) context.Context { // a mutation keeps the policy of the client
	return backoffhttp.WithRetry(ctx, func(p *backoff.Policy) { p.Idempotency = backoff.Idempotent })
}

// A rate limit repeats both. After a 503 only the query is repeated: a mutation may have been made.
func Example_graphQL() {
	graph := &http.Client{Transport: &backoffhttp.Transport{
		Policy:  backoff.Policy{Name: "graphql", Idempotency: backoffhttp.RepeatAfter429},
		Inspect: graphError,
	}}
	post := func(ctx context.Context, url, text string) string {
		req := must(http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(text)))
		resp := must(graph.Do(req))
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return strconv.Itoa(resp.StatusCode)
		}
		return string(must(io.ReadAll(resp.Body)))
	}
	limited := faulty.Text(`{"errors":[{"extensions":{"code":"RATE_LIMITED"}}]}`)
	for _, call := range []struct {
		text string
		ctx  context.Context
	}{
		{"query { orders }", asQuery(context.Background())},
		{"mutation { order }", context.Background()},
	} {
		for _, failure := range []faulty.Step{limited, faulty.Status(http.StatusServiceUnavailable)} {
			server := faulty.Start(failure, faulty.Text(`{"data":{}}`))
			fmt.Println(call.text, post(call.ctx, server.URL, call.text), server.Requests(), "requests")
			server.Close()
		}
	}
	// Output:
	// query { orders } {"data":{}} 2 requests
	// query { orders } {"data":{}} 2 requests
	// mutation { order } {"data":{}} 2 requests
	// mutation { order } 503 1 requests
}
