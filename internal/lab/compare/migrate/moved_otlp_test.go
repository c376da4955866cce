package migrate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	cenkalti "github.com/cenkalti/backoff/v5"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/presets"
)

// OpenTelemetry's exporters for OTLP, v1.47.0: six modules with the same loop, which
// asks cenkalti's for waits, and has a function for the tests to replace its wait.

var otlp = []move{
	{
		program: "OTLP exporters", sites: 6, place: "Export, 503 again and again",
		script: times(1, answer{status: 503}), limit: time.Minute, before: waitingExport(byDefault, upload), here: export(byDefault),
		was:    outcome{attempts: [2]float64{5, 8}, gaps: [2]float64{2.5, 45}, sees: "last failure"},
		is:     outcome{attempts: [2]float64{5, 8}, gaps: [2]float64{0, 38}, sees: "last failure, limit"},
		better: []reason{keepsLimit, saysWhy},
	},
	{
		program: "OTLP exporters", place: "Export, 429 with Retry-After: 20",
		script: []answer{{status: 429, after: 20 * time.Second}, {status: 200}}, before: waitingExport(byDefault, upload), here: export(byDefault),
		was:    outcome{attempts: exactly(2), gaps: exactly(20), sees: "done"},
		is:     outcome{attempts: exactly(2), gaps: [2]float64{20, 22}, sees: "done"},
		better: []reason{spreads},
	},
	{
		program: "OTLP exporters", place: "Export, Retry-After beyond the limit",
		script: times(1, answer{status: 503, after: 90 * time.Second}), before: waitingExport(byDefault, upload), here: export(byDefault),
		was:    outcome{attempts: exactly(1), sees: "last failure"},
		is:     outcome{attempts: exactly(1), sees: "last failure, limit"},
		better: []reason{saysWhy},
	},
	{
		program: "OTLP exporters", place: "Export, a final response",
		script: times(1, answer{status: 400}), before: waitingExport(byDefault, upload), here: export(byDefault),
		was: outcome{attempts: exactly(1), sees: "last failure"},
	},
	{
		program: "OTLP exporters", place: "Export with a RetryConfig of 0 s, 503 four times",
		script: append(times(4, answer{status: 503}), answer{status: 200}), before: waitingExport(zeros, upload), here: export(zeros),
		was: outcome{attempts: exactly(5), sees: "done"},
	},
	{
		program: "OTLP exporters", place: "Export over gRPC, ResourceExhausted with a RetryInfo of 20 s",
		script: []answer{{err: exhausted(20 * time.Second), after: 20 * time.Second}, {}}, before: waitingExport(byDefault, overGRPC), here: exportOverGRPC,
		was:    outcome{attempts: exactly(2), gaps: exactly(20), sees: "done"},
		is:     outcome{attempts: exactly(2), gaps: [2]float64{20, 22}, sees: "done"},
		better: []reason{spreads},
	},
	{
		program: "OTLP exporters", place: "Export over gRPC, ResourceExhausted without a RetryInfo",
		script: times(1, answer{err: exhausted(0)}), before: waitingExport(byDefault, overGRPC), here: exportOverGRPC,
		was: outcome{attempts: exactly(1), sees: "last failure"},
	},
	{
		program: "OTLP exporters", place: "Export, shut down while it waits",
		script: times(1, answer{status: 503}), cancel: time.Second, before: waitingExport(byDefault, upload), here: export(byDefault),
		was:    outcome{attempts: exactly(1), sees: "last failure, cause"},
		is:     outcome{attempts: exactly(1), sees: "last failure, cancelled, cause"},
		better: []reason{saysWhy},
	},
}

// An exportConfig is what a user sets, where 0 is 0: the RetryConfig of the
// program.
type exportConfig struct {
	Enabled                                      bool
	InitialInterval, MaxInterval, MaxElapsedTime time.Duration
}

var (
	byDefault = exportConfig{true, 5 * time.Second, 30 * time.Second, time.Minute}
	zeros     = exportConfig{Enabled: true}
)

type throttledError struct {
	error
	after time.Duration
}

// upload sends one batch. Its second result tells whether it may be sent again.
func upload(ctx context.Context, r *remote) (error, bool) {
	resp, err := r.post(ctx, &http.Client{Transport: r})
	if err != nil {
		return err, false
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case 200:
		return nil, false
	case 429, 502, 503, 504:
		after, _ := backoffhttp.RetryAfter(resp)
		return throttledError{fmt.Errorf("status %d", resp.StatusCode), after}, true
	}
	return fmt.Errorf("status %d", resp.StatusCode), false
}

// waitFor is replaced in the tests of the program.
var waitFor = func(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// overGRPC is upload over gRPC.
func overGRPC(ctx context.Context, r *remote) (error, bool) {
	err := r.call(ctx)
	again, after := grpcAgain(err)
	if err != nil {
		err = throttledError{err, after}
	}
	return err, again
}

// grpcAgain tells whether a batch may be sent again, and when.
func grpcAgain(err error) (bool, time.Duration) {
	s := status.Convert(err)
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			return true, info.GetRetryDelay().AsDuration()
		}
	}
	return s.Code() == codes.Unavailable, 0
}

// exhausted is the status of a server that has no room. It says when to come
// back, unless that is 0.
func exhausted(after time.Duration) error {
	s := status.New(codes.ResourceExhausted, "full")
	if after > 0 {
		s, _ = s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(after)})
	}
	return s.Err()
}

func exportOverGRPC(ctx context.Context, r *remote) (string, error) {
	policy, err := presets.OTLPRetry(byDefault).Policy()
	if err != nil {
		return "", err
	}
	return done(policy.Do(ctx, func(ctx context.Context) error {
		err := r.call(ctx)
		again, after := grpcAgain(err)
		if !again {
			return backoff.Permanent(err)
		}
		return backoff.RetryAfter(err, after)
	}))
}

func waitingExport(c exportConfig, upload func(context.Context, *remote) (error, bool)) form {
	return func(ctx context.Context, r *remote) (string, error) {
		waits := &cenkalti.ExponentialBackOff{
			InitialInterval:     c.InitialInterval,
			RandomizationFactor: cenkalti.DefaultRandomizationFactor,
			Multiplier:          cenkalti.DefaultMultiplier,
			MaxInterval:         c.MaxInterval,
		}
		waits.Reset()
		for began := time.Now(); ; {
			err, again := upload(ctx, r)
			if err == nil {
				return "done", nil
			}
			if !again {
				return "", err
			}
			var throttled throttledError
			errors.As(err, &throttled)
			if c.MaxElapsedTime != 0 && time.Since(began)+throttled.after > c.MaxElapsedTime {
				return "", fmt.Errorf("out of time: %w", err)
			}
			if ended := waitFor(ctx, max(throttled.after, waits.NextBackOff())); ended != nil {
				return "", fmt.Errorf("%w: %w", ended, err)
			}
		}
	}
}

func export(c exportConfig) form {
	return func(ctx context.Context, r *remote) (string, error) {
		policy, err := presets.OTLPRetry(c).Policy()
		if err != nil {
			return "", err
		}
		policy.Classify = presets.HTTPStatus(429, 502, 503, 504)
		return done(policy.Do(ctx, func(ctx context.Context) error {
			resp, err := r.post(ctx, &http.Client{Transport: r})
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			return backoffhttp.Check(resp, backoffhttp.Status2xx)
		}))
	}
}
