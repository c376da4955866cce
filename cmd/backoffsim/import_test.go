package main

import (
	"strings"
	"testing"
	"time"

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
	s, warnings := imports(t, "-pick", "echo.Echo/Get", "testdata/serviceconfig.json")
	p := policyOf(t, s)
	require.Equal(t, "echo.Echo/Get", p.Name)
	preset := presets.GRPCRetry()
	require.Equal(t, preview.Of(preset, 5), preview.Of(p, 5))
	require.Equal(t, 5, p.MaxAttempts)
	require.EqualValues(t, -1, p.MaxRetryAfter)
	require.Equal(t, presets.NewGRPCThrottling(), p.Budget)
	require.Equal(t, []string{
		"which status codes are retried is for the program: backoffgrpc.ParseServiceConfig makes its Policy.Classify",
		"the timeout of 3s ends all attempts together: that is for the context of the call",
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
		"which host gets a retry is left out",
		"document 2 is neither a service config nor a VirtualService nor a DestinationRule, and left out",
	}, warnings)
	_, err := presets.EnvoyRetryOn("5xx,reset,connect-failure")
	require.NoError(t, err)
}

func TestADestinationRuleBecomesABreaker(t *testing.T) {
	path := file(t, "rule.yaml", `
kind: DestinationRule
spec:
  host: ratings
  trafficPolicy:
    outlierDetection: {consecutive5xxErrors: 5, interval: 30s, baseEjectionTime: 30s}
    portLevelSettings: []
  subsets: [{name: v1, trafficPolicy: {outlierDetection: {consecutive5xxErrors: 0}}}, {name: v2, trafficPolicy: {outlierDetection: {consecutive5xxErrors: 0, consecutiveGatewayErrors: 7, baseEjectionTime: 10m}}}]
`)
	s, warnings := imports(t, "-pick", "ratings", path)
	service, policy, err := s.Service()
	require.NoError(t, err)
	breaker := service.Breaker
	require.Equal(t, 1, policy.MaxAttempts)
	want := presets.IstioOutlierDetection()
	want.Name, breaker.Jitter, want.Jitter = "ratings", nil, nil
	require.Equal(t, want, breaker)
	require.Len(t, warnings, 3)
	s, warnings = imports(t, "-pick", "v2", path)
	service, _, _ = s.Service()
	breaker = service.Breaker
	require.Equal(t, 7, breaker.ConsecutiveFailures)
	require.Equal(t, backoff.Linear{Initial: 10 * time.Minute, Max: 10 * time.Minute}, breaker.OpenFor)
	require.Len(t, warnings, 3)
	_, _, text := execute(t, "", "import", path)
	require.Contains(t, text, "has 2 policies; -pick one of ratings, v2\n", "v1 ejects nothing")
}

func TestAShrinkingBackoffBecomesASequence(t *testing.T) {
	path := file(t, "sc.json", `{"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":4,"initialBackoff":"8s","maxBackoff":"4s","backoffMultiplier":0.5,"retryableStatusCodes":[14]}}]}`)
	s, _ := imports(t, path)
	require.Equal(t, backoff.Sequence(4e9, 2e9, 1e9), policyOf(t, s).Schedule)
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
	for pick, want := range map[string]string{"": "has 3 policies; -pick one of a, c/d, e", "b": `has no policy "b"; -pick one of a, c/d, e`} {
		status, out, err := execute(t, "", "import", "-pick", pick, path)
		require.Equal(t, 2, status)
		require.Equal(t, "backoffsim import: "+path+": "+want+"\n", err)
		require.Empty(t, out)
	}
}

func TestAnImportRefusesWhatItCannotRead(t *testing.T) {
	istio := func(retries string) string { return "spec: {http: [{retries: {" + retries + "}}]}" }
	for text, want := range map[string]string{
		`{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 1}}]}`: `methodConfig[0]: retryPolicy.maxAttempts is 1, want 2 or more`,
		`{"methodConfig": []}`:                   `has nothing to import: want a gRPC service config with a retryPolicy, an Istio VirtualService with retries, or a DestinationRule with outlierDetection`,
		`{"maxAttempts": 3}`:                     `has nothing to import: want a gRPC service config with a retryPolicy, an Istio VirtualService with retries, or a DestinationRule with outlierDetection`,
		"{\n  \"methodConfig\": [,]\n}":          `invalid character ',' looking for beginning of value`,
		istio(""):                                `spec.http[0].retries: attempts is missing or out of range, want 0 or more`,
		istio("attempts: -1"):                    `spec.http[0].retries: attempts is missing or out of range, want 0 or more`,
		istio("attempts: 3, perTryTimeout: -2s"): `spec.http[0].retries: perTryTimeout is "-2s", want a duration of 1ms or more, such as 2s`,
		istio("attempts: 3, backoff: 1us"):       `spec.http[0].retries: backoff is "1us", want a duration of 1ms or more, such as 2s`,
		"kind: DestinationRule\nspec: {host: a, trafficPolicy: {outlierDetection: {interval: '5'}}}": `outlierDetection of a: interval is "5"`,
		istio("attempts: 3, retryOn: [5xx]"): `spec: json: cannot unmarshal array into Go struct field`,
	} {
		path := file(t, "foreign", text)
		status, out, err := execute(t, "", "import", path)
		require.Equal(t, 2, status, text)
		require.Contains(t, err, "backoffsim import: "+path+": "+want, text)
		require.Empty(t, out)
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
	require.Contains(t, warnings, "document 5 is neither a service config nor a VirtualService nor a DestinationRule, and left out")
}

// What a terminal would take for a command is shown, and not sent.
func TestAnImportSendsNoEscapesOfTheFileToTheTerminal(t *testing.T) {
	text := `{"methodConfig": [{"name": [{"service": "\u001b[2J"}, {"service": "\u009b2J\u202e"}], "retryPolicy": {
		"maxAttempts": 3, "initialBackoff": "1s", "maxBackoff": "2s", "backoffMultiplier": 2, "retryableStatusCodes": [14]}}]}`
	for _, pick := range []string{"", "\x1b", "\x1b[2J"} {
		_, out, err := execute(t, "", "import", "-pick", pick, file(t, "config", text))
		require.NotContains(t, out, "\x1b")
		require.NotRegexp(t, "[\x1b\u009b\u202e]", err)
		require.NotEmpty(t, err)
	}
}
