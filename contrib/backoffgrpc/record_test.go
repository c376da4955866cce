package backoffgrpc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffmetrics"
	"github.com/gobackoff/backoff/backoffslog"
)

// What the documents ask for of a retry is in the record and the series of a
// real call, with the code that the server sent.
func TestARetryIsLoggedAndCountedWithItsCode(t *testing.T) {
	s := &service{unary: func(ctx context.Context, n int) error {
		if n == 2 {
			grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", "70", "x-amzn-requestid", "7f1c-42"))
		}
		return fails(2, codes.Unavailable)(ctx, n)
	}}
	var out bytes.Buffer
	var m backoffmetrics.Metrics
	addr := s.serve(t)
	require.NoError(t, call(t, dial(t, addr, retrying(func(p *backoff.Policy) {
		p.Name, p.MaxAttempts, p.Schedule, p.Rand = "checkout", 6, backoff.Linear{Initial: 40 * time.Millisecond}, func() float64 { return 0.75 }
		p.Observer = backoff.JoinObservers(m.Observe, backoffslog.New(slog.New(slog.NewJSONHandler(&out, nil)), nil))
	}))))
	type record struct {
		Msg, Operation, Endpoint, Class string
		ErrorType                       string `json:"error_type"`
		Attempt                         int
		MaxAttempts                     int `json:"max_attempts"`
		Delay, Wait, Slept              time.Duration
		RetryAfter                      time.Duration `json:"retry_after"`
		Header                          map[string]string
	}
	var records []record
	for d := json.NewDecoder(&out); d.More(); {
		var r record
		require.NoError(t, d.Decode(&r))
		records = append(records, r)
	}
	require.Len(t, records, 3)
	endpoint := addr + "/grpc.testing.TestService/UnaryCall"
	slept := records[1].Slept
	require.GreaterOrEqual(t, slept, 30*time.Millisecond)
	require.GreaterOrEqual(t, records[2].Slept, 70*time.Millisecond)
	require.Equal(t, record{
		Msg: "retry", Operation: "checkout", Endpoint: endpoint, Class: "retryable", ErrorType: "UNAVAILABLE", Attempt: 1, MaxAttempts: 6,
		Delay: 40 * time.Millisecond, Wait: 30 * time.Millisecond, Header: map[string]string{"grpc-status": "14"},
	}, records[0])
	require.Equal(t, record{
		Msg: "retry", Operation: "checkout", Endpoint: endpoint, Class: "retryable", ErrorType: "UNAVAILABLE", Attempt: 2, MaxAttempts: 6,
		Delay: 80 * time.Millisecond, Wait: 70 * time.Millisecond, Slept: slept, RetryAfter: 70 * time.Millisecond,
		Header: map[string]string{"grpc-status": "14", "grpc-retry-pushback-ms": "70", "x-amzn-requestid": "7f1c-42"},
	}, records[1], "a pushback is waited exactly")

	for _, f := range m.Families() {
		if f.Name == "backoff_retries_total" {
			require.Equal(t, []backoffmetrics.Sample{{Labels: []string{"operation", "checkout", "endpoint", endpoint, "class", "retryable"}, Value: 2}}, f.Samples)
		}
	}
}
