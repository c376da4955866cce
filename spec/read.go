package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A literal is a type of its own way to be written, besides as an object. Its methods
// are those of a pointer.
type literal interface {
	take(json.Token) bool // false if the token is not it
	wanted() string
}

// A reader reads JSON into structs, by the names in their tags. It is stricter than
// encoding/json, and knows the path of what it refuses.
type reader struct {
	tokens *json.Decoder
	depth  int
}

const mostDepth = 32

// read reads a text that is one JSON value.
func read(text []byte, into any) error {
	if err := json.Unmarshal(text, new(json.RawMessage)); err != nil {
		return broken(text, err)
	}
	r := reader{tokens: json.NewDecoder(bytes.NewReader(text))}
	r.tokens.UseNumber()
	return r.member("", reflect.ValueOf(into).Elem())
}

// broken tells where a text stops being JSON.
func broken(text []byte, err error) error {
	syntax, ok := errors.AsType[*json.SyntaxError](err)
	if !ok {
		return problem("", "is refused: "+err.Error())
	}
	before := text[:min(max(0, int(syntax.Offset)-1), len(text))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := len(before) - bytes.LastIndexByte(before, '\n')
	return errors.New("backoff: spec: line " + strconv.Itoa(line) + ", column " + strconv.Itoa(column) + ": " + err.Error())
}

// next returns the next token. There is one: the text is known to be JSON.
func (r *reader) next() json.Token {
	token, _ := r.tokens.Token()
	return token
}

// member reads the next value.
func (r *reader) member(path string, into reflect.Value) error {
	token := r.next()
	if into.Kind() == reflect.Pointer {
		into.Set(reflect.New(into.Type().Elem()))
		into = into.Elem()
	}
	l, ok := into.Addr().Interface().(literal)
	switch {
	case ok && l.take(token):
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

// nested keeps a text from exhausting the stack.
func (r *reader) nested(path string, into reflect.Value, read func(string, reflect.Value) error) error {
	if r.depth++; r.depth > mostDepth {
		return problem(path, "is nested too deeply")
	}
	err := read(path, into)
	r.depth--
	return err
}

func (r *reader) object(path string, into reflect.Value) error {
	var seen []string
	for r.tokens.More() {
		name := r.next().(string)
		member, known := field(into, name)
		at := join(path, printable(name))
		switch {
		case !known:
			return problem(at, "is not known, want one of "+names(into.Interface()))
		case slices.Contains(seen, name):
			return problem(at, "is there twice")
		}
		seen = append(seen, name)
		if err := r.member(at, member); err != nil {
			return err
		}
	}
	r.next() // the brace
	return nil
}

func (r *reader) list(path string, into reflect.Value) error {
	into.Set(reflect.MakeSlice(into.Type(), 0, 0))
	for i := 0; r.tokens.More(); i++ {
		into.Set(reflect.Append(into, reflect.Zero(into.Type().Elem())))
		if err := r.member(path+"["+strconv.Itoa(i)+"]", into.Index(i)); err != nil {
			return err
		}
	}
	r.next() // the bracket
	return nil
}

// scalar sets a field of a plain type. Of the numbers below 0 there is only -1.
func scalar(token json.Token, into reflect.Value) bool {
	switch token := token.(type) {
	case string:
		if into.Kind() == reflect.String {
			into.SetString(token)
			return true
		}
	case bool:
		if into.Kind() == reflect.Bool {
			into.SetBool(token)
			return true
		}
	case json.Number:
		return number(string(token), into)
	}
	return false
}

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

func wanted(into reflect.Value) string {
	if l, ok := into.Addr().Interface().(literal); ok {
		return l.wanted()
	}
	switch into.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number of 0 or more, or -1 for no limit"
	case reflect.Float64:
		return "a number of 0 or more, or -1 for none"
	case reflect.Slice:
		return "a list"
	}
	return "an object"
}

// show prints a token within a line.
func show(token json.Token) string {
	switch token := token.(type) {
	case nil:
		return "null"
	case string:
		return strconv.Quote(cut(token))
	case json.Number:
		return cut(string(token))
	case bool:
		return strconv.FormatBool(token)
	case json.Delim:
		if token == '[' {
			return "a list"
		}
	}
	return "an object"
}

var plain = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// printable is a name as it may stand in a path.
func printable(name string) string {
	if plain.MatchString(name) {
		return name
	}
	return strconv.Quote(cut(name))
}

func cut(text string) string {
	const most = 64
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

// field returns the field of a struct that has a name in JSON.
func field(of reflect.Value, name string) (reflect.Value, bool) {
	for i := range of.NumField() {
		if tag(of.Type().Field(i)) == name {
			return of.Field(i), true
		}
	}
	return reflect.Value{}, false
}

// tag is the name of a field in JSON; "-" if it has none, which is then no name either.
func tag(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// names lists the members of a struct.
func names(of any) string {
	var all []string
	for i := range reflect.TypeOf(of).NumField() {
		if name := tag(reflect.TypeOf(of).Field(i)); name != "-" {
			all = append(all, name)
		}
	}
	return strings.Join(all, ", ")
}

// oneOf refuses a struct of which not exactly one member is set.
func oneOf(path string, of any) error {
	v := reflect.ValueOf(of)
	var set []string
	for i := range v.NumField() {
		if !v.Field(i).IsZero() {
			set = append(set, tag(v.Type().Field(i)))
		}
	}
	if len(set) == 1 {
		return nil
	}
	has := "nothing"
	if len(set) > 0 {
		has = strings.Join(set, " and ")
	}
	return problem(path, "has "+has+", want one of "+names(of))
}
