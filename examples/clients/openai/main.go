// Command openai asks a model with OpenAI's SDK. Watch two attempts fail with
// the status 429: no wait is shorter than the server asks for. The third
// attempt gets the answer.
//
// The SDK takes a [backoffhttp.Transport] as a middleware, which makes the
// retries. The server is part of this program: nothing is sent to OpenAI.
//
//	go run -C examples/clients ./openai
package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/examples/internal/journal"
)

// policy repeats questions although they are POSTs. A repeated question costs
// money, but does no harm.
var policy = backoff.Policy{
	Name:          "ask",
	Schedule:      backoff.Exponential{Initial: 50 * time.Millisecond, Max: 5 * time.Second},
	MaxRetryAfter: time.Minute,
	Idempotency:   backoff.Idempotent,
}

func main() { journal.Main(run) }

func run(ctx context.Context, out io.Writer) error {
	server := httptest.NewServer(busy(2))
	defer server.Close()
	p := policy
	log := journal.New(out)
	p.Observer = log.Observe
	transport := &backoffhttp.Transport{Policy: p}
	client := openai.NewClient(
		option.WithBaseURL(server.URL),
		option.WithAPIKey("none"),
		option.WithMaxRetries(0), // otherwise the SDK's retries would multiply them
		option.WithMiddleware(transport.Middleware),
	)
	answer, err := client.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{
		Model:    "any",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("What is jitter for?")},
	})
	if err != nil {
		return err
	}
	log.Say("answer: %s", answer.Choices[0].Message.Content)
	log.Sum()
	return nil
}

// busy returns a server that first answers 429 the given number of times.
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
