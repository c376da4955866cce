package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// aboutImport is the help text of the command import.
const aboutImport = `Reads the retries of a gRPC service config (JSON) or of an Istio VirtualService (YAML), or the
outlierDetection of an Istio DestinationRule, and prints the policy file that does the same.
The file - is the standard input. For what a policy file cannot express there are warnings on
the standard error.

If the file has several policies, -pick says which one: a gRPC service/method, the name or
number of an Istio route, or the host or subset of a DestinationRule.`

// A policyFile is the part of a policy file that an import writes. Package spec
// checks it.
type policyFile struct {
	Name           string         `json:"name,omitempty"`
	MaxAttempts    int            `json:"maxAttempts"`
	AttemptTimeout string         `json:"attemptTimeout,omitempty"`
	Schedule       map[string]any `json:"schedule,omitempty"`
	Jitter         any            `json:"jitter,omitempty"`
	MaxRetryAfter  int            `json:"maxRetryAfter,omitempty"`
	Budget         map[string]any `json:"budget,omitempty"`
	Breaker        map[string]any `json:"breaker,omitempty"`
}

// An exponentialJSON is an exponential schedule of a policy file.
type exponentialJSON struct {
	Initial    string  `json:"initial"`
	Max        string  `json:"max"`
	Multiplier float64 `json:"multiplier,omitempty"`
}

// An imported policy is one policy of another system's file.
type imported struct {
	names    []string // for -pick; the first one is shown
	policy   policyFile
	warnings []string
}

func (i *imported) warn(format string, args ...any) {
	i.warnings = append(i.warnings, fmt.Sprintf(format, args...))
}

func runImport(t *terminal, c *command, args []string) error {
	set := c.flags()
	pick := set.String("pick", "", "the `name` of the policy, where the file has several")
	if err := t.parse(c, set, aboutImport, args); err != nil {
		return err
	}
	if set.NArg() != 1 {
		return errors.New("want one file; see backoffsim import -h")
	}
	path := set.Arg(0)
	text, err := t.readInput(path)
	if err != nil {
		return err
	}
	if err := t.translate(path, *pick, text); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// translate prints the policy file for the policy of text that pick names.
func (t *terminal) translate(path, pick string, text []byte) error {
	policies, general, err := importAll(text)
	if err != nil {
		return err
	}
	chosen, err := choose(policies, pick)
	if err != nil {
		return err
	}
	file, err := json.Marshal(chosen.policy)
	if err != nil {
		return err
	}
	s, err := parseSpec(file)
	if err != nil {
		return err
	}
	for _, w := range slices.Concat(chosen.warnings, general.warnings) {
		fmt.Fprintf(t.err, "backoffsim import: %s: warning: %s\n", path, oneLine(w))
	}
	return encode(t.out, s)
}

// importAll returns all policies of a file, of either kind, and the warnings
// that are about the file.
func importAll(text []byte) (policies []imported, general imported, err error) {
	documents, err := readDocuments(text)
	if err != nil {
		return nil, general, err
	}
	for i, d := range documents {
		var is struct {
			MethodConfig, RetryThrottling, Spec json.RawMessage
			Kind                                string
		}
		if err := json.Unmarshal(d, &is); err != nil {
			return nil, general, err
		}
		var found []imported
		switch {
		case is.MethodConfig != nil || is.RetryThrottling != nil:
			found, err = importGRPC(d)
		case is.Spec != nil && (is.Kind == "" || is.Kind == "VirtualService"):
			found, err = importIstio(is.Spec)
		case is.Spec != nil && is.Kind == "DestinationRule":
			found, err = importRule(is.Spec)
		default:
			general.warn("document %d is neither a service config nor a VirtualService nor a DestinationRule, and left out", i+1)
		}
		if err != nil {
			return nil, general, err
		}
		policies = append(policies, found...)
	}
	if len(policies) == 0 {
		return nil, general, errors.New("has nothing to import: want a gRPC service config with a retryPolicy, an Istio VirtualService with retries, or a DestinationRule with outlierDetection")
	}
	return policies, general, nil
}

// choose returns the policy that pick names, or the only one.
func choose(policies []imported, pick string) (imported, error) {
	var all []string
	var matching []imported
	for _, p := range policies {
		all = append(all, p.names[0])
		if pick == "" || slices.Contains(p.names, pick) {
			matching = append(matching, p)
		}
	}
	switch {
	case len(matching) == 1:
		return matching[0], nil
	case len(matching) == 0:
		return imported{}, fmt.Errorf("has no policy %q; -pick one of %s", pick, strings.Join(all, ", "))
	}
	return imported{}, fmt.Errorf("has %d policies; -pick one of %s", len(matching), strings.Join(all, ", "))
}
