package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gobackoff/backoff/internal/asjson"
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

// maxFile is how large a file may be, in MiB. In YAML each byte can cost a few
// hundred of memory.
const maxFile = 4

// readInput reads a file, or the standard input if the path is "-".
func (t *terminal) readInput(path string) ([]byte, error) {
	in := t.in
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, maxFile<<20+1))
	if err == nil && len(text) > maxFile<<20 {
		err = fmt.Errorf("%s: is larger than %d MiB", path, maxFile)
	}
	return text, err
}

// parseSpec parses a policy file by the rules of package spec.
func parseSpec(text []byte) (spec.Spec, error) {
	document, err := readDocument(text)
	if err != nil {
		return spec.Spec{}, err
	}
	s, err := spec.Parse(document)
	if err != nil {
		return s, errors.New(strings.TrimPrefix(err.Error(), "backoff: spec: "))
	}
	return s, nil
}

// readDocument returns a text as JSON. A text that begins with a brace or a
// bracket, maybe after a byte order mark, is JSON. Any other text is YAML.
func readDocument(text []byte) ([]byte, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	trimmed := bytes.TrimSpace(text)
	if len(trimmed) == 0 {
		return nil, errors.New("is empty")
	}
	if trimmed[0] == '{' || trimmed[0] == '[' {
		return text, nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var value, second any
	if err := decoder.Decode(&value); err != nil {
		return nil, errors.New(oneLine(err.Error()))
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, errors.New("has several documents, want one policy")
	}
	return asjson.Text(value)
}
