package spectest

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/caarlos0/env/v11"
	"github.com/go-viper/mapstructure/v2"
	goccy "github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	yaml2 "go.yaml.in/yaml/v2"
	yaml3 "go.yaml.in/yaml/v3"
	sigs "sigs.k8s.io/yaml"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/lab/docpage/docpagetest"
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
	for _, name := range slices.Concat(glob(t, root+"/*.md"), glob(t, root+"/docs/*.md"), glob(t, root+"/docs/results/*.md")) {
		for _, m := range block.FindAllStringSubmatch(docpagetest.Read(t, name), -1) {
			all = append(all, m[1])
		}
	}
	for _, name := range glob(t, root+"/cmd/backoffsim/testdata/*.json") {
		all = append(all, docpagetest.Read(t, name))
	}
	return all
}

func glob(t *testing.T, pattern string) []string {
	names, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, names, pattern)
	return names
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

// config is the configuration of a service. A member that the text does not
// have stays a Spec that nothing was decoded into.
type config struct {
	Retry  spec.Spec `env:"RETRY" json:"retry" mapstructure:"retry" toml:"retry" yaml:"retry"`
	Limits any       `json:"limits" yaml:"limits"` // an anchor
}

// attempts are those of the policy.
func (c config) attempts(t *testing.T) int {
	policy, err := c.Retry.Policy()
	require.NoError(t, err)
	return policy.MaxAttempts
}

// decoders are the YAML libraries, in the mode that refuses most.
var decoders = map[string]func(text string, into any) error{
	"yaml.v2": func(text string, into any) error { return yaml2.UnmarshalStrict([]byte(text), into) },
	"yaml.v3": func(text string, into any) error { return yaml3.Unmarshal([]byte(text), into) },
	"goccy":   func(text string, into any) error { return goccy.Unmarshal([]byte(text), into) },
	"goccy, ordered": func(text string, into any) error {
		return goccy.UnmarshalWithOptions([]byte(text), into, goccy.UseOrderedMap())
	},
	"sigs": func(text string, into any) error { return sigs.UnmarshalStrict([]byte(text), into) },
}

var encoders = map[string]func(any) ([]byte, error){
	"yaml.v2": yaml2.Marshal, "yaml.v3": yaml3.Marshal, "goccy": goccy.Marshal, "sigs": func(v any) ([]byte, error) { return sigs.Marshal(v) },
}

const example = `
limits: &limits
  maxAttempts: 4
  maxElapsed: 30s
retry:
  <<: *limits
  name: fetch # a comment
  attemptTimeout: 2s
  maxRetryAfter: -1
  schedule:
    exponential: {initial: 100ms, max: 10s, multiplier: 3}
  byClass:
    throttled: {schedule: {sequence: [1s, 1m30s]}}
  budget:
    all:
      - retry: {ratio: 0.1}
      - concurrency: {max: 20}
`

func TestEveryYAMLLibraryReadsTheSamePolicy(t *testing.T) {
	for name, decode := range decoders {
		var c config
		require.NoError(t, decode(example, &c), name)
		policy, err := c.Retry.Policy()
		require.NoError(t, err, name)
		require.NoError(t, policy.Validate())
		require.Equal(t, backoff.Policy{
			Name:           "fetch",
			MaxAttempts:    4,
			MaxElapsed:     30 * time.Second,
			AttemptTimeout: 2 * time.Second,
			MaxRetryAfter:  -1,
			Schedule:       backoff.Exponential{Initial: 100 * time.Millisecond, Max: 10 * time.Second, Multiplier: 3},
			ByClass: map[backoff.Class]backoff.ClassLimits{
				backoff.ClassThrottled: {Schedule: backoff.Sequence(time.Second, 90*time.Second)},
			},
			Budget: policy.Budget,
		}, policy, name)
		require.NotNil(t, policy.Budget)
	}
}

// There is one parser, so a mistake has one text, whatever the file is written
// in.
func TestAMistakeInYAMLHasTheErrorOfParse(t *testing.T) {
	const members = "name, maxAttempts, maxElapsed, attemptTimeout, attemptTimeoutSchedule, schedule, byClass, jitter, maxDelay, " +
		"maxRetryAfter, idempotency, budget, shortenLastWait, breaker, version, $schema"
	for text, want := range map[string]string{
		"retry: {schedule: {exponential: {multiplier: 0.5}}}": "schedule.exponential.multiplier is 0.5, want 0 (for 2) or at least 1",
		"retry: {maxElapsed: 30}":                             `maxElapsed is 30, want a duration of 0 or more, such as "1.5s", or -1 where there may be no limit`,
		"retry: {maxAttempts: '3'}":                           `maxAttempts is "3", want a whole number of 0 or more, or -1 for no limit`,
		"retry: {attempts: 3}":                                "attempts is not known, want one of " + members,
		"retry: {1: 3}":                                       "1 is not known, want one of " + members,
		"retry: {true: 3}":                                    "true is not known, want one of " + members,
		"retry: {1.5: 3}":                                     `"1.5" is not known, want one of ` + members,
		"retry: {schedule: ~}":                                `schedule is null, want a duration of 0 or more, such as "1.5s", or an object with one of linear, exponential, sequence, truncated`,
		"retry: [maxAttempts]":                                "the policy is a list, want an object",
		"retry: fetch.json":                                   `the policy is "fetch.json", want an object`,
		"retry: {name: true}":                                 "name is true, want a text",
		"retry: '{\"maxAttempts\": 3,}'":                      "line 1, column 19: invalid character '}' looking for beginning of object key string",
		"retry: " + strings.Repeat("{budget: ", 2) + strings.Repeat("}", 2): "budget.budget is not known, want one of retry, pacer, throttle, rate, concurrency, adaptive, grpcThrottling, all",
	} {
		for name, decode := range decoders {
			if name == "sigs" && strings.Contains(text, "'{") {
				continue // it reads JSON, in which a Spec is an object
			}
			var c config
			err := decode(text, &c)
			require.ErrorContains(t, err, "backoff: spec: "+want, "%s: %s", name, text)
			require.Equal(t, config{}, c)
		}
	}
}

