package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// aboutImport is the help text of the command import.
const aboutImport = `Reads the retries of a gRPC service config (JSON) or of an Istio VirtualService (YAML), and
prints the policy file that does the same. The file - is the standard input. For each
setting that a policy file cannot express there is a warning on the standard error.

If the file has several policies, -pick says which one: a gRPC service/method, or the name
or number of an Istio route.`

// An imported policy is one policy of another system's file.
type imported struct {
	names    []string // for -pick; the first one is shown
	policy   any      // its JSON is a policy file
	warnings []string
}

func (i *imported) warn(format string, args ...any) {
	i.warnings = append(i.warnings, fmt.Sprintf(format, args...))
}

func runImport(t *terminal, c *command, args []string) error {
	set := c.flags()
	pick := set.String("pick", "", "the `name` of the policy, where the file has several")
	if err := t.parse(c, set, " FILE", aboutImport, args); err != nil {
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
	out := json.NewEncoder(t.out)
	out.SetIndent("", "  ")
	return out.Encode(s)
}

// importAll returns all policies of a file, of either kind, and the warnings
// that are about the file.
func importAll(text []byte) (policies []imported, general imported, err error) {
	documents, err := readDocuments(text)
	if err != nil {
		return nil, general, err
	}
	for i, d := range documents {
		found, err := general.importDocument(i, d)
		if err != nil {
			return nil, general, err
		}
		policies = append(policies, found...)
	}
	if len(policies) == 0 {
		return nil, general, errors.New("has no retries: want a gRPC service config with a retryPolicy, or an Istio VirtualService with retries")
	}
	return policies, general, nil
}

// importDocument returns the policies of one document, and warns of it if it is
// of no known kind.
func (i *imported) importDocument(number int, document []byte) ([]imported, error) {
	root, err := parseObject("", document)
	if err != nil {
		return nil, err
	}
	switch {
	case root.has("methodConfig") || root.has("retryThrottling"):
		return i.importGRPC(root)
	case root.has("spec") && (!root.has("kind") || string(root.members["kind"]) == `"VirtualService"`):
		return importIstio(root)
	}
	i.warn("document %d is neither a service config nor a VirtualService, and left out", number+1)
	return nil, nil
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

// An object is a JSON object whose members are read one by one. It remembers
// which members have been read.
type object struct {
	path    string // within the file, for errors
	members map[string]json.RawMessage
	read    map[string]bool
}

// parseObject parses the object at a path of a file.
func parseObject(path string, text []byte) (*object, error) {
	o := &object{path: path, read: map[string]bool{}}
	err := json.Unmarshal(text, &o.members)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok { // possible only for a whole file
		before := text[:max(syntax.Offset-1, 0)] // the offset is after the wrong character
		line, column := 1+bytes.Count(before, []byte("\n")), len(before)-bytes.LastIndexByte(before, '\n')
		return nil, fmt.Errorf("line %d, column %d: %w", line, column, syntax)
	}
	if err != nil || o.members == nil {
		return nil, invalidValue(path, text, "an object")
	}
	return o, nil
}

// invalidValue returns an error that names a member, its value, and what the
// value should be.
func invalidValue(path string, value []byte, want string) error {
	if path == "" {
		path = "the file"
	}
	shown := oneLine(string(value))
	if len(shown) > 60 {
		shown = strings.ToValidUTF8(shown[:60], "") + "..."
	}
	return fmt.Errorf("%s is %s, want %s", path, shown, want)
}

// has reports whether the object has a member.
func (o *object) has(name string) bool { _, ok := o.members[name]; return ok }

// at returns the path of a member.
func (o *object) at(name string) string {
	if o.path == "" {
		return name
	}
	return o.path + "." + name
}

// get reads a member into a Go value, and reports whether the member exists.
// want says what it should be.
func (o *object) get(name string, into any, want string) (bool, error) {
	o.read[name] = true
	value, ok := o.members[name]
	if !ok {
		return false, nil
	}
	if json.Unmarshal(value, into) != nil || string(value) == "null" {
		return true, o.refuse(name, want)
	}
	return true, nil
}

// refuse returns an error for a member that has the wrong value.
func (o *object) refuse(name, want string) error {
	return invalidValue(o.at(name), o.members[name], want)
}

// list reads a member that is a list of objects.
func (o *object) list(name string) ([]*object, error) {
	var values []json.RawMessage
	if _, err := o.get(name, &values, "a list"); err != nil {
		return nil, err
	}
	var all []*object
	for i, v := range values {
		item, err := parseObject(fmt.Sprintf("%s[%d]", o.at(name), i), v)
		if err != nil {
			return nil, err
		}
		all = append(all, item)
	}
	return all, nil
}

// object reads a member that is an object. It returns nil if there is none.
func (o *object) object(name string) (*object, error) {
	var value json.RawMessage
	if ok, err := o.get(name, &value, "an object"); !ok || err != nil {
		return nil, err
	}
	return parseObject(o.at(name), value)
}

// warnOfUnread warns of the members that have not been read.
func (o *object) warnOfUnread(i *imported) {
	for _, name := range slices.Sorted(maps.Keys(o.members)) {
		if !o.read[name] {
			i.warn("%s is left out: %s", o.at(name), oneLine(string(bytes.TrimSpace(o.members[name]))))
		}
	}
}
