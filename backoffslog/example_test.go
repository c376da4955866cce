package backoffslog_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffslog"
)

// timeless is a handler for examples, so that their output is always the same.
func timeless() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "slept" || a.Key == "elapsed" {
				return slog.Attr{}
			}
			return a
		},
	}))
}

func ExampleNew() {
	policy := backoff.Policy{
		Name: "fetch", Schedule: backoff.Constant(time.Millisecond), Jitter: backoff.NoJitter, MaxAttempts: 2,
		Observer: backoffslog.New(timeless(), nil),
	}
	policy.Do(context.Background(), func(context.Context) error { return errors.New("no answer") })
	// Output:
	// level=INFO msg=retry operation=fetch attempt=1 max_attempts=2 class=unknown error="no answer" error_type=*errors.errorString delay=1ms wait=1ms
	// level=WARN msg="give up" operation=fetch attempt=2 max_attempts=2 reason=attempts setting=MaxAttempts class=unknown error="no answer" error_type=*errors.errorString
}

// Retries are of interest when debugging. A budget's refusal is of interest to
// the operator on call.
func ExampleOptions() {
	observer := backoffslog.New(timeless(), &backoffslog.Options{
		PerSecond: 1,
		Headers:   []string{"X-Request-Id"},
		Level: func(e backoff.Event) slog.Level {
			switch {
			case e.Kind == backoff.EventRetry:
				return slog.LevelDebug
			case e.Reason == backoff.ReasonBudget:
				return slog.LevelError
			}
			return backoffslog.DefaultLevel(e)
		},
	})
	observer(context.Background(), backoff.Event{Kind: backoff.EventGiveUp, Name: "fetch", Reason: backoff.ReasonBudget, Attempt: 1})
	// The next one is too many for the second.
	observer(context.Background(), backoff.Event{Kind: backoff.EventGiveUp, Name: "fetch", Reason: backoff.ReasonBudget, Attempt: 1})
	// Output:
	// level=ERROR msg="give up" operation=fetch attempt=1 reason=budget setting=Budget
}
