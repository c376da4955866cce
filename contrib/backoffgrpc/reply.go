package backoffgrpc

import (
	"reflect"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// fresh returns an empty message for one attempt, and a function that moves what
// is in it to the caller's reply. A codec may add what it reads to what a message
// has, as JSON does, so no two attempts must read into the same one. If reply is
// no pointer, nothing like it can be made, and it is returned itself.
func fresh(reply any) (own any, deliver func()) {
	if to, ok := reply.(proto.Message); ok {
		from := to.ProtoReflect().New()
		return from.Interface(), func() { moveFields(to.ProtoReflect(), from) }
	}
	to := reflect.ValueOf(reply)
	if to.Kind() != reflect.Pointer || to.IsNil() {
		return reply, func() {}
	}
	from := reflect.New(to.Type().Elem())
	if old, ok := from.Interface().(protoadapt.MessageV1); ok { // it may know its type from a field only
		from.Elem().Set(to.Elem())
		old.Reset()
	}
	return from.Interface(), func() { to.Elem().Set(from.Elem()) }
}

// moveFields makes a message what another one of its type is, without a copy of
// what is in its fields.
func moveFields(to, from protoreflect.Message) {
	proto.Reset(to.Interface())
	for field, value := range from.Range {
		to.Set(field, value)
	}
	to.SetUnknown(from.GetUnknown())
}
