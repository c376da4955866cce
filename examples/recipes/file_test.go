package recipes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
	"github.com/gobackoff/backoff/spec"
)

// services makes the services of a file of YAML.
func services(name string, text []byte) (map[string]backoff.Doer, error) {
	made := make(map[string]backoff.Doer)
	var file struct {
		Services map[string]yaml.Node
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true) // for the keys of file; those of a policy are always checked
	if err := decoder.Decode(&file); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var wrong error
	for _, key := range slices.Sorted(maps.Keys(file.Services)) {
		var s spec.Spec
		node := file.Services[key]
		err := node.Decode(&s)
		if err == nil {
			service, policy, invalid := s.Service()
			made[key], err = service.With(policy), invalid // inside its breaker if it has one
		}
		if err != nil {
			wrong = errors.Join(wrong, fmt.Errorf("%s:%d: services.%s: %w", name, node.Line, key, err))
		}
	}
	return made, wrong
}

// transport makes an HTTP transport, which has a breaker for each host by itself.
func transport(s spec.Spec) (*backoffhttp.Transport, error) {
	policy, err := s.Policy() // an error if there is a breaker
	if err == nil && policy.MaxAttempts < 0 {
		err = errors.New("maxAttempts: want a limit")
	}
	return &backoffhttp.Transport{Policy: policy}, err
}

// The file says 3 attempts. A mistake in a file is an error.
func Example_file() {
	made := must(services("services.yaml", must(os.ReadFile("testdata/services.yaml"))))
	fmt.Println(made["search"].Do(context.Background(), func(context.Context) error { return io.ErrUnexpectedEOF }))
	for _, text := range []string{
		"services:\n  search:\n    name: search\n    maxAttempts: three\n",
		"services:\n  search:\n    jitter: ful\n  ledger:\n    maxAttemps: 7\n",
		"services:\n  search:\n",
		"servces: {}\n",
	} {
		_, err := services("services.yaml", []byte(text))
		fmt.Println(strings.ReplaceAll(err.Error(), ":\n", ":"))
	}
	for _, text := range []string{`{}`, `{"breaker": {}}`, `{"maxAttempts": -1}`} {
		s, _ := spec.Parse([]byte(text))
		_, err := transport(s)
		fmt.Println(err)
	}
	// Output:
	// backoff: search: gave up after 3 attempts: unexpected EOF
	// services.yaml:3: services.search: backoff: spec: "search": maxAttempts is "three", want a whole number of 0 or more, or -1 for no limit
	// services.yaml:5: services.ledger: backoff: spec: maxAttemps is not known, did you mean maxAttempts?
	// services.yaml:3: services.search: backoff: spec: jitter is "ful", want none, full, equal, or an object with one of decorrelated, uniform, added, slotted
	// services.yaml:2: services.search: backoff: spec: no policy was decoded; write {} for the defaults
	// services.yaml: yaml: unmarshal errors:  line 1: field servces not found in type struct { Services map[string]yaml.Node }
	// <nil>
	// backoff: spec: this Spec has a breaker, which a Policy cannot hold: use Service
	// maxAttempts: want a limit
}
