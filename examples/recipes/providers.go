package recipes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/guard"
	"github.com/gobackoff/backoff/pace"
)

// A provider answers questions.
type provider struct {
	name    string
	service *guard.Service // made once, by guards
	ask     func(context.Context, string) (string, error)
}

// guards make no call wait: the next provider may answer. One that is down is tried every 10 s, and
// one that asks for an hour after the hour.
func guards() *guard.Service {
	budget := backoff.JoinBudgets(&pace.HoldOff{MaxWait: -1}, new(backoff.RetryBudget))
	return &guard.Service{FailFast: true, Budget: budget, Breaker: &backoff.Breaker{
		OpenFor: backoff.Constant(10 * time.Second), MaxRetryAfter: 24 * time.Hour,
	}}
}

// A good answer takes less than this.
const patient = 4 * time.Second

// The next provider is better than a second attempt, and than a wait for a Retry-After.
var oneProvider = backoff.Policy{MaxAttempts: 1, MaxElapsed: 10 * time.Millisecond, Classify: backoffhttp.Classify}

// firstAnswer asks one provider after the other.
func firstAnswer(ctx context.Context, providers []provider, question string) (string, error) {
	var failed error
	for _, p := range providers {
		answer, err := backoff.DoValue(ctx, p.service.With(oneProvider), func(ctx context.Context) (string, error) {
			ctx, cancel := context.WithTimeout(ctx, patient) // an AttemptTimeout would end with MaxElapsed
			defer cancel()
			answer, err := p.ask(ctx, question)
			return answer, noteKey(ctx, p.name, err)
		})
		if err == nil {
			return answer, nil
		}
		failed = errors.Join(failed, fmt.Errorf("%s: %w", p.name, err))
		if statusOf(err) == 400 || ctx.Err() != nil {
			break // the question is wrong, wherever it is asked
		}
	}
	return "", failed
}

// noteKey logs a 401 or 403, which the answer of the next provider hides. It marks it as transient:
// the provider is down for us, and is left out.
func noteKey(ctx context.Context, provider string, err error) error {
	if code := statusOf(err); code == 401 || code == 403 {
		slog.ErrorContext(ctx, "the key is wrong", "provider", provider, "error", err)
		return backoff.OfClass(err, backoff.ClassRetryable)
	}
	return err
}

func statusOf(err error) int {
	if status, ok := errors.AsType[*backoffhttp.StatusError](err); ok {
		return status.Code
	}
	return 0
}

// streaming makes the client of one provider whose answers are streams. It waits once for a 429 that
// ends in 2 s. After one that lasts longer, or any other failure, the next provider is asked.
func streaming(provider string) *http.Client {
	return &http.Client{Transport: &backoffhttp.Transport{
		Policy: backoff.Policy{
			Name:           provider,
			Idempotency:    backoff.Idempotent, // a second POST costs money, but does no harm
			MaxAttempts:    1,
			ByClass:        map[backoff.Class]backoff.ClassLimits{backoff.ClassThrottled: {MaxAttempts: 2}},
			MaxRetryAfter:  2 * time.Second,
			AttemptTimeout: 5 * time.Second, // until the first event
			MaxElapsed:     7 * time.Second, // a wait and an attempt
		},
		RateLimits: backoffhttp.OpenAILimits, // after a 429 without a Retry-After
		Inspect: func(resp *http.Response) error {
			return noteKey(resp.Request.Context(), provider, firstEvent(resp))
		},
		Services: &guard.Services{New: func(string) *guard.Service { return guards() }},
	}}
}

// firstStream asks one client after the other. The caller reads and closes the body.
func firstStream(clients []*http.Client, request func(provider int) (*http.Request, error)) (*http.Response, error) {
	var failed error
	for i, client := range clients {
		req, err := request(i)
		if err != nil {
			return nil, err
		}
		resp, err := client.Do(req)
		if err == nil {
			if err = backoffhttp.Check(resp); err == nil {
				return resp, nil
			}
			resp.Body.Close()
		}
		failed = errors.Join(failed, err)
		if statusOf(err) == 400 || req.Context().Err() != nil {
			break
		}
	}
	return nil, failed
}
