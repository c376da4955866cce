package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/cmd/backoffsim/internal/foreign"
	"github.com/gobackoff/backoff/cmd/backoffsim/sim"
	"github.com/gobackoff/backoff/presets"
	"github.com/gobackoff/backoff/spec"
)

// A candidate is a policy to show or simulate, with its budget and breaker.
// Budgets and breakers are state of a process, so each process gets new ones.
type candidate struct {
	name       string
	parameters string // for the caption of a chart
	policy     backoff.Policy
	budget     func() backoff.Budget   // nil if there is none
	breaker    func() *backoff.Breaker // nil if there is none
}

// references are the policies that are always shown, as policy files.
var references = []struct{ name, text, about string }{
	{"none", `{"maxAttempts": 1}`, "no retries"},
	{"naive", `{"schedule": "0s", "jitter": "none"}`, "three retries, at once"},
	{"default", `{"budget": {"retry": {}}, "breaker": {}}`, "the zero Policy, RetryBudget and Breaker"},
}

// fromSpec returns the candidate that a policy file describes. No method of s
// can fail, since s was parsed.
func fromSpec(name string, s spec.Spec) candidate {
	text, _ := json.Marshal(s)
	service, policy, _ := s.Service()
	c := candidate{name: name, parameters: string(text), policy: policy}
	c.policy.Budget = nil
	if policy.Budget != nil {
		c.budget = func() backoff.Budget {
			_, policy, _ := s.Service()
			return policy.Budget
		}
	}
	if !service.NoBreaker {
		c.breaker = func() *backoff.Breaker {
			service, _, _ := s.Service()
			return service.Breaker
		}
	}
	return c
}

func (c candidate) client() sim.Client { return sim.NewClient(c.name, c.policy, c.budget, c.breaker) }

// reference returns the reference with a name.
func reference(name string) (candidate, bool) {
	for _, r := range references {
		if r.name == name {
			s, err := spec.Parse([]byte(r.text))
			if err != nil {
				panic(err) // the references are part of the program
			}
			return fromSpec(name, s), true
		}
	}
	return candidate{}, false
}

// find returns the candidate for an argument of -policy: a reference, a preset,
// a budget with the zero policy, or a file.
func (t *terminal) find(argument string) (candidate, error) {
	if c, ok := reference(argument); ok {
		return c, nil
	}
	if c, ok := preset(argument); ok {
		return c, nil
	}
	s, err := t.load(argument)
	if errors.Is(err, fs.ErrNotExist) {
		return candidate{}, fmt.Errorf("policy %q is neither a file nor a name; see backoffsim policy -list", argument)
	}
	if err != nil {
		return candidate{}, err
	}
	return fromSpec(nameOf(s, argument), s), nil
}

// preset returns the preset policy with a name, or the preset budget.
func preset(argument string) (candidate, bool) {
	if policy, ok := maps.Collect(presets.All())[argument]; ok {
		return candidate{name: argument, parameters: "preset " + argument, policy: policy}, true
	}
	if budget := budgetOf(argument); budget() != nil {
		return candidate{name: argument, parameters: "the zero Policy with " + argument, budget: budget}, true
	}
	return candidate{}, false
}

// nameOf returns the name of a policy file, and its file name if it has none.
func nameOf(s spec.Spec, argument string) string {
	_, policy, _ := s.Service() // s was parsed
	name := policy.Name
	if name == "" && argument == "-" {
		name = "stdin"
	}
	if name == "" {
		name = strings.TrimSuffix(filepath.Base(argument), filepath.Ext(argument))
	}
	if strings.ContainsFunc(name, unicode.IsControl) { // a line of a table must stay one line
		name = strconv.Quote(name)
	}
	return name
}

// budgetOf returns a function that makes the preset budget with a name. The
// function returns nil if there is no such budget.
func budgetOf(name string) func() backoff.Budget {
	return func() backoff.Budget { return maps.Collect(foreign.Budgets())[name] }
}

// findAll finds the candidates of arguments, after the given references. A
// candidate whose name is taken gets its argument as its name.
func (t *terminal) findAll(before []string, arguments []string) ([]candidate, error) {
	var all []candidate
	for i, argument := range slices.Concat(before, arguments) {
		if i >= len(before) && slices.Contains(before, argument) {
			continue
		}
		c, err := t.find(argument)
		if err != nil {
			return nil, err
		}
		if hasName(all, c.name) {
			c.name = argument
		}
		if hasName(all, c.name) {
			return nil, fmt.Errorf("policy %q is there twice", argument)
		}
		all = append(all, c)
	}
	return all, nil
}

func hasName(all []candidate, name string) bool {
	return slices.ContainsFunc(all, func(c candidate) bool { return c.name == name })
}

// list prints the names that -policy accepts.
func (t *terminal) list() {
	rows := table{left: 2}
	for _, r := range references {
		rows.add(r.name, "reference: "+r.about)
	}
	for name := range presets.All() {
		rows.add(name, "preset")
	}
	for name := range foreign.Budgets() {
		rows.add(name, "budget: the zero Policy with it")
	}
	rows.print(t.out)
}

// namesVar defines a flag that may be given more than once.
func namesVar(set *flag.FlagSet, to *[]string, name, usage string) {
	set.Func(name, usage, func(value string) error {
		if value == "" {
			return errors.New("want a name or a file")
		}
		*to = append(*to, value)
		return nil
	})
}
