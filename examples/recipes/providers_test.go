package recipes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
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

// guards make no call wait: the next provider may answer. One that is down is tried every 10 s.
func guards() *guard.Service {
	return &guard.Service{FailFast: true, Budget: new(backoff.RetryBudget), Breaker: &backoff.Breaker{
		OpenFor: backoff.Constant(10 * time.Second), MaxRetryAfter: 24 * time.Hour,
	}}
}

// The next provider is better than a second attempt. A good answer takes less than 4 s.
var oneProvider = backoff.Policy{MaxAttempts: 1, AttemptTimeout: 4 * time.Second, Classify: backoffhttp.Classify}

// firstAnswer asks one provider after the other.
func firstAnswer(ctx context.Context, providers []provider, question string) (string, error) {
	var failed error
	for _, p := range providers {
		answer, err := backoff.DoValue(ctx, p.service.With(oneProvider), func(ctx context.Context) (string, error) {
			answer, err := p.ask(ctx, question)
			if code := statusOf(err); code == 401 || code == 403 {
				err = backoff.OfClass(err, backoff.ClassRetryable) // our key is wrong, so the provider is down for us
			}
			return answer, err
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

func statusOf(err error) int {
	if status, ok := errors.AsType[*backoffhttp.StatusError](err); ok {
		return status.Code
	}
	return 0
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
		"down":                   {ask: status(503, 0), second: 100, most: 100, slowest: 100 * time.Millisecond},
		"hangs":                  {ask: hangs, second: 100, most: 100, slowest: 4 * time.Second},
		"overloaded":             {ask: status(529, 0), second: 100, most: 50, slowest: 100 * time.Millisecond},
		"throttled":              {ask: status(429, 0), second: 100, most: 50, slowest: 100 * time.Millisecond},
		"throttled for a second": {ask: status(429, time.Second), second: 100, most: 50, slowest: 100 * time.Millisecond},
		"throttled for an hour":  {ask: status(429, time.Hour), second: 100, most: 25, slowest: 100 * time.Millisecond},
		"bad key":                {ask: status(401, 0), second: 100, most: 20, slowest: time.Second},
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

// A hundred calls in ten seconds succeed. Then the first provider hangs for a minute, or our key is
// wrong: some callers wait 4 s before the circuit opens, and then one in ten seconds.
func TestAProviderThatHangsIsSoonLeftOut(t *testing.T) {
	hangs := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	wrongKey := func(context.Context) error { return &backoffhttp.StatusError{Code: 401} }
	for name, row := range map[string]struct {
		fail        func(context.Context) error
		early, late int // attempts that fail within 5.5 s, and afterwards
		slowest     time.Duration
	}{
		"hangs":     {fail: hangs, early: 55, late: 7, slowest: 4 * time.Second},
		"wrong key": {fail: wrongKey, early: 20, late: 7},
	} {
		synctest.Test(t, func(t *testing.T) {
			var early, late, wrong atomic.Int32
			down := time.Now().Add(10 * time.Second)
			providers := []provider{
				{"first", guards(), func(ctx context.Context, _ string) (string, error) {
					switch since := time.Since(down); {
					case since < 0:
						return "42", nil
					case since < 5500*time.Millisecond:
						early.Add(1)
					default:
						late.Add(1)
					}
					return "", row.fail(ctx)
				}},
				{"second", guards(), func(context.Context, string) (string, error) { return "42", nil }},
			}
			var all sync.WaitGroup
			for range 700 {
				all.Go(func() {
					began := time.Now()
					answer, err := firstAnswer(t.Context(), providers, "why")
					if answer != "42" || err != nil || time.Since(began) > row.slowest {
						wrong.Add(1)
					}
				})
				time.Sleep(100 * time.Millisecond)
			}
			all.Wait()
			if int(early.Load()) > row.early || int(late.Load()) > row.late || wrong.Load() > 0 {
				t.Errorf("%s: the first was asked %d times, and later %d times; %d calls were too slow, or failed", name, early.Load(), late.Load(), wrong.Load())
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
