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
// with a brace or a bracket, maybe after a byte order mark, is one document of
// JSON. Any other text is YAML.
func readDocuments(text []byte) (documents [][]byte, err error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	trimmed := bytes.TrimSpace(text)
	if len(trimmed) == 0 {
		return nil, errors.New("is empty")
	}
	if trimmed[0] == '{' || trimmed[0] == '[' {
		return [][]byte{text}, nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var node yaml.Node
		var value any
		err := decoder.Decode(&node)
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err == nil {
			err = checkMembers(&node)
		}
		if err == nil {
			err = node.Decode(&value)
		}
		if err != nil {
			return nil, errors.New(oneLine(err.Error()))
		}
		document, err := asjson.Text(value)
		if err != nil {
			return nil, err
		}
		documents = append(documents, document)
	}
}

// maxMembers is how many members an object in YAML may have. The library
// compares each of them with all others.
const maxMembers = 1000

// checkMembers refuses objects with too many members.
func checkMembers(n *yaml.Node) error {
	if n.Kind == yaml.MappingNode && len(n.Content) > 2*maxMembers {
		return fmt.Errorf("yaml: line %d: the object has more than %d members", n.Line, maxMembers)
	}
	for _, child := range n.Content {
		if err := checkMembers(child); err != nil {
			return err
		}
	}
	return nil
}
