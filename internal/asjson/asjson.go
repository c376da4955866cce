// Package asjson turns what a YAML library has decoded into JSON. It serves all
// YAML libraries and imports none.
package asjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"
)

// maxValues is how many values a document may have. Each 64 bytes of a text or a
// key count as one more. A short document can have very many: an alias stands for
// all that its anchor has.
const maxValues = 100_000

// Text returns the JSON of a value that a YAML library has decoded into an any.
// What JSON does not have becomes a string: a key that is a number, a boolean
// or null, a NaN, an infinity, and a time.
func Text(value any) ([]byte, error) {
	left := maxValues
	value, err := convert(value, &left)
	if err != nil {
		return nil, err
	}
	return json.Marshal(value)
}

// convert returns a copy of value that encoding/json accepts. left is how many
// values the document may still have.
func convert(value any, left *int) (any, error) {
	if *left--; *left < 0 {
		return nil, fmt.Errorf("has more than %d values", maxValues)
	}
	switch v := value.(type) {
	case string:
		*left -= len(v) / 64
	case []byte:
		*left -= len(v) / 64
	case interface{ ToMap() map[any]any }: // yaml.MapSlice of github.com/goccy/go-yaml
		return convert(v.ToMap(), left)
	case map[any]any: // of yaml.v2, and of yaml.v3 if a key is not a string
		return object(v, left)
	case map[string]any:
		return object(v, left)
	case []any:
		return array(v, left)
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Sprint(v), nil
		}
	case time.Time:
		return v.Format(time.RFC3339Nano), nil // MarshalJSON refuses some times
	}
	return value, nil
}

// object is convert for a map. The text of a key is the name of its member.
func object[K comparable](from map[K]any, left *int) (_ any, err error) {
	members := make(map[string]any, len(from))
	for key, element := range from {
		name := "null"
		if any(key) != nil {
			name = fmt.Sprint(key)
		}
		if _, twice := members[name]; twice {
			return nil, errors.New("has two keys that read " + name)
		}
		*left -= len(name) / 64
		if members[name], err = convert(element, left); err != nil {
			return nil, err
		}
	}
	return members, nil
}

// array is convert for a list.
func array(from []any, left *int) (_ any, err error) {
	list := make([]any, len(from))
	for i, element := range from {
		if list[i], err = convert(element, left); err != nil {
			return nil, err
		}
	}
	return list, nil
}
