package asjson

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ordered is like the ordered map of github.com/goccy/go-yaml.
type ordered []any

func (o ordered) ToMap() map[any]any { return map[any]any{o[0]: o[1]} }

func TestAYAMLValueBecomesJSON(t *testing.T) {
	for want, value := range map[string]any{
		`null`:                     nil,
		`"no"`:                     "no",
		`[1,18446744073709551615]`: []any{int64(1), uint64(math.MaxUint64)},
		`[0.1,1e+21,3]`:            []any{0.1, 1e21, 3.0},
		`["NaN","+Inf","-Inf"]`:    []any{math.NaN(), math.Inf(1), math.Inf(-1)},
		`{"1":"x","null":[true]}`:  map[any]any{1: "x", nil: []any{true}},
		`{"a":{"false":{"b":1}}}`:  map[string]any{"a": ordered{false, map[any]any{"b": 1}}},
		`["0000-01-01T00:00:00.5+24:00"]`: []any{
			time.Date(0, 1, 1, 0, 0, 0, 5e8, time.FixedZone("", 24*60*60))},
	} {
		text, err := Text(value)
		require.NoError(t, err)
		require.Equal(t, want, string(text))
	}
}

func TestTwoKeysOfOneNameAreRefused(t *testing.T) {
	_, err := Text([]any{map[any]any{1: "x", "1": "y"}})
	require.EqualError(t, err, "has two keys that read 1")
	_, err = Text(map[string]any{"a": map[any]any{nil: "x", "null": "y"}})
	require.EqualError(t, err, "has two keys that read null")
}

// A YAML library may share what an alias stands for, so that a few lines of
// text are a value without an end, or one that would fill the memory as JSON.
func TestAValueThatIsTooLargeIsRefused(t *testing.T) {
	laughs := []any{"ha"}
	for range 40 {
		laughs = []any{laughs, laughs}
	}
	loop := map[string]any{}
	loop["again"] = loop
	long := strings.Repeat("ha", 32_000)
	many := func(v any) []any { return slices.Repeat([]any{v}, 1000) }
	for _, value := range []any{laughs, loop, many(long), many([]byte(long)), many(map[string]any{long: 1}), many(map[any]any{long: 1}), map[any]any{"x": laughs}, map[string]any{"x": ordered{"y", laughs}}} {
		_, err := Text(value)
		require.EqualError(t, err, "has more than 100000 values")
	}
}

func TestAValueThatIsNotOfYAMLIsRefused(t *testing.T) {
	_, err := Text(map[string]any{"x": func() {}})
	require.Error(t, err)
}
