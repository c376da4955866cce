package spec

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/gobackoff/backoff/internal/badfield"
)

// A literal is a type that may be written as one token, such as a string or a
// number. Pointers implement it.
type literal interface {
	// fromToken sets the value from a token. It reports whether the token is
	// valid.
	fromToken(json.Token) bool
	// wanted says what is valid, for the text of an error.
	wanted() string
}

// A reader reads JSON into structs by the names in their tags. It is stricter
// than encoding/json, and its errors name the path of the member that it
// refuses.
type reader struct {
	tokens *json.Decoder
	depth  int
}

// maxDepth is how deep objects and lists may be nested.
const maxDepth = 32

// read reads a text that holds one JSON value and nothing else.
func read(text []byte, into any) error {
	if err := json.Unmarshal(text, new(json.RawMessage)); err != nil {
		return syntaxError(text, err)
	}
	return newReader(text).value("", reflect.ValueOf(into).Elem())
}

// newReader returns a reader of a text that is JSON.
func newReader(text []byte) *reader {
	r := &reader{tokens: json.NewDecoder(bytes.NewReader(text))}
	r.tokens.UseNumber()
	return r
}

// syntaxError says at which line and column a text stops being JSON.
func syntaxError(text []byte, err error) error {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return problem("", "is refused: "+err.Error())
	}
	before := text[:min(max(0, int(syntax.Offset)-1), len(text))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := len(before) - bytes.LastIndexByte(before, '\n')
	hint := ""
	if text = bytes.TrimSpace(text); len(text) > 0 && text[0] != '{' {
		hint = "; Parse reads JSON only: unmarshal YAML into a Spec"
	}
	return errors.New("backoff: spec: line " + strconv.Itoa(line) + ", column " + strconv.Itoa(column) + ": " + err.Error() + hint)
}

// next returns the next token. There always is one: read has checked that the
// text is JSON.
func (r *reader) next() json.Token {
	token, _ := r.tokens.Token()
	return token
}

// value reads the next value.
func (r *reader) value(path string, into reflect.Value) error {
	token := r.next()
	if into.Kind() == reflect.Pointer {
		into.Set(reflect.New(into.Type().Elem()))
		into = into.Elem()
	}
	l, ok := into.Addr().Interface().(literal)
	switch {
	case ok && l.fromToken(token):
		return nil
	case token == json.Delim('{') && into.Kind() == reflect.Struct:
		return r.nested(path, into, r.object)
	case token == json.Delim('[') && into.Kind() == reflect.Slice:
		return r.nested(path, into, r.list)
	case !ok && scalar(token, into):
		return nil
	}
	return problem(path, "is "+show(token)+", want "+wanted(into))
}

// nested reads an object or a list. It refuses deep nesting, which could
// exhaust the stack.
func (r *reader) nested(path string, into reflect.Value, read func(string, reflect.Value) error) error {
	if r.depth++; r.depth > maxDepth {
		return problem(path, "is nested too deeply")
	}
	err := read(path, into)
	r.depth--
	return err
}

// object reads the members of an object whose brace has been read.
func (r *reader) object(path string, into reflect.Value) error {
	var seen []string
	fields := maps.Collect(members(into))
	for r.tokens.More() {
		name := r.next().(string)
		member, known := fields[name]
		at := join(path, printable(name))
		switch {
		case !known:
			return unknown(at, name, into)
		case slices.Contains(seen, name):
			return problem(at, "is there twice")
		}
		seen = append(seen, name)
		if err := r.value(at, member); err != nil {
			return err
		}
	}
	r.next() // the closing brace
	return nil
}

// unknown returns the error of a member that a struct does not have.
func unknown(path, name string, of reflect.Value) error {
	if name == "constant" && of.Type() == reflect.TypeFor[schedule]() {
		return problem(path, `is not known: write a constant schedule as a duration such as "1.5s"`)
	}
	for member := range members(of) {
		if alike(name, member) {
			return problem(path, "is not known, did you mean "+member+"?")
		}
	}
	want := "one of " + names(of.Interface())
	if of.NumField() == 0 {
		want = "no members"
	}
	return problem(path, "is not known, want "+want)
}

// alike reports whether name is member with a slip in one place, or as it is
// written in another style.
func alike(name, member string) bool {
	plain := strings.NewReplacer("_", "", "-", "", " ", "")
	a, b := strings.ToLower(plain.Replace(name)), strings.ToLower(member)
	most := min(2, (len(b)-1)/2)
	for a != "" && b != "" && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for a != "" && b != "" && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return max(len(a), len(b)) <= most
}

// list reads the elements of a list whose bracket has been read.
func (r *reader) list(path string, into reflect.Value) error {
	into.Set(reflect.MakeSlice(into.Type(), 0, 0))
	for i := 0; r.tokens.More(); i++ {
		into.Set(reflect.Append(into, reflect.Zero(into.Type().Elem())))
		if err := r.value(path+"["+strconv.Itoa(i)+"]", into.Index(i)); err != nil {
			return err
		}
	}
	r.next() // the closing bracket
	return nil
}

