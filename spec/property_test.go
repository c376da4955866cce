package spec

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/presets"
)

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
	case *version, *schemaURL: // which are read and not kept
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
		r.fillStruct(v, depth)
	}
}

// fillStruct fills some of the members of a struct, or one if they are a choice,
// which begins with what is written without an object.
func (r maker) fillStruct(v reflect.Value, depth int) {
	if tag(v.Type().Field(0)) != "-" {
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
