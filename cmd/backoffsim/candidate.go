package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/sim"
	"github.com/gobackoff/backoff/presets"
	"github.com/gobackoff/backoff/spec"
)

// A candidate is a policy that is looked at, with what goes around it. Budgets and
// breakers are state of a process: each gets new ones.
type candidate struct {
	name       string
	parameters string // for captions
	policy     backoff.Policy
	budget     func() backoff.Budget   // nil: none
	breaker    func() *backoff.Breaker // nil: none
}

// The references, as the files that they are.
var references = []struct{ name, text, about string }{
	{"none", `{"maxAttempts": 1}`, "no retries"},
	{"naive", `{"schedule": "0s", "jitter": "none"}`, "three retries, at once"},
	{"default", `{"budget": {"retry": {}}, "breaker": {}}`, "the zero Policy, RetryBudget and Breaker"},
}

func fromSpec(name string, s spec.Spec) candidate {
	text, _ := json.Marshal(s) // made of a text, and so never fails
	c := candidate{name: name, parameters: string(text), policy: s.Policy()}
	c.policy.Budget = nil
	if s.Budget() != nil {
		c.budget = s.Budget
	}
	if s.Breaker() != nil {
		c.breaker = s.Breaker
	}
	return c
}

func (c candidate) client() sim.Client { return sim.NewClient(c.name, c.policy, c.budget, c.breaker) }

// reference returns one of the references.
func reference(name string) (candidate, bool) {
	for _, r := range references {
		if r.name == name {
			s, err := spec.Parse([]byte(r.text))
			if err != nil {
				panic(err) // they are part of the program
			}
			return fromSpec(name, s), true
		}
	}
	return candidate{}, false
}

// find returns what an argument of -policy means: a reference, a preset, the budget of a
// preset around the zero policy, "preset+budget", or else a file.
func (t *terminal) find(argument string) (candidate, error) {
	if c, ok := reference(argument); ok {
		return c, nil
	}
	first, second, both := strings.Cut(argument, "+")
	policy, isPolicy := maps.Collect(presets.All())[first]
	switch {
	case isPolicy && !both:
		return candidate{name: first, parameters: "preset " + first, policy: policy}, nil
	case isPolicy && isBudget(second):
		return candidate{name: argument, parameters: "presets " + argument, policy: policy, budget: budgetOf(second)}, nil
	case isBudget(argument):
		return candidate{name: argument, parameters: "the zero Policy with " + argument, budget: budgetOf(argument)}, nil
	}
	s, err := t.load(argument)
	if errors.Is(err, fs.ErrNotExist) {
		return candidate{}, fmt.Errorf("policy %q is neither a file nor a name; see backoffsim policy -list", argument)
	}
	if err != nil {
		return candidate{}, err
	}
	name := s.Policy().Name
	if name == "" && argument == "-" {
		name = "stdin"
	}
	if name == "" {
		name = strings.TrimSuffix(filepath.Base(argument), filepath.Ext(argument))
	}
	if strings.ContainsFunc(name, unicode.IsControl) { // it stands in lines of tables
		name = strconv.Quote(name)
	}
	return fromSpec(name, s), nil
}

func isBudget(name string) bool { return budgetOf(name)() != nil }

func budgetOf(name string) func() backoff.Budget {
	return func() backoff.Budget {
		for known, budget := range presets.Budgets() {
			if known == name {
				return budget
			}
		}
		return nil
	}
}

// gather finds all of arguments, after the given references. Two of one name are told
// apart by what they were called.
func (t *terminal) gather(before []string, arguments []string) ([]candidate, error) {
	var all []candidate
	for _, argument := range slices.Concat(before, slices.DeleteFunc(slices.Clone(arguments), func(a string) bool {
		return slices.Contains(before, a)
	})) {
		c, err := t.find(argument)
		if err != nil {
			return nil, err
		}
		if taken(all, c.name) {
			c.name = argument
		}
		if taken(all, c.name) {
			return nil, fmt.Errorf("policy %q is there twice", argument)
		}
		all = append(all, c)
	}
	return all, nil
}

func taken(all []candidate, name string) bool {
	return slices.ContainsFunc(all, func(c candidate) bool { return c.name == name })
}

// list prints the names that -policy knows.
func (t *terminal) list() {
	rows := table{left: 2}
	for _, r := range references {
		rows.add(r.name, "reference: "+r.about)
	}
	for name := range presets.All() {
		rows.add(name, "preset")
	}
	for name := range presets.Budgets() {
		rows.add(name, "budget: the zero Policy with it; PRESET+"+name+" joins it to a preset")
	}
	rows.print(t.out)
}

// names is a flag that may be given more than once.
type names []string

func (n *names) String() string { return strings.Join(*n, " ") }

// Set implements flag.Value.
func (n *names) Set(value string) error {
	if value == "" {
		return errors.New("want a name or a file")
	}
	*n = append(*n, value)
	return nil
}
