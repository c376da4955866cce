package spec_test

import (
	"encoding/json"
	"errors"
	"flag"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/spec"
)

func TestASpecThatNothingWasDecodedIntoMakesNothing(t *testing.T) {
	const want = "backoff: spec: no policy was decoded; write {} for the defaults"
	var s spec.Spec
	_, err := s.Policy()
	require.EqualError(t, err, want)
	service, _, err := s.Service()
	require.EqualError(t, err, want)
	require.Nil(t, service)
	_, err = s.MarshalText()
	require.EqualError(t, err, want)
	_, err = json.Marshal(s)
	require.ErrorContains(t, err, want)
}

// decoded is what a YAML library has decoded. Its own error is not changed.
func decoded(value any, err error) func(any) error {
	return func(into any) error {
		*into.(*any) = value
		return err
	}
}

// The real libraries are tested in internal/lab/spectest.
func TestAYAMLValueIsReadAsJSONIs(t *testing.T) {
	for _, value := range []any{
		map[string]any{"maxAttempts": 3, "schedule": map[any]any{"sequence": []any{"1s", "2s"}}},
		map[any]any{"maxAttempts": 3.0, "schedule": map[string]any{"sequence": []any{"1s", "2s"}}},
		" {\"maxAttempts\": 3, \"schedule\": {\"sequence\": [\"1s\", \"2s\"]}}\n",
	} {
		var s spec.Spec
		require.NoError(t, s.UnmarshalYAML(decoded(value, nil)))
		require.Equal(t, parse(t, `{"maxAttempts": 3, "schedule": {"sequence": ["1s", "2s"]}}`), s)
	}
}

func TestAYAMLValueThatIsRefusedLeavesTheSpecAsItWas(t *testing.T) {
	loop := map[string]any{}
	loop["again"] = loop
	own := errors.New("line 2: mapping key is there twice")
	for want, decode := range map[string]func(any) error{
		own.Error(): decoded(nil, own),
		"backoff: spec: the policy has more than 100000 values":                         decoded(loop, nil),
		"backoff: spec: the policy is null, want an object":                             decoded(nil, nil),
		"backoff: spec: the policy is \"fast\", want an object":                         decoded("fast", nil),
		"backoff: spec: shortenLastWait is \"yes\", want true or false":                 decoded(map[string]any{"shortenLastWait": "yes"}, nil),
		"backoff: spec: version is 2, want 1, the only version that this release reads": decoded(map[any]any{"version": 2}, nil),
	} {
		s := parse(t, `{"maxAttempts": 3}`)
		require.EqualError(t, s.UnmarshalYAML(decode), want)
		require.Equal(t, 3, policyOf(t, s).MaxAttempts)
	}
}

func TestAFlagShowsItsDefaultAndRefusesAMistake(t *testing.T) {
	s := parse(t, `{"maxAttempts": 3}`)
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.TextVar(&s, "retry", s, "")
	require.Equal(t, `{"maxAttempts":3}`, flags.Lookup("retry").DefValue)
	require.ErrorContains(t, flags.Parse([]string{"-retry", `{"maxAttempt": 4}`}), "backoff: spec: maxAttempt is not known")
	require.NoError(t, flags.Parse([]string{"-retry", `{"maxAttempts": 4}`}))
	require.Equal(t, 4, policyOf(t, s).MaxAttempts)
}