func TestANumberThatIsNoneIsRefused(t *testing.T) {
	for _, value := range []string{".inf", "-.inf", ".nan"} {
		for name, decode := range decoders {
			err := decode("retry: {budget: {retry: {ratio: "+value+"}}}", new(config))
			require.Error(t, err, name)
			if name != "sigs" { // its own error: JSON has no such number
				require.ErrorContains(t, err, "budget.retry.ratio is", name)
			}
		}
	}
}

func TestAMemberThatIsThereTwiceIsRefused(t *testing.T) {
	const twice = "retry:\n  maxAttempts: 3\n  maxAttempts: 4\n"
	for name, decode := range decoders {
		require.Error(t, decode(twice, new(config)), name)
	}
	var c config
	require.NoError(t, yaml2.Unmarshal([]byte(twice), &c), "yaml.v2 says nothing unless it is strict")
	require.Equal(t, 4, c.attempts(t))
}

// What is not there must not become the default policy without a word. A default of the program
// stays.
func TestASpecThatNothingWasDecodedIntoIsRefused(t *testing.T) {
	none, err := spec.Parse([]byte(`{}`))
	require.NoError(t, err)
	for name, decode := range decoders {
		for _, text := range []string{"", "{}", "# retry: {}\n", "retry:\n", "retry: ~\n"} {
			var c config
			if err := decode(text, &c); err != nil {
				continue // encoding/json gives null to UnmarshalJSON
			}
			_, err := c.Retry.Policy()
			require.EqualError(t, err, "backoff: spec: no policy was decoded; write {} for the defaults", "%s: %q", name, text)
		}
		for text, before := range map[string]spec.Spec{"retry: {}\n": {}, "{}": none} {
			c := config{Retry: before}
			require.NoError(t, decode(text, &c), name)
			_, err := c.Retry.Policy()
			require.NoError(t, err, name)
		}
	}
}

func TestWhatAYAMLLibraryWritesItReads(t *testing.T) {
	var c config
	require.NoError(t, json.Unmarshal([]byte(`{"retry": {"maxAttempts": 4, "schedule": "1s", "breaker": {"failureRate": 0.25}}}`), &c))
	for name, encode := range encoders {
		text, err := encode(c)
		require.NoError(t, err, name)
		var again config
		require.NoError(t, decoders[name](string(text), &again), "%s: %s", name, text)
		require.Equal(t, c, again, "%s: %s", name, text)
		text, err = encode(config{})
		if err != nil {
			require.ErrorContains(t, err, "no policy was decoded", name)
			continue
		}
		require.Error(t, decoders[name](string(text), &again), "%s: %s", name, text)
	}
}

// The decoders that know neither YAML nor JSON take a string, and refuse, or
// leave alone, all else.
func TestTOMLTakesAStringOfJSON(t *testing.T) {
	var c config
	_, err := toml.Decode(`retry = '{"maxAttempts": 4}'`, &c)
	require.NoError(t, err)
	require.Equal(t, 4, c.attempts(t))

	c = config{}
	if _, err = toml.Decode("[retry]\nmaxAttempts = 4\n", &c); err == nil {
		_, err = c.Retry.Policy()
	}
	require.Error(t, err)
}

func TestAnEnvironmentVariableHoldsJSON(t *testing.T) {
	t.Setenv("RETRY", `{"maxAttempts": 4}`)
	c, err := env.ParseAs[config]()
	require.NoError(t, err)
	require.Equal(t, 4, c.attempts(t))

	t.Setenv("RETRY", `{"maxAttempt": 4}`)
	_, err = env.ParseAs[config]()
	require.ErrorContains(t, err, "backoff: spec: maxAttempt is not known")

	t.Setenv("RETRY", "")
	c, err = env.ParseAs[config]()
	require.NoError(t, err)
	_, err = c.Retry.Policy()
	require.EqualError(t, err, "backoff: spec: no policy was decoded; write {} for the defaults")
}

func TestMapstructureTakesAStringOfJSONByItsHook(t *testing.T) {
	var c config
	decoder, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{Result: &c, DecodeHook: mapstructure.TextUnmarshallerHookFunc()})
	require.NoError(t, err)
	require.NoError(t, decoder.Decode(map[string]any{"retry": `{"maxAttempts": 4}`}))
	require.Equal(t, 4, c.attempts(t))

	c = config{}
	if err = mapstructure.Decode(map[string]any{"retry": map[string]any{"maxAttempts": 4}}, &c); err == nil {
		_, err = c.Retry.Policy()
	}
	require.EqualError(t, err, "backoff: spec: no policy was decoded; write {} for the defaults")
}
