package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gobackoff/backoff/spec"
)

// load reads a policy file in JSON or YAML. The path "-" is the standard input.
func (t *terminal) load(path string) (spec.Spec, error) {
	text, err := t.readInput(path)
	if err != nil {
		return spec.Spec{}, err
	}
	s, err := parseSpec(text)
	if err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// readInput reads a file, or the standard input if the path is "-".
func (t *terminal) readInput(path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(t.in)
	}
	return os.ReadFile(path)
}

// parseSpec parses a policy file by the rules of package spec.
func parseSpec(text []byte) (spec.Spec, error) {
	documents, err := readDocuments(text)
	if err != nil {
		return spec.Spec{}, err
	}
	if len(documents) != 1 {
		return spec.Spec{}, fmt.Errorf("has %d documents, want one policy", len(documents))
	}
	s, err := spec.Parse(documents[0])
	if err != nil {
		return s, errors.New(strings.TrimPrefix(err.Error(), "backoff: spec: "))
	}
	return s, nil
}

// readDocuments returns the documents of a text as JSON. A text that begins
// with a brace or a bracket is one document of JSON. Any other text is YAML.
func readDocuments(text []byte) (documents [][]byte, err error) {
	trimmed := bytes.TrimSpace(text)
	if len(trimmed) == 0 {
		return nil, errors.New("is empty")
	}
	if trimmed[0] == '{' || trimmed[0] == '[' {
		return [][]byte{text}, nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var value any
		err := decoder.Decode(&value)
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, errors.New(oneLine(err.Error()))
		}
		if key := keyOfNoText(value); key != nil { // Go 1.27 would make it one
			return nil, fmt.Errorf("has the key %v, want a text", key)
		}
		document, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("has a number that is none: %s", err)
		}
		documents = append(documents, document)
	}
}

// keyOfNoText returns a key in a value of YAML that is no text, and nil if
// there is none.
func keyOfNoText(value any) any {
	var inner any
	switch v := value.(type) {
	case map[any]any:
		for key := range v {
			if _, ok := key.(string); !ok {
				return key
			}
		}
	case map[string]any:
		for _, element := range v {
			inner = cmp.Or(inner, keyOfNoText(element))
		}
	case []any:
		for _, element := range v {
			inner = cmp.Or(inner, keyOfNoText(element))
		}
	}
	return inner
}
