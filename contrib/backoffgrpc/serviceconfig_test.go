package backoffgrpc_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/contrib/backoffgrpc"
	"github.com/gobackoff/backoff/presets"
)

const example = `{
	"loadBalancingConfig": [{"round_robin": {}}],
	"methodConfig": [
		{
			"name": [{"service": "pkg.Svc", "method": "Get"}, {"service": "pkg.Other"}],
			"timeout": "10s",
			"waitForReady": true,
			"retryPolicy": {
				"maxAttempts": 4, "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2,
				"retryableStatusCodes": ["UNAVAILABLE", "aborted", 4]
			}
		},
		{
			"name": [{}],
			"hedgingPolicy": {"maxAttempts": 3, "hedgingDelay": "0.5s", "nonFatalStatusCodes": ["UNAVAILABLE", "UNKNOWN"]}
		}
	],
	"retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}
}`

// Rows 56, 57 and 60.
func TestParseServiceConfig(t *testing.T) {
	c, err := backoffgrpc.ParseServiceConfig([]byte(example))
	require.NoError(t, err)
	require.NoError(t, c.Validate())
	require.Len(t, c.Methods, 3)
	m := c.Methods["/pkg.Svc/Get"]
	require.Equal(t, 10*time.Second, m.Timeout)
	require.True(t, *m.WaitForReady)
	require.Nil(t, m.Hedge)
	require.Equal(t, "pkg.Svc/Get", m.Policy.Name)
	require.Equal(t, 4, m.Policy.MaxAttempts)
	require.Equal(t, presets.GRPCRetry().Schedule, backoff.Exponential{Initial: 100 * time.Millisecond, Max: time.Second})
	for retry := 1; retry < 9; retry++ {
		require.Equal(t, presets.GRPCRetry().Schedule.Delay(retry), m.Policy.Schedule.Delay(retry))
	}
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		want := code == codes.Unavailable || code == codes.Aborted || code == codes.DeadlineExceeded
		require.Equal(t, want, m.Policy.Retryable(status.Error(code, "")), "%v", code)
	}
	h := c.Methods[""].Hedge
	require.Equal(t, 3, h.MaxAttempts)
	require.Equal(t, 500*time.Millisecond, h.Delay)
	require.Equal(t, backoff.ClassRetryable, h.Classify(status.Error(codes.Unknown, "")))
	require.Equal(t, backoff.ClassPermanent, h.Classify(status.Error(codes.Aborted, "")))
	require.Same(t, h.Budget, m.Policy.Budget, "one for all")
	require.Equal(t, 10, m.Policy.Budget.(*presets.GRPCThrottling).MaxTokens)
	require.Contains(t, c.Methods, "/pkg.Other/")
}

func policy(change string) string {
	return `{"methodConfig": [{"name": [{"service": "s"}], "retryPolicy": {` + change + `}}]}`
}

func TestParseServiceConfigTakesMoreThanFiveAttemptsAsFive(t *testing.T) {
	c, err := backoffgrpc.ParseServiceConfig([]byte(policy(`"maxAttempts": 9.0, "initialBackoff": "2s", "maxBackoff": "1s", "backoffMultiplier": 0.5, "retryableStatusCodes": [14]`)))
	require.NoError(t, err)
	p := c.Methods["/s/"].Policy
	require.Equal(t, 5, p.MaxAttempts)
	require.NoError(t, p.Validate())
	require.Equal(t, time.Second, p.Schedule.Delay(1), "the cap holds from the beginning")
	require.Equal(t, 250*time.Millisecond, p.Schedule.Delay(3), "a multiplier below 1")
	require.Zero(t, p.Schedule.Delay(0))
	c, err = backoffgrpc.ParseServiceConfig([]byte(`{"methodConfig": [{"name": [{}], "hedgingPolicy": {"maxAttempts": 9}}]}`))
	require.NoError(t, err)
	require.Equal(t, 5, c.Methods[""].Hedge.MaxAttempts)
	require.Negative(t, c.Methods[""].Hedge.Delay, "all at once")
}

