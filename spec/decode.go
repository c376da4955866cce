package spec

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/gobackoff/backoff/internal/asjson"
)

// UnmarshalJSON is [Parse] for encoding/json. It serves programs whose own
// files contain policies. No decoder says where in the file a policy is, so the
// paths in errors begin at the Spec, and the name of the policy stands before
// them if it has one. A program that gives its policies no names decodes into a
// map of json.RawMessage, or of any, and adds the key to the error of each.
func (s *Spec) UnmarshalJSON(text []byte) error {
	parsed, err := Parse(text)
	if err == nil {
		*s = parsed
		return nil
	}
	var policy struct{ Name string }
	_ = json.Unmarshal(text, &policy)
	if policy.Name == "" {
		return err
	}
	const prefix = "backoff: spec: "
	return errors.New(strings.ReplaceAll(err.Error(), prefix, prefix+strconv.Quote(shorten(policy.Name))+": "))
}

// UnmarshalText is [Parse] for [flag.TextVar], for libraries that read
// environment variables, and for other decoders of strings.
func (s *Spec) UnmarshalText(text []byte) error { return s.UnmarshalJSON(text) }

// UnmarshalYAML is [Parse] for YAML. It serves yaml.v2, yaml.v3 and
// github.com/goccy/go-yaml. The value may also be a string that holds the JSON
// of a policy. The libraries refuse a member that is there twice, except that
// yaml.v2 does so only in its strict mode. To that end yaml.v3 compares each
// member of an object with all others, before it asks this package: limit the
// size of a stranger's file, or decode it into a yaml.Node and count them.
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
