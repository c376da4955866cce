package spec_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheFirstVersionNeedNotBeWritten(t *testing.T) {
	s := parse(t, `{"$schema": "https://example.com/schema.json", "version": 1, "maxAttempts": 3}`)
	require.Equal(t, parse(t, `{"maxAttempts": 3}`), s)
	text, err := json.Marshal(s)
	require.NoError(t, err)
	require.Equal(t, `{"maxAttempts":3}`, string(text))
}

// A later version may have other members, and a program that does not know them
// says that it is out of date.
func TestAnUnknownVersionIsRefusedBeforeEverythingElse(t *testing.T) {
	refuse(t,
		`{"version": 2}`, `version is 2, want 1, the only version that this release reads`,
		`{"version": 0}`, `version is 0, want 1, the only version that this release reads`,
		`{"version": "1"}`, `version is "1", want 1, the only version that this release reads`,
		`{"version": null}`, `version is null, want 1, the only version that this release reads`,
		`{"version": {}}`, `version is an object, want 1, the only version that this release reads`,
		`{"retryOn": ["503"], "version": 2}`, `version is 2, want 1, the only version that this release reads`,
		`{"version": 1, "version": 1}`, `version is there twice`,
		`{"breaker": {"version": 1, "maxProbes": "x"}}`, `breaker.version is not known, want one of failureRate, minCalls, window, windowCalls, consecutiveFailures, consecutiveSpan, slowCall, slowRate, openFor, jitter, maxRetryAfter, maxProbes, probeSuccesses, probeTimeout, rampUp, minAttemptTime`,
		`{"$schema": 1}`, `"$schema" is 1, want a text`,
	)
}
