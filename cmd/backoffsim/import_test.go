package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/cmd/backoffsim/internal/preview"
	"github.com/gobackoff/backoff/presets"
	"github.com/gobackoff/backoff/spec"
)

// imports runs an import, and returns the policy and the warnings.
func imports(t *testing.T, args ...string) (spec.Spec, []string) {
	t.Helper()
	status, out, err := execute(t, "", append([]string{"import"}, args...)...)
	require.Zero(t, status, err)
	s, parsed := spec.Parse([]byte(out))
	require.NoError(t, parsed)
	var warnings []string
	for line := range strings.Lines(err) {
		_, warning, ok := strings.Cut(strings.TrimSpace(line), ": warning: ")
		require.True(t, ok, line)
		warnings = append(warnings, warning)
	}
	return s, warnings
}

// policyOf returns the policy of a file that has no breaker.
func policyOf(t *testing.T, s spec.Spec) backoff.Policy {
	t.Helper()
	policy, err := s.Policy()
	require.NoError(t, err)
	return policy
}

func TestAServiceConfigBecomesAPolicyFile(t *testing.T) {
	s, warnings := imports(t, "testdata/serviceconfig.json")
	p := policyOf(t, s)
	require.Equal(t, "echo.Echo/Get", p.Name)
	preset := presets.GRPCRetry()
	require.Equal(t, preview.Of(preset, 5), preview.Of(p, 5))
	require.Equal(t, 5, p.MaxAttempts)
	require.EqualValues(t, -1, p.MaxRetryAfter)
	require.Equal(t, presets.NewGRPCThrottling(), p.Budget)
	require.Equal(t, []string{
		"methodConfig[0].retryPolicy.maxAttempts is 7, which gRPC takes as 5",
		"methodConfig[0].retryPolicy.retryableStatusCodes [UNAVAILABLE] is for the program: Policy.Classify, such as plug.OnCode(status.Code, ...)",
		"the policy is that of echo.Echo/List too",
		`methodConfig[0].timeout is left out: "3s"`,
		"methodConfig[0].waitForReady is left out: true",
		`loadBalancingConfig is left out: [{"round_robin":{}}]`,
	}, warnings)
}

func TestAVirtualServiceBecomesAPolicyFile(t *testing.T) {
	s, warnings := imports(t, "testdata/virtualservice.yaml")
	p, istio := policyOf(t, s), presets.Istio()
	require.Equal(t, "v1", p.Name)
	require.Equal(t, istio.MaxAttempts, p.MaxAttempts)
	require.Equal(t, istio.AttemptTimeout, p.AttemptTimeout)
	require.Equal(t, istio.Schedule.Delay(1), p.Schedule.Delay(1))
	require.Equal(t, istio.Schedule.Delay(9), p.Schedule.Delay(9))
	require.Nil(t, p.Budget)
	require.Equal(t, []string{
		`spec.http[0].retries.retryOn is for the program: Policy.Classify, by presets.EnvoyRetryOn("5xx,reset,connect-failure")`,
		"Envoy waits a whole number of milliseconds below the delay, and full jitter any time: see presets.EnvoySource",
		"spec.http[0].timeout 10s ends all attempts together: that is for the context of the call",
		"spec.http[0].retries.retryRemoteLocalities is left out: true",
		"document 2 is neither a service config nor a VirtualService, and left out",
	}, warnings)
	_, err := presets.EnvoyRetryOn("5xx,reset,connect-failure")
	require.NoError(t, err)
}

func TestAShrinkingBackoffBecomesASequence(t *testing.T) {
	path := file(t, "sc.json", `{"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":4,"initialBackoff":"8s","maxBackoff":"4s","backoffMultiplier":0.5,"retryableStatusCodes":[14]}}]}`)
	s, _ := imports(t, path)
	require.Equal(t, backoff.Sequence(4e9, 2e9, 1e9, 0.5e9), policyOf(t, s).Schedule)
}

func TestIstiosBackoffIsTheBaseOfEnvoys(t *testing.T) {
	path := file(t, "vs.yaml", "kind: VirtualService\nspec: {http: [{}, {retries: {attempts: 0, backoff: 100ms, retryOn: 5xx}}]}\n")
	s, _ := imports(t, path)
	p := policyOf(t, s)
	require.Equal(t, 1, p.MaxAttempts)
	require.Equal(t, backoff.Exponential{Initial: 1e8, Max: 1e9}, p.Schedule)
	require.Zero(t, p.AttemptTimeout)
	require.Nil(t, p.AttemptTimeoutSchedule)
}

