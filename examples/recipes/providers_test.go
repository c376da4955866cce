package recipes

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/guard"
)

// A provider answers questions.
type provider struct {
	name    string
	service *guard.Service // made once, by guards
	ask     func(context.Context, string) (string, error)
}

// guards make no call wait: the next provider may answer at once.
func guards() *guard.Service {
	return &guard.Service{FailFast: true, Budget: new(backoff.RetryBudget), MaxRetryAfter: 24 * time.Hour}
}

var oneProvider = backoff.Policy{MaxAttempts: 2, AttemptTimeout: 4 * time.Second,
	MaxRetryAfter: 200 * time.Millisecond, Classify: backoffhttp.Classify}

// firstAnswer asks one provider after the other.
func firstAnswer(ctx context.Context, providers []provider, question string) (string, error) {
	var failed error
	for _, p := range providers {
		answer, err := backoff.DoValue(ctx, p.service.With(oneProvider), func(ctx context.Context) (string, error) {
			return p.ask(ctx, question)
		})
		if err == nil {
			return answer, nil
		}
		failed = errors.Join(failed, fmt.Errorf("%s: %w", p.name, err))
		if status, ok := errors.AsType[*backoffhttp.StatusError](err); ctx.Err() != nil || ok && status.Code == 400 {
			break // the question is wrong, wherever it is asked
		}
	}
	return "", failed
}

// The first provider fails in some way, and the second one answers, unless the question is wrong.
func TestTheSecondProviderAnswersForTheFirst(t *testing.T) {
	status := func(code int, after time.Duration) func(context.Context) error {
		return func(context.Context) error {
			time.Sleep(50 * time.Millisecond)
			return backoff.RetryAfter(&backoffhttp.StatusError{Code: code}, after)
		}
	}
	hangs := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, row := range map[string]struct {
		ask     func(context.Context) error
		second  int           // calls of the second
		most    int           // attempts of the first in 100 calls
		slowest time.Duration // call
	}{
		"down":                   {ask: status(503, 0), second: 100, most: 100, slowest: 400 * time.Millisecond},
		"hangs":                  {ask: hangs, second: 100, most: 100, slowest: 9 * time.Second},
		"overloaded":             {ask: status(529, 0), second: 100, most: 50, slowest: 400 * time.Millisecond},
		"throttled":              {ask: status(429, 0), second: 100, most: 50, slowest: 400 * time.Millisecond},
		"throttled for a second": {ask: status(429, time.Second), second: 100, most: 50, slowest: 400 * time.Millisecond},
		"throttled for an hour":  {ask: status(429, time.Hour), second: 100, most: 25, slowest: 400 * time.Millisecond},
		"bad key":                {ask: status(401, 0), second: 100, most: 100, slowest: time.Second},
		"question":               {ask: status(400, 0), most: 100, slowest: time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			attempts, answered, slowest := 0, 0, time.Duration(0)
			providers := []provider{
				{"first", guards(), func(ctx context.Context, _ string) (string, error) {
					attempts++
					return "", row.ask(ctx)
				}},
				{"second", guards(), func(context.Context, string) (string, error) { return "42", nil }},
			}
			for range 100 {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				began := time.Now()
				answer, err := firstAnswer(ctx, providers, "why")
				cancel()
				slowest = max(slowest, time.Since(began))
				if answer == "42" && err == nil {
					answered++
				}
				time.Sleep(500 * time.Millisecond)
			}
			if answered != row.second || attempts > row.most || slowest > row.slowest {
				t.Errorf("%s: %d answers, %d attempts of the first, the slowest call took %v", name, answered, attempts, slowest)
			}
		})
	}
}

func TestTheErrorNamesAllProviders(t *testing.T) {
	down := func(context.Context, string) (string, error) { return "", backoff.Permanent(errors.New("closed")) }
	_, err := firstAnswer(t.Context(), []provider{{"first", &guard.Service{}, down}, {"second", &guard.Service{}, down}}, "why")
	if err == nil || err.Error() != "first: closed\nsecond: closed" {
		t.Error(err)
	}
}
