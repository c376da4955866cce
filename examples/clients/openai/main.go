// Command openai asks a model by the SDK of OpenAI, under the retries of a
// [backoffhttp.Transport], which the SDK takes as a middleware.
//
// The server is one of the program's own. It has had too many requests, and
// says so twice: with status 429, and how many milliseconds to wait. Then it
// answers. No request is sent to OpenAI.
//
//	go run -C examples/clients ./openai
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

// A question costs money, but asked twice it does no harm: it may be repeated
// although it is a POST.
var policy = backoff.Policy{
	Name:          "ask",
	Schedule:      backoff.Exponential{Initial: 50 * time.Millisecond, Max: 5 * time.Second},
	MaxRetryAfter: time.Minute,
	Idempotency:   backoff.Idempotent,
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	server := httptest.NewServer(busy(2))
	defer server.Close()
	p := policy
	p.Observer = func(_ context.Context, e backoff.Event) {
		if e.Kind == backoff.EventRetry {
			fmt.Fprintf(out, "attempt %d: %v; the server asks for %v\n", e.Attempt, e.Err, e.RetryAfter)
		}
	}
	transport := &backoffhttp.Transport{Policy: p}
	client := openai.NewClient(
		option.WithBaseURL(server.URL),
		option.WithAPIKey("none"),
		option.WithMaxRetries(0), // or the SDK's own would multiply
		option.WithMiddleware(transport.Middleware),
	)
	answer, err := client.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{
		Model:    "any",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("What is jitter for?")},
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, answer.Choices[0].Message.Content)
	return nil
}

// busy is a server that has had too many requests, so many times.
func busy(times int32) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if atomic.AddInt32(&times, -1) >= 0 {
			w.Header().Set("Retry-After-Ms", "200")
			w.WriteHeader(http.StatusTooManyRequests)
			io.WriteString(w, `{"error":{"message":"Rate limit reached."}}`)
			return
		}
		io.WriteString(w, `{"choices":[{"message":{"role":"assistant","content":"So that not all come back at once."}}]}`)
	}
}
