package spectest

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/spec"
)

const root = "../../.."

// beyond matches the errors of Parse for what a schema cannot say: one value
// compared with another, a member that is there twice, a value beyond its type.
var beyond = regexp.MustCompile(`is there twice$|above the maximum of |want 0 <= (low <= high|base <= max)$|slotted is .*, want more than 0$|` +
	`joins \d+ budgets|has a burst of|is nested too deeply$|9{7}|1e999`)

func TestTheSchemaAcceptsTheFilesThatParseAccepts(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile(root + "/spec/schema.json")
	require.NoError(t, err)
	accepted, refused := 0, 0
	for text := range candidates(t) {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			continue // not JSON
		}
		wrong := schema.Validate(value)
		if _, err := spec.Parse([]byte(text)); err == nil {
			accepted++
			require.NoError(t, wrong, text)
		} else if !beyond.MatchString(err.Error()) {
			refused++
			require.Error(t, wrong, "%s\n%v", text, err)
		}
	}
	require.Greater(t, accepted, 500)
	require.Greater(t, refused, 5000)
}

// candidates returns the files of the repository's tests and documents, and
// what becomes of those that Parse accepts when any of their values is another.
func candidates(t *testing.T) map[string]bool {
	all := map[string]bool{}
	for _, text := range texts(t) {
		for _, place := range []string{`%`, `{"schedule":%}`, `{"jitter":%}`, `{"budget":%}`, `{"breaker":{"openFor":%}}`, `{"idempotency":"%"}`} {
			all[strings.Replace(place, "%", text, 1)] = true
		}
	}
	for _, text := range slices.Collect(maps.Keys(all)) {
		var value any
		if _, err := spec.Parse([]byte(text)); err != nil || json.Unmarshal([]byte(text), &value) != nil {
			continue
		}
		vary(value, func(other any) {
			text, err := json.Marshal(other)
			require.NoError(t, err)
			all[string(text)] = true
		})
	}
	return all
}

// texts returns the strings of the tests of policy files, and the blocks of the
// documents.
func texts(t *testing.T) (all []string) {
	for _, pattern := range []string{"/spec/*_test.go", "/cmd/backoffsim/*_test.go"} {
		for _, name := range glob(t, root+pattern) {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			require.NoError(t, err)
			ast.Inspect(file, func(n ast.Node) bool {
				if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					text, err := strconv.Unquote(literal.Value)
					require.NoError(t, err)
					all = append(all, text)
				}
				return true
			})
		}
	}
	block := regexp.MustCompile("(?s)```(?:json)?\n(.*?)```")
	for _, name := range append(glob(t, root+"/*.md"), glob(t, root+"/docs/*.md")...) {
		for _, m := range block.FindAllStringSubmatch(read(t, name), -1) {
			all = append(all, m[1])
		}
	}
	for _, name := range glob(t, root+"/cmd/backoffsim/testdata/*.json") {
		all = append(all, read(t, name))
	}
	return all
}

func glob(t *testing.T, pattern string) []string {
	names, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, names, pattern)
	return names
}

func read(t *testing.T, name string) string {
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(text)
}

// others are the values that stand in place of each value.
var others = []any{
	nil, true, "", "x", "1s", "-1s", "1.5h30m", "full", -1.0, -2.0, -0.5, 0.0, 0.5, 1.0, 1.5, 20_000.0, 1e10, []any{}, []any{"1s"},
	map[string]any{}, map[string]any{"retry": map[string]any{}, "sleeping": map[string]any{}},
}

// vary calls visit with what value becomes when one of the values in it is
// another, is missing, or has a member that is not known.
func vary(value any, visit func(any)) {
	for _, other := range others {
		visit(other)
	}
	switch value := value.(type) {
	case map[string]any:
		visit(with(value, "unknown", 1.0))
		for name, member := range value {
			without := maps.Clone(value)
			delete(without, name)
			visit(without)
			vary(member, func(other any) { visit(with(value, name, other)) })
		}
	case []any:
		for i, element := range value {
			vary(element, func(other any) {
				list := slices.Clone(value)
				list[i] = other
				visit(list)
			})
		}
	}
}

// with returns an object in which a member has another value.
func with(object map[string]any, name string, value any) map[string]any {
	object = maps.Clone(object)
	object[name] = value
	return object
}
