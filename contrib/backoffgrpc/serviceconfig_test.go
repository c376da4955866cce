package backoffgrpc_test

import (
	"os"
	"slices"
	"strings"
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
				"retryableStatusCodes": ["UNAVAILABLE", "ABORTED", 4]
			}
		},
		{
			"name": [{}],
			"hedgingPolicy": {"maxAttempts": 3, "hedgingDelay": "0.5s", "nonFatalStatusCodes": ["UNAVAILABLE", "UNKNOWN"]}
		}
	],
	"retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}
}`

func TestAServiceConfigBecomesAConfig(t *testing.T) {
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
	c, err := backoffgrpc.ParseServiceConfig([]byte(policy(`"maxAttempts": 9, "initialBackoff": "2s", "maxBackoff": "1s", "backoffMultiplier": 0.5, "retryableStatusCodes": [14]`)))
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

func TestParseServiceConfigRefuses(t *testing.T) {
	const rest = `, "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]`
	for text, want := range map[string]string{
		`nonsense`: "service config",
		`{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 2` + rest + `}, "hedgingPolicy": {"maxAttempts": 2}}]}`: "not both",
		policy(`"maxAttempts": 1` + rest): "retryPolicy.maxAttempts is 1",
		policy(`"maxAttempts": 2, "maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": [14]`):                         "initialBackoff is 0s",
		policy(`"maxAttempts": 2, "initialBackoff": "1s", "maxBackoff": "0s", "backoffMultiplier": 2, "retryableStatusCodes": [14]`): "maxBackoff is 0s",
		policy(`"maxAttempts": 2, "initialBackoff": "1s", "maxBackoff": "1s", "backoffMultiplier": 0, "retryableStatusCodes": [14]`): "backoffMultiplier is 0",
		policy(`"maxAttempts": 2, "initialBackoff": "1s", "maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": []`):   "retryableStatusCodes is empty",
		policy(`"maxAttempts": 2, "initialBackoff": "1s", "maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": [99]`): "invalid code: 99",
		policy(`"maxAttempts": 2, "initialBackoff": "1m"`):                                                                           "no duration",
		`{"methodConfig": [{"name": [{}], "hedgingPolicy": {"maxAttempts": 1}}]}`:                                                    "hedgingPolicy.maxAttempts is 1",
		`{"methodConfig": [{"name": [{}], "hedgingPolicy": {"maxAttempts": 2, "hedgingDelay": "-0.5s"}}]}`:                           "hedgingDelay is -500ms",
		`{"methodConfig": [{"name": [{"method": "m"}]}]}`:                                                                            "without a service",
		`{"methodConfig": [{"name": [{}], "timeout": "0s"}]}`:                                                                        "timeout is 0s",
		`{"methodConfig": [{"name": [{"service": "s"}, {"service": "s"}]}]}`:                                                         "twice",
		`{"methodConfig": [{"name": [{"service": "a/b"}]}]}`:                                                                         "slash",
		policy(`"maxAttempts": 2, "initialBackoff": "1s", "maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": [0]`):  "the code OK",
		policy(`"maxAttempts": 2, "initialBackoff": "315576000001s"`):                                                                "out of range",
		`{"retryThrottling": {"maxTokens": 1.5, "tokenRatio": 0.1}}`:                                                                 "an integer",
		`{"retryThrottling": {"maxTokens": 1001, "tokenRatio": 0.1}}`:                                                                "retryThrottling",
		`{"retryThrottling": {"maxTokens": 10}}`:                                                                                     "retryThrottling",
	} {
		_, err := backoffgrpc.ParseServiceConfig([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
}

// fields has, for each field of a service config that is read, values of all
// kinds. The first one is right.
var fields = map[string][]string{
	"name": {
		`[{"service": "s"}]`, `null`, `[]`, `[null]`, `[{}]`, `{}`, `"s"`, `[{"service": "s", "method": "m"}]`, `[{"method": "m"}]`,
		`[{"service": "s"}, {"service": "s"}]`, `[{"service": "s"}, {"service": "t"}]`, `[{}, {}]`, `[{"service": 1}]`, `[{"service": null}]`,
		`[{"service": "a/b"}]`, `[{"service": "s", "method": ""}]`, `[{"Service": "s"}]`, `[{"service": "s", "other": 1}]`,
	},
	"waitForReady": {`true`, `false`, `null`, `"true"`, `1`},
	"timeout": {
		`"1s"`, `null`, `"0s"`, `"-1s"`, `1`, `"1"`, `""`, `"s"`, `"-s"`, `"1m"`, `"1ms"`, `"1.5s"`, `".5s"`, `"-.5s"`, `"1.s"`, `".s"`, `"1.5.5s"`, `"1e3s"`,
		`" 1s"`, `"1s "`, `"1 s"`, `"+1s"`, `"--1s"`, `"1.+5s"`, `"1.-5s"`, `"0x1s"`, `"1_0s"`, `"1,5s"`, `"١s"`, `"0.000000001s"`, `"0.0000000001s"`,
		`"315576000000s"`, `"315576000000.999999999s"`, `"315576000001s"`, `"-315576000000s"`, `"-315576000001s"`, `"9223372036s"`, `"9223372037s"`,
		`"9223372036854775807s"`, `"9223372036854775808s"`, `"99999999999999999999s"`, `"-99999999999999999999s"`, `"Infinitys"`, `"NaNs"`, `"1S"`, `{}`, `[]`,
	},
	"maxAttempts":       {`2`, `null`, `0`, `1`, `-1`, `5`, `6`, `2.0`, `2.5`, `2e0`, `"2"`, `1e300`, `9223372036854775807`, `9223372036854775808`, `true`},
	"backoffMultiplier": {`2`, `null`, `0`, `-0.0`, `-1`, `0.5`, `1e-320`, `1e308`, `1e309`, `"2"`, `true`},
	"retryableStatusCodes": {
		`["UNAVAILABLE"]`, `null`, `[]`, `[14]`, `[0]`, `[16]`, `[17]`, `[-1]`, `[14.0]`, `[4294967310]`, `["OK"]`, `[null]`, `["unavailable"]`, `["Unavailable"]`,
		`["UNAVAILABLE", "LOST"]`, `["CANCELLED"]`, `["CANCELED"]`, `["DATA_LOSS", "DATA_LOSS"]`, `"UNAVAILABLE"`, `["14"]`, `[" UNAVAILABLE"]`, `[true]`, `{}`,
		`["UNAV\u0041ILABLE"]`,
	},
	"maxTokens":  {`10`, `null`, `0`, `-1`, `1`, `1000`, `1000.5`, `1001`, `1.5`, `0.5`, `1e1`, `10.0`, `1e300`, `"10"`},
	"tokenRatio": {`0.1`, `null`, `0`, `-0.1`, `0.001`, `0.0001`, `1`, `1e300`, `1e309`, `"0.1"`},
}

// written returns a service config with the fields that change has instead of
// the right ones.
func written(change map[string]string) string {
	return os.Expand(`{
		"methodConfig": [{
			"name": $name, "waitForReady": $waitForReady, "timeout": $timeout,
			"retryPolicy": {
				"maxAttempts": $maxAttempts, "initialBackoff": $initialBackoff, "maxBackoff": $maxBackoff,
				"backoffMultiplier": $backoffMultiplier, "retryableStatusCodes": $retryableStatusCodes
			}
		}],
		"retryThrottling": {"maxTokens": $maxTokens, "tokenRatio": $tokenRatio}
	}`, func(field string) string {
		if value, ok := change[field]; ok {
			return value
		}
		return valuesOf(field)[0]
	})
}

func valuesOf(field string) []string {
	if strings.HasSuffix(field, "Backoff") {
		return fields["timeout"]
	}
	return fields[field]
}

// accepts reports whether grpc-go takes a service config.
func accepts(text string) bool {
	conn, err := grpc.NewClient("passthrough:///nowhere", grpc.WithDefaultServiceConfig(text), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err == nil {
		conn.Close()
	}
	return err == nil
}

func TestParseServiceConfigRefusesWhatGRPCRefuses(t *testing.T) {
	stricter := map[string][]string{ // what grpc-go takes, and is nonsense
		"name":                 {`[{"service": "a/b"}]`},
		"timeout":              {`"0s"`, `"--1s"`, `"1.+5s"`, `"1.-5s"`},
		"initialBackoff":       {`"--1s"`, `"1.+5s"`, `"1.-5s"`},
		"maxBackoff":           {`"--1s"`, `"1.+5s"`, `"1.-5s"`},
		"retryableStatusCodes": {`[0]`, `["OK"]`, `[null]`},
		"maxTokens":            {`1.5`, `0.5`},
		"tokenRatio":           {`0.0001`, `1e300`},
	}
	for _, field := range []string{"name", "waitForReady", "timeout", "initialBackoff", "maxBackoff", "maxAttempts", "backoffMultiplier", "retryableStatusCodes", "maxTokens", "tokenRatio"} {
		for _, value := range valuesOf(field) {
			text := written(map[string]string{field: value})
			_, err := backoffgrpc.ParseServiceConfig([]byte(text))
			want := accepts(text) && !slices.Contains(stricter[field], value)
			require.Equal(t, want, err == nil, "%s: %s: %v", field, value, err)
		}
	}
}

func TestAMethodConfigWithoutAPolicyIsNotRetriedAndOneWithoutANameIsIgnored(t *testing.T) {
	for text, methods := range map[string]map[string]backoffgrpc.Method{
		`{"methodConfig": [{"name": [{}], "timeout": "1s"}], "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}}`: {"": {Policy: backoff.Policy{MaxAttempts: 1}, Timeout: time.Second}},
		`{"methodConfig": [{"retryPolicy": {"maxAttempts": 0}}]}`:                                                      {},
	} {
		c, err := backoffgrpc.ParseServiceConfig([]byte(text))
		require.NoError(t, err)
		require.Equal(t, methods, c.Methods)
		require.True(t, accepts(text))
	}
}

func FuzzParseServiceConfig(f *testing.F) {
	f.Add(example)
	f.Add(policy(`"maxAttempts": 1e300, "initialBackoff": "999999999999999999999s"`))
	f.Fuzz(func(t *testing.T, text string) {
		c, err := backoffgrpc.ParseServiceConfig([]byte(text))
		if err == nil {
			require.NoError(t, c.Validate())
		}
	})
}
