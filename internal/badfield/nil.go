package badfield

import (
	"reflect"
	"unsafe"
)

// HoldsNil is the Problem of a value for which IsNil is true.
const HoldsNil = "holds a nil pointer"

// NotNil returns the error of a field whose value is a nil pointer or a nil func in an
// interface, or nil if it is not.
func NotNil(field string, v any) error {
	if IsNil(v) {
		return New(field, HoldsNil)
	}
	return nil
}

// IsNil reports whether v holds a nil pointer or a nil func, which a comparison with nil
// does not tell. It is for values that are asked before every call.
//
//go:noinline
func IsNil(v any) bool {
	if (*[2]unsafe.Pointer)(unsafe.Pointer(&v))[1] != nil { // reflect.ValueOf would add 15 KiB to every program
		return false
	}
	t := reflect.TypeOf(v)
	return t != nil && (t.Kind() == reflect.Pointer || t.Kind() == reflect.Func)
}