func TestALeftOutHedgingPolicyIsAWarning(t *testing.T) {
	path := file(t, "sc.json", `{"methodConfig":[{"name":[{"service":"a"}],"retryPolicy":{"maxAttempts":2,"initialBackoff":"1s","maxBackoff":"1s","backoffMultiplier":1,"retryableStatusCodes":[14]}},
		{"name":[{"service":"b"}],"hedgingPolicy":{"maxAttempts":3}}]}`)
	_, warnings := imports(t, path)
	require.Contains(t, warnings, "methodConfig[1].hedgingPolicy is left out: hedging is for the program, by backoff.Hedge")
}

func TestOneOfSeveralIsPicked(t *testing.T) {
	retry := `"retryPolicy":{"maxAttempts":%,"initialBackoff":"1s","maxBackoff":"1s","backoffMultiplier":1,"retryableStatusCodes":[14]}`
	path := file(t, "sc.json", `{"methodConfig":[
		{"name":[{"service":"a"}],`+strings.Replace(retry, "%", "2", 1)+`},
		{"name":[{"service":"b"}]},
		{"name":[{"service":"c","method":"d"},{"service":"e"}],`+strings.Replace(retry, "%", "3", 1)+`}]}`)
	for pick, want := range map[string]int{"a": 2, "c/d": 3, "e": 3} {
		s, _ := imports(t, "-pick", pick, path)
		require.Equal(t, want, policyOf(t, s).MaxAttempts)
	}
	for pick, want := range map[string]string{"": "has 2 policies; -pick one of a, c/d", "b": `has no policy "b"; -pick one of a, c/d`} {
		status, out, err := execute(t, "", "import", "-pick", pick, path)
		require.Equal(t, 2, status)
		require.Equal(t, "backoffsim import: "+path+": "+want+"\n", err)
		require.Empty(t, out)
	}
}

