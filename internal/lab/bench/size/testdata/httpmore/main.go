// Command httpmore is http under a policy that uses what the library has
// besides Do: values, stacks, the range loop, schedules and jitters, markers,
// hints, keys, delays.
package main

import (
	"context"
	"net/http"
	"os"
	"time"

	"github.com/gobackoff/backoff"
)

var policy = backoff.Policy{
	Name:           "get",
	MaxElapsed:     time.Minute,
	AttemptTimeout: 5 * time.Second,
	Schedule:       backoff.Truncate(backoff.Linear{}, time.Second),
	Jitter:         backoff.DecorrelatedJitter(0, 0),
	Idempotency:    backoff.Conditional(func(context.Context) bool { return true }),
	Classify:       backoff.RetryIf(func(error) bool { return true }),
	Observer:       func(_ context.Context, e backoff.Event) { println(e.Kind.String(), e.Reason.String()) },
}

func main() {
	ctx := backoff.WithIdempotencyKey(context.Background(), "")
	code, err := backoff.DoValue(ctx, backoff.Stack(&policy, &backoff.Policy{
		Schedule: backoff.Sequence(time.Second, time.Minute),
		Jitter:   backoff.UniformJitter(0.5, 1.5),
	}), func(ctx context.Context) (int, error) {
		return get(ctx, os.Args[1])
	})
	if err != nil {
		println(err.Error())
	}
	run := policy.Start(ctx)
	for range run.Attempts() {
		if code, err = get(run.Context(), os.Args[1]); err == nil {
			break
		}
		run.Fail(err)
	}
	println(code, policy.Delay(1))
	if run.Err() != nil || policy.Validate() != nil {
		os.Exit(1)
	}
}

func get(ctx context.Context, url string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, backoff.Permanent(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	if resp.StatusCode == http.StatusServiceUnavailable {
		err = backoff.RetryAfter(http.ErrServerClosed, time.Second)
	}
	resp.Body.Close()
	return resp.StatusCode, err
}
