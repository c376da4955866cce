package spec

import (
	"encoding/json"
	"strings"

	"github.com/gobackoff/backoff/internal/asjson"
)

// UnmarshalJSON is [Parse] for encoding/json. It serves programs whose own
// files contain policies. The paths in its errors begin at the Spec.
func (s *Spec) UnmarshalJSON(text []byte) error {
	parsed, err := Parse(text)
	if err == nil {
		*s = parsed
	}
	return err
}

// UnmarshalText is [Parse] for [flag.TextVar], for libraries that read
// environment variables, and for other decoders of strings.
func (s *Spec) UnmarshalText(text []byte) error { return s.UnmarshalJSON(text) }

// UnmarshalYAML is [Parse] for YAML. It serves yaml.v2, yaml.v3 and
// github.com/goccy/go-yaml. The value may also be a string that holds the JSON
// of a policy. The libraries refuse a member that is there twice, except that
// yaml.v2 does so only in its strict mode.
func (s *Spec) UnmarshalYAML(unmarshal func(any) error) error {
	var value any
	if err := unmarshal(&value); err != nil {
		return err
	}
	if text, ok := value.(string); ok && strings.HasPrefix(strings.TrimSpace(text), "{") {
		return s.UnmarshalJSON([]byte(text))
	}
	text, err := asjson.Text(value)
	if err != nil {
		return problem("", err.Error())
	}
	return s.UnmarshalJSON(text)
}

// MarshalJSON returns the shortest text from which [Parse] reads the same Spec.
func (s Spec) MarshalJSON() ([]byte, error) {
	if s.form == nil {
		return nil, errEmpty
	}
	return json.Marshal(s.form)
}

// MarshalText is MarshalJSON for [flag.TextVar] and for other encoders of
// strings. YAML libraries write this string, which UnmarshalYAML reads.
func (s Spec) MarshalText() ([]byte, error) { return s.MarshalJSON() }