func TestAnImportRefusesWithPathAndValue(t *testing.T) {
	const rest = `"maxAttempts":3,"initialBackoff":"1s","maxBackoff":"1s","backoffMultiplier":2,"retryableStatusCodes":[14]`
	config := func(policy string) string {
		return `{"methodConfig":[{"name":[{"service":"a"}],"retryPolicy":{` + policy + `}}]}`
	}
	without := func(member, instead string) string {
		var kept []string
		for part := range strings.SplitSeq(rest, ",") {
			if !strings.HasPrefix(part, `"`+member+`"`) {
				kept = append(kept, part)
			}
		}
		if instead != "" {
			kept = append(kept, `"`+member+`":`+instead)
		}
		return config(strings.Join(kept, ","))
	}
	istio := func(retries string) string { return "spec: {http: [{retries: {" + retries + "}}]}" }
	for text, want := range map[string]string{
		without("maxAttempts", "1"):            `methodConfig[0].retryPolicy.maxAttempts is 1, want a whole number of 2 or more`,
		without("maxAttempts", "2.5"):          `methodConfig[0].retryPolicy.maxAttempts is 2.5, want a whole number of 2 or more`,
		without("maxAttempts", ""):             `methodConfig[0].retryPolicy.maxAttempts is not there, want a whole number of 2 or more`,
		without("maxAttempts", `"3"`):          `methodConfig[0].retryPolicy.maxAttempts is "3", want a whole number of 2 or more`,
		without("initialBackoff", `"100ms"`):   `methodConfig[0].retryPolicy.initialBackoff is "100ms", want a duration above 0 such as "1.5s"`,
		without("initialBackoff", `"0s"`):      `methodConfig[0].retryPolicy.initialBackoff is "0s", want a duration above 0 such as "1.5s"`,
		without("maxBackoff", `7`):             `methodConfig[0].retryPolicy.maxBackoff is 7, want a duration above 0 such as "1.5s"`,
		without("backoffMultiplier", "-1"):     `methodConfig[0].retryPolicy.backoffMultiplier is -1, want a number above 0`,
		without("backoffMultiplier", "null"):   `methodConfig[0].retryPolicy.backoffMultiplier is null, want a number above 0`,
		without("retryableStatusCodes", "[]"):  `methodConfig[0].retryPolicy.retryableStatusCodes is [], want at least one code`,
		without("retryableStatusCodes", `"x"`): `methodConfig[0].retryPolicy.retryableStatusCodes is "x", want a list of codes`,
		`{"methodConfig": {}}`:                 `methodConfig is {}, want a list`,
		`{"methodConfig": [3]}`:                `methodConfig[0] is 3, want an object`,
		`{"methodConfig": []}`:                 `has no retries: want a gRPC service config with a retryPolicy, or an Istio VirtualService with retries`,
		`{"methodConfig": [], "retryThrottling": {"maxTokens": 0, "tokenRatio": 1}}`:        `retryThrottling.maxTokens is 0, want a whole number from 1 to 1000`,
		`{"methodConfig": [], "retryThrottling": {"maxTokens": 10, "tokenRatio": 0}}`:       `retryThrottling.tokenRatio is 0, want 0.001 or more`,
		`{"methodConfig":[{"name":[{"service":"a"}],"hedgingPolicy":{},"retryPolicy":{}}]}`: `methodConfig[0] has a retryPolicy and a hedgingPolicy: retry or hedge, not both`,
		`{"maxAttempts": 3}`:                     `has no retries: want a gRPC service config with a retryPolicy, or an Istio VirtualService with retries`,
		`[1]`:                                    `the file is [1], want an object`,
		"{\n  \"methodConfig\": [,]\n}":          `line 2, column 20: invalid character ',' looking for beginning of value`,
		"{":                                      `line 1, column 1: unexpected end of JSON input`,
		istio(""):                                `spec.http[0].retries.attempts is not there, want a whole number of 0 or more`,
		istio("attempts: -1"):                    `spec.http[0].retries.attempts is -1, want a whole number of 0 or more`,
		istio("attempts: 3, perTryTimeout: 2"):   `spec.http[0].retries.perTryTimeout is 2, want a duration such as "2s"`,
		istio("attempts: 3, perTryTimeout: -2s"): `spec.http[0].retries.perTryTimeout is "-2s", want a duration such as "2s"`,
		istio("attempts: 3, backoff: 1us"):       `spec.http[0].retries.backoff is "1us", want 1ms or more`,
		istio("attempts: 3, retryOn: [5xx]"):     `spec.http[0].retries.retryOn is ["5xx"], want a text`,
		"spec: {http: 3}":                        `spec.http is 3, want a list`,
		"spec: 3":                                `spec is 3, want an object`,
	} {
		path := file(t, "foreign", text)
		status, out, err := execute(t, "", "import", path)
		require.Equal(t, 2, status, text)
		require.Equal(t, "backoffsim import: "+path+": "+want+"\n", err, text)
		require.Empty(t, out)
	}
}

func TestAnImportedFileCanBeSimulated(t *testing.T) {
	for _, from := range []string{"testdata/serviceconfig.json", "testdata/virtualservice.yaml"} {
		_, out, _ := execute(t, "", "import", from)
		path := file(t, "imported.json", out)
		succeed(t, "policy", "-policy", path)
	}
}

// The warnings of one policy never stand in those of another.
func TestThePolicyThatIsPickedHasItsOwnWarnings(t *testing.T) {
	text := strings.Repeat("a: 1\n---\n", 5) + `
kind: VirtualService
spec:
  http:
  - {name: one, retries: {attempts: 1, retryOn: first}}
  - {name: two, retries: {attempts: 1, retryOn: second}}
`
	_, warnings := imports(t, "-pick", "one", file(t, "several", text))
	require.Contains(t, warnings, `spec.http[0].retries.retryOn is for the program: Policy.Classify, by presets.EnvoyRetryOn("first")`)
	require.Contains(t, warnings, "document 5 is neither a service config nor a VirtualService, and left out")
}

// What a terminal would take for a command is shown, and not sent.
func TestAnImportSendsNoEscapesOfTheFileToTheTerminal(t *testing.T) {
	text := `{"methodConfig": [{"\u001b[31m\n": 1, "name": [{"service": "\u001b[2J"}, {"service": "\u009b2J\u202e"}], "retryPolicy": {
		"maxAttempts": 3, "initialBackoff": "1s", "maxBackoff": "2s", "backoffMultiplier": 2, "retryableStatusCodes": ["\u001b"]}}]}`
	for _, pick := range []string{"", "\x1b"} {
		_, out, err := execute(t, "", "import", "-pick", pick, file(t, "config", text))
		require.NotContains(t, out, "\x1b")
		require.NotRegexp(t, "[\x1b\u009b\u202e]", err)
		require.NotEmpty(t, err)
	}
}