// Row 58 among them.
func TestParseServiceConfigRefuses(t *testing.T) {
	const rest = `, "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]`
	for text, want := range map[string]string{
		`nonsense`: "service config",
		`{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 2` + rest + `}, "hedgingPolicy": {"maxAttempts": 2}}]}`: "not both",
		policy(`"maxAttempts": 1` + rest):   "retryPolicy.maxAttempts is 1",
		policy(`"maxAttempts": 2.5` + rest): "no integer",
		policy(rest[2:]):                    "retryPolicy.maxAttempts is 0",
		policy(`"maxAttempts": 2, "maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": [14]`):                             "initialBackoff is 0s",
		policy(`"maxAttempts": 2, "initialBackoff": "-1s", "maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": [14]`):    "initialBackoff is -1s",
		policy(`"maxAttempts": 2, "initialBackoff": "1s", "maxBackoff": "0s", "backoffMultiplier": 2, "retryableStatusCodes": [14]`):     "maxBackoff is 0s",
		policy(`"maxAttempts": 2, "initialBackoff": "1s", "maxBackoff": "1s", "backoffMultiplier": 0, "retryableStatusCodes": [14]`):     "backoffMultiplier is 0",
		policy(`"maxAttempts": 2, "initialBackoff": "1s", "maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": []`):       "retryableStatusCodes is empty",
		policy(`"maxAttempts": 2, "initialBackoff": "1s", "maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": [99]`):     "no status code",
		policy(`"maxAttempts": 2, "initialBackoff": "1s", "maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": ["LOST"]`): "no status code",
		policy(`"maxAttempts": 2, "initialBackoff": "1m"`):                                                                               "no duration",
		policy(`"maxAttempts": 2, "initialBackoff": 1`):                                                                                  "no duration",
		`{"methodConfig": [{"name": [{}], "hedgingPolicy": {"maxAttempts": 1}}]}`:                                                        "hedgingPolicy.maxAttempts is 1",
		`{"methodConfig": [{"name": [{}], "hedgingPolicy": {"maxAttempts": 2, "hedgingDelay": "-0.5s"}}]}`:                               "hedgingDelay is -500ms",
		`{"methodConfig": [{"name": [{"method": "m"}]}]}`:                                                                                "without a service",
		`{"methodConfig": [{"name": [{"service": "s"}, {"service": "s"}]}]}`:                                                             "twice",
		`{"methodConfig": [{"name": [{"service": "a/b"}]}]}`:                                                                             "slash",
		policy(`"maxAttempts": 2, "initialBackoff": "1s", "maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": [0]`):      "no status code",
		`{"retryThrottling": {"maxTokens": 1001, "tokenRatio": 0.1}}`:                                                                    "retryThrottling",
		`{"retryThrottling": {"maxTokens": 10}}`:                                                                                         "retryThrottling",
	} {
		_, err := backoffgrpc.ParseServiceConfig([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
}

func TestServiceConfigGoesBothWays(t *testing.T) {
	c, err := backoffgrpc.ParseServiceConfig([]byte(example))
	require.NoError(t, err)
	text, err := c.ServiceConfig()
	require.NoError(t, err)
	require.JSONEq(t, `{"methodConfig": [
		{"name": [{}], "hedgingPolicy": {"maxAttempts": 3, "hedgingDelay": "0.5s", "nonFatalStatusCodes": ["UNKNOWN", "UNAVAILABLE"]}},
		{"name": [{"service": "pkg.Other"}], "timeout": "10s", "waitForReady": true, "retryPolicy": {"maxAttempts": 4, "initialBackoff": "0.1s",
			"maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": ["DEADLINE_EXCEEDED", "ABORTED", "UNAVAILABLE"]}},
		{"name": [{"service": "pkg.Svc", "method": "Get"}], "timeout": "10s", "waitForReady": true, "retryPolicy": {"maxAttempts": 4, "initialBackoff": "0.1s",
			"maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": ["DEADLINE_EXCEEDED", "ABORTED", "UNAVAILABLE"]}}
	], "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}}`, string(text))
	again, err := backoffgrpc.ParseServiceConfig(text)
	require.NoError(t, err)
	text2, err := again.ServiceConfig()
	require.NoError(t, err)
	require.Equal(t, string(text), string(text2))

	// grpc-go itself accepts it.
	conn, err := grpc.NewClient("passthrough:///nowhere", grpc.WithDefaultServiceConfig(string(text)), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	conn.Close()
}

func TestServiceConfigOfDefaults(t *testing.T) {
	shrinking, err := backoffgrpc.ParseServiceConfig([]byte(policy(`"maxAttempts": 2, "initialBackoff": "1s", "maxBackoff": "1s", "backoffMultiplier": 0.5, "retryableStatusCodes": [14]`)))
	require.NoError(t, err)
	shrinking.Methods[""] = backoffgrpc.Method{Policy: &backoff.Policy{MaxAttempts: -1}}
	shrinking.Methods["/a/b"] = backoffgrpc.Method{Policy: &backoff.Policy{MaxAttempts: 1}}
	shrinking.Methods["/a/c"] = backoffgrpc.Method{Hedge: &backoff.Hedge{MaxAttempts: 1}}
	shrinking.Methods["/a/d"] = backoffgrpc.Method{Hedge: &backoff.Hedge{Delay: -1}}
	text, err := shrinking.ServiceConfig()
	require.NoError(t, err)
	require.JSONEq(t, `{"methodConfig": [
		{"name": [{}], "retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.1s", "maxBackoff": "30s", "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}},
		{"name": [{"service": "a", "method": "b"}]},
		{"name": [{"service": "a", "method": "c"}]},
		{"name": [{"service": "a", "method": "d"}], "hedgingPolicy": {"maxAttempts": 2, "nonFatalStatusCodes": ["UNAVAILABLE"]}},
		{"name": [{"service": "s"}], "retryPolicy": {"maxAttempts": 2, "initialBackoff": "1s", "maxBackoff": "1s", "backoffMultiplier": 0.5, "retryableStatusCodes": ["UNAVAILABLE"]}}
	]}`, string(text))
}

func TestServiceConfigRefusesWhatItCannotSay(t *testing.T) {
	for want, m := range map[string]backoffgrpc.Method{
		"no other Schedule":    {Policy: &backoff.Policy{Schedule: backoff.Constant(time.Second)}},
		"Delay that is":        {Hedge: &backoff.Hedge{}},
		"one GRPCThrottling":   {Policy: &backoff.Policy{Budget: &backoff.RetryBudget{}}},
		"not both":             {Policy: &backoff.Policy{}, Hedge: &backoff.Hedge{}},
		"retryableStatusCodes": {Policy: &backoff.Policy{Classify: func(error) backoff.Class { return backoff.ClassPermanent }}},
	} {
		_, err := (&backoffgrpc.Config{Methods: map[string]backoffgrpc.Method{"/a/b": m}}).ServiceConfig()
		require.ErrorContains(t, err, want)
	}
	_, err := (&backoffgrpc.Config{Methods: map[string]backoffgrpc.Method{
		"/a/b": {Policy: &backoff.Policy{Budget: presets.NewGRPCThrottling()}},
		"/a/c": {Policy: &backoff.Policy{Budget: presets.NewGRPCThrottling()}},
	}}).ServiceConfig()
	require.ErrorContains(t, err, "one GRPCThrottling")
}

func FuzzParseServiceConfig(f *testing.F) {
	f.Add(example)
	f.Add(policy(`"maxAttempts": 1e300, "initialBackoff": "999999999999999999999s"`))
	f.Fuzz(func(t *testing.T, text string) {
		c, err := backoffgrpc.ParseServiceConfig([]byte(text))
		if err == nil {
			require.NoError(t, c.Validate())
			_, err = c.ServiceConfig()
			require.NoError(t, err)
		}
	})
}
