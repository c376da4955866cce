package recipes

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffslog"
)

// The operation fails three times. newLogger leaves out what is not the same in
// each run.
func Example_log() {
	ctx, logger := context.Background(), newLogger()
	save := func(context.Context) error { return io.ErrUnexpectedEOF }

	policy := backoff.Policy{
		Name:        "save",
		MaxAttempts: 3, // two retries
		Observer:    backoffslog.New(logger, nil),
	}

	policy.Do(ctx, save)
	// Output:
	// level=INFO msg=retry operation=save attempt=1 max_attempts=3 class=retryable error="unexpected EOF" delay=100ms
	// level=INFO msg=retry operation=save attempt=2 max_attempts=3 class=retryable error="unexpected EOF" delay=200ms
	// level=WARN msg="give up" operation=save attempt=3 max_attempts=3 reason=attempts setting=MaxAttempts class=retryable error="unexpected EOF"
}

func newLogger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			switch a.Key {
			case slog.TimeKey, "wait", "slept", "elapsed", "error_type":
				return slog.Attr{}
			}
			return a
		},
	}))
}

// The operation fails once.
func Example_observer() {
	ctx, failures := context.Background(), []error{io.ErrUnexpectedEOF, nil}
	policy := backoff.Policy{
		Schedule: backoff.Constant(5 * time.Millisecond), Jitter: backoff.NoJitter,
		Observer: func(_ context.Context, e backoff.Event) {
			if e.Kind == backoff.EventRetry { // attempt e.Attempt has failed with e.Err, and the next one comes after e.Wait
				fmt.Printf("try %d in %v: %v\n", e.Attempt+1, e.Wait, e.Err)
			}
		},
	}
	policy.Do(ctx, func(context.Context) (err error) {
		err, failures = failures[0], failures[1:]
		return err
	})
	// Output: try 2 in 5ms: unexpected EOF
}

type requestID struct{}

type withID struct{ slog.Handler }

func (h withID) Handle(ctx context.Context, r slog.Record) error {
	if id, ok := ctx.Value(requestID{}).(string); ok {
		r.AddAttrs(slog.String("request_id", id))
	}
	return h.Handler.Handle(ctx, r)
}

// The call has an id in its context, and waits for nothing.
func Example_requestID() {
	ctx := context.WithValue(context.Background(), requestID{}, "r7")
	policy := backoff.Policy{
		MaxAttempts: 2,
		Schedule:    backoff.Constant(0),
		Observer:    backoffslog.New(slog.New(withID{newLogger().Handler()}), nil),
	}
	policy.Do(ctx, func(context.Context) error { return io.ErrUnexpectedEOF })
	// Output:
	// level=INFO msg=retry operation="" attempt=1 max_attempts=2 class=retryable error="unexpected EOF" delay=0s request_id=r7
	// level=WARN msg="give up" operation="" attempt=2 max_attempts=2 reason=attempts setting=MaxAttempts class=retryable error="unexpected EOF" request_id=r7
}
