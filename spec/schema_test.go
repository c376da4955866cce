package spec

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/presets"
)

// The schema has the members that Parse reads, with their types and names, and
// no others. That both accept the same texts is tested in
// internal/lab/spectest.
func TestTheSchemaIsThatOfTheForm(t *testing.T) {
	text, err := os.ReadFile("schema.json")
	require.NoError(t, err)
	c := comparison{T: t, seen: map[*node]bool{}}
	require.NoError(t, json.Unmarshal(text, &c.root))
	c.compare("the policy", &c.root, reflect.TypeFor[form]())
	require.Len(t, c.seen, 19, "objects")
}

// node is a part of the schema.
type node struct {
	Ref         string           `json:"$ref"`
	Defs        map[string]*node `json:"$defs"`
	Description string
	Type        string
	Enum        []string
	AnyOf       []*node
	Items       *node
	Properties  map[string]*node
	Others      *bool `json:"additionalProperties"`
}

// A comparison walks through the schema and the types of the form.
type comparison struct {
	*testing.T
	root node
	seen map[*node]bool // the objects
}

// compare holds that a part of the schema describes a type.
func (c *comparison) compare(path string, n *node, of reflect.Type) {
	if n.Ref != "" {
		n = c.root.Defs[strings.TrimPrefix(n.Ref, "#/$defs/")]
		require.NotNil(c, n, path)
	}
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	switch of.Kind() {
	case reflect.Struct:
		if !c.seen[n] {
			c.seen[n] = true
			c.object(path, n, of)
		}
	case reflect.Slice:
		require.Equal(c, "array", n.Type, path)
		c.compare(path+"[]", n.Items, of.Elem())
	case reflect.Int64:
		require.Contains(c, []*node{c.root.Defs["duration"], c.root.Defs["limit"]}, n, path)
	default:
		want := map[reflect.Kind]string{reflect.String: "string", reflect.Int: "integer", reflect.Float64: "number", reflect.Bool: "boolean"}
		require.Equal(c, want[of.Kind()], n.Type, path)
	}
	c.names(path, n, of)
}

// object compares the members of a struct.
func (c *comparison) object(path string, n *node, of reflect.Type) {
	for _, alternative := range n.AnyOf {
		if alternative.Type == "object" {
			n = alternative
		}
	}
	require.Equal(c, "object", n.Type, path)
	require.NotNil(c, n.Others, path)
	require.False(c, *n.Others, path)
	left := len(n.Properties)
	for name, field := range members(reflect.Zero(of)) {
		member := n.Properties[name]
		require.NotNil(c, member, "%s: %s", path, name)
		require.NotEmpty(c, member.Description, "%s: %s", path, name)
		c.compare(path+"."+name, member, field.Type())
		left--
	}
	require.Zero(c, left, path)
}

// names compares the names that may be written for a type, such as "full".
func (c *comparison) names(path string, n *node, of reflect.Type) {
	known := strings.Join(n.Enum, ", ")
	for _, alternative := range n.AnyOf {
		known += strings.Join(alternative.Enum, ", ")
	}
	switch l := reflect.New(of).Interface().(type) {
	case *jitter:
		require.True(c, strings.HasPrefix(l.wanted(), known+", or an object "), path)
	case *budget:
		require.True(c, strings.HasSuffix(l.wanted(), ", or one of "+known), path)
	case *idempotency:
		require.Equal(c, "one of "+known, l.wanted(), path)
	default:
		require.Empty(c, known, path)
	}
}

// Whether the library would accept the values does not matter here.
func TestEveryFormIsReadFromItsText(t *testing.T) {
	r := maker{rand.New(rand.NewPCG(1, 2))}
	for range 3000 {
		var f, again form
		r.fill(reflect.ValueOf(&f).Elem(), 0)
		text, err := json.Marshal(f)
		require.NoError(t, err)
		require.NoError(t, read(text, &again), "%s", text)
		require.Equal(t, f, again, "%s", text)
	}
}

// A maker makes random forms.
type maker struct{ *rand.Rand }

// fill gives a value, of any type of the form, random members.
func (r maker) fill(v reflect.Value, depth int) {
	switch v := v.Addr().Interface().(type) {
	case *version: // which is read and not kept
		return
	case *idempotency:
		*v = []idempotency{"idempotent", "nonIdempotent", "keyed"}[r.IntN(3)]
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(string([]rune{rune('a' + r.IntN(26)), '"', '\n', 'é', '<'}))
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int:
		v.SetInt(int64(r.IntN(1000)) - 1)
	case reflect.Int64: // a duration
		v.SetInt(max(-1, r.Int64N(int64(time.Hour))-int64(10*time.Minute)))
	case reflect.Float64:
		v.SetFloat([]float64{-1, r.Float64(), 1e6 * r.Float64()}[r.IntN(3)])
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		r.fill(v.Elem(), depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1+r.IntN(3), 3))
		for i := range v.Len() {
			r.fill(v.Index(i), depth+1)
		}
	case reflect.Struct:
		if v.NumField() > 0 {
			r.fillStruct(v, depth)
		}
	}
}

// fillStruct fills some of the members of a struct, or one if they are a choice,
// which begins with what is written without an object.
func (r maker) fillStruct(v reflect.Value, depth int) {
	if v.Type().Field(0).Tag.Get("json") != "-" {
		for i := range v.NumField() {
			if r.IntN(3) > 0 {
				r.fill(v.Field(i), depth+1)
			}
		}
		return
	}
	member := r.IntN(v.NumField())
	if depth > 6 {
		member = 0
	}
	switch v := v.Addr().Interface().(type) {
	case *jitter:
		if member == 0 {
			v.Kind = []string{"none", "full", "equal"}[r.IntN(3)]
			return
		}
	case *budget:
		if names := slices.Sorted(maps.Keys(maps.Collect(presets.Budgets()))); member == 0 {
			v.Preset = names[r.IntN(len(names))]
			return
		}
	}
	r.fill(v.Field(member), depth+1)
}
