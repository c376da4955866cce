package spec_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/spec"
)

// Whatever the text: either an error whose lines say what it is of, or objects that their own
// Validate accepts, and a text that says the same.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		`{"name":"fetch","maxAttempts":4,"maxElapsed":"30s","attemptTimeout":"2s","idempotency":"keyed"}`,
		`{"schedule":{"truncated":{"schedule":{"exponential":{"initial":"1ms","multiplier":1.5}},"max":-1}}}`,
		`{"jitter":{"uniform":{"low":0.8,"high":1.2}},"breaker":{"openFor":{"sequence":["1s","2s"]},"consecutiveFailures":-1}}`,
		`{"budget":{"all":["aws-retry-quota",{"retry":{"ratio":0.1}},{"rate":{"limit":2.5}}]}}`,
		`{"schedule":{"linear":{}},"jitter":{"decorrelated":{}},"maxAttempts":-1}`,
		`{"byClass":{"throttled":{"schedule":{"exponential":{"initial":"1s"}},"maxAttempts":10,"jitter":"equal"},"unknown":{}}}`,
		`{"maxAttempts":3,"maxAttempts":4}`, `{"schedule":null}`, `{"a":`, `-0`,
		`{"$schema":"x","version":1}`, "{\"version\":[\n2]}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := spec.Parse([]byte(text))
		if err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				require.True(t, strings.HasPrefix(line, "backoff: spec: "), line)
			}
			return
		}
		service, policy, err := s.Service()
		require.NoError(t, err)
		require.NoError(t, service.With(policy).Validate())
		policy.Delay(3)
		again, err := json.Marshal(s)
		require.NoError(t, err)
		same, err := spec.Parse(again)
		require.NoError(t, err)
		require.Equal(t, s, same)
	})
}
