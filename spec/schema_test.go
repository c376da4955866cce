package spec

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
	require.Len(t, c.seen, 18, "objects")
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
	for i := range of.NumField() {
		name := tag(of.Field(i))
		if name == "-" {
			continue
		}
		member := n.Properties[name]
		require.NotNil(c, member, "%s: %s", path, name)
		require.NotEmpty(c, member.Description, "%s: %s", path, name)
		c.compare(path+"."+name, member, of.Field(i).Type)
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
