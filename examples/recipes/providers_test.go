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
	service *guard.Service // made once, with FailFast: the next provider may answer at once
	ask     func(context.Context, string) (string, error)
}

var oneProvider = backoff.Policy{MaxAttempts: 2, AttemptTimeout: 4 * time.Second, Classify: backoffhttp.Classify}

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
	down := func(context.Context, string) (string, error) { return "", &backoffhttp.StatusError{Code: 503} }
	for name, row := range map[string]struct {
		ask     func(context.Context, string) (string, error)
		second  int           // calls of the second
		most    int           // attempts of the first in 100 calls
		slowest time.Duration // call
	}{
		"down":     {ask: down, second: 100, most: 100, slowest: time.Second},
		"hangs":    {ask: func(ctx context.Context, _ string) (string, error) { <-ctx.Done(); return "", ctx.Err() }, second: 100, most: 100, slowest: 9 * time.Second},
		"bad key":  {ask: func(context.Context, string) (string, error) { return "", &backoffhttp.StatusError{Code: 401} }, second: 100, most: 100, slowest: time.Second},
		"question": {ask: func(context.Context, string) (string, error) { return "", &backoffhttp.StatusError{Code: 400} }, most: 100, slowest: time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			attempts, answered, slowest := 0, 0, time.Duration(0)
			providers := []provider{
				{"first", &guard.Service{FailFast: true}, func(ctx context.Context, q string) (string, error) {
					attempts++
					return row.ask(ctx, q)
				}},
				{"second", &guard.Service{FailFast: true}, func(context.Context, string) (string, error) { return "42", nil }},
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