// scalar sets a field that is a string, a bool or a number. It reports whether
// the token fits.
func scalar(token json.Token, into reflect.Value) bool {
	if n, ok := token.(json.Number); ok {
		return number(string(n), into)
	}
	v := reflect.ValueOf(token)
	fits := v.Kind() == into.Kind()
	if fits {
		into.Set(v)
	}
	return fits
}

// number sets a field that is a number. The only number below 0 is -1.
func number(text string, into reflect.Value) bool {
	switch into.Kind() {
	case reflect.Int:
		n, err := strconv.Atoi(text)
		into.SetInt(int64(n))
		return err == nil && n >= -1
	case reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		into.SetFloat(f + 0) // there is no -0
		return err == nil && (f >= 0 || f == -1)
	}
	return false
}

// wanted says how a field is written, for the text of an error.
func wanted(into reflect.Value) string {
	if l, ok := into.Addr().Interface().(literal); ok {
		return l.wanted()
	}
	return cmp.Or(wantedOf[into.Kind()], "an object")
}

var wantedOf = map[reflect.Kind]string{
	reflect.String:  "a text",
	reflect.Bool:    "true or false",
	reflect.Int:     "a whole number of 0 or more, or -1 for no limit",
	reflect.Float64: "a number of 0 or more, or -1 for none",
	reflect.Slice:   "a list",
}

// show returns a token as it is printed in an error: short, and on one line.
func show(token json.Token) string {
	switch token {
	case json.Delim('['):
		return "a list"
	case json.Delim('{'):
		return "an object"
	}
	if text, ok := token.(string); ok {
		return strconv.Quote(shorten(text))
	}
	text, _ := json.Marshal(token) // null, a bool or a number
	return shorten(string(text))
}

// printable returns a name as it is printed in a path: in quotes, unless it is
// short and plain.
func printable(name string) string {
	plain := name != "" && len(name) <= 64 && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && r != '-' && !('0' <= r && r <= '9') && !('A' <= r && r <= 'Z') && !('a' <= r && r <= 'z')
	})
	if plain {
		return name
	}
	return strconv.Quote(shorten(name))
}

// shorten returns at most the first 64 bytes of a text.
func shorten(text string) string {
	const most = 64
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

// members returns the fields of a struct that are in JSON, by their names there.
func members(of reflect.Value) iter.Seq2[string, reflect.Value] {
	return func(yield func(string, reflect.Value) bool) {
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Type().Field(i).Tag.Get("json"), ",")
			if name != "-" && !yield(name, of.Field(i)) {
				return
			}
		}
	}
}

// names returns the members of a struct, separated by commas.
func names(of any) string {
	return listed(members(reflect.ValueOf(of)))
}

// listed returns the names of a sequence, with commas.
func listed[V any](all iter.Seq2[string, V]) string {
	var list []string
	for name := range all {
		list = append(list, name)
	}
	return strings.Join(list, ", ")
}

// oneOf returns the member of a struct that is set, and its value. It refuses the
// struct unless exactly one is.
func oneOf(path string, of any) (member string, value any, err error) {
	var set []string
	for name, field := range members(reflect.ValueOf(of)) {
		if !field.IsZero() {
			set, value = append(set, name), field.Interface()
		}
	}
	if len(set) == 1 {
		return set[0], value, nil
	}
	has := "nothing"
	if len(set) > 0 {
		has = strings.Join(set, " and ")
	}
	return "", nil, problem(path, "has "+has+", want one of "+names(of))
}

// problem returns the error of the member at a path. The empty path is the
// whole policy.
func problem(path, text string) error {
	if path == "" {
		path = "the policy"
	}
	return errors.New("backoff: spec: " + path + " " + text)
}

// relocate turns an error of Validate into one of the member at path, with a
// line for each problem. name is what Validate calls that member.
func relocate(path, name string, err error) error {
	if err == nil {
		return nil
	}
	var problems []error
	for _, bad := range badfield.All(err) {
		at := below(path, strings.TrimPrefix(bad.Field, name))
		problems = append(problems, problem(at, strings.Replace(bad.Problem, "is -1ns,", "is -1,", 1)))
	}
	if problems == nil {
		return problem(path, "is refused: "+err.Error())
	}
	return errors.Join(problems...)
}

// below returns the path of a field below the member at path.
func below(path, field string) string {
	for part := range strings.FieldsFuncSeq(field, func(r rune) bool { return r == '.' || r == ':' || r == ' ' }) {
		if part = strings.ToLower(part[:1]) + part[1:]; part != "constant" && part != "limiter" { // neither is a member
			path = join(path, part)
		}
	}
	return path
}

// join returns the path of a member of the object at path.
func join(path, member string) string {
	if path == "" {
		return member
	}
	return path + "." + member
}
