package backoff

import (
	"context"
	"strings"
	"sync/atomic"
	"unsafe"
)

// enclosingKey is the key by which a context finds the attempt that it is for.
type enclosingKey struct{}

// An enclosing attempt has a context of its own, by which a call inside tells it
// that it gave up: the error may arrive as a text only.
type enclosing struct {
	outer  *enclosing
	gaveUp unsafe.Pointer // an *Error; atomic. An atomic.Pointer would be a type more in every program
}

// enclosingOf returns the innermost attempt that ctx is for, or nil.
func enclosingOf(ctx context.Context) *enclosing {
	e, _ := ctx.Value(enclosingKey{}).(unsafe.Pointer) // a bare pointer, as in runs
	return (*enclosing)(e)
}

// within returns a context for an attempt of a call under ctx.
func within(ctx context.Context) context.Context {
	return context.WithValue(ctx, enclosingKey{}, unsafe.Pointer(&enclosing{outer: enclosingOf(ctx)}))
}

// tell tells the attempts around a call that it gave up.
func (e *Error) tell() {
	for around := enclosingOf(e.ctx); around != nil && e.final(); around = around.outer {
		atomic.StorePointer(&around.gaveUp, unsafe.Pointer(e))
	}
}

// readText looks in the text of err for the error of a call inside the attempt
// that gave up.
func (v *verdict) readText(attempt context.Context, err error) {
	if attempt == nil || v.marked {
		return
	}
	gave := (*Error)(atomic.LoadPointer(&enclosingOf(attempt).gaveUp))
	if gave != nil && strings.Contains(err.Error(), gave.Error()) {
		v.class, v.gaveUp, v.outOfTime = ClassPermanent, true, gave.Reason == ReasonDeadline
	}
}
