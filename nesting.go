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
	outer *enclosing
	// gaveUp has the newest *Error of calls that gave up. The first is of a
	// call that was cancelled, often because another one gave up. They are
	// atomic; an atomic.Pointer would be a type more in every program.
	gaveUp [8]unsafe.Pointer
	told   uint32 // how many of the others were stored; atomic
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

// tell tells the attempts around a call under ctx that it gave up.
func (e *Error) tell(ctx context.Context) {
	for around := enclosingOf(ctx); around != nil && e.final(); around = around.outer {
		i := uint32(0)
		if e.Reason != ReasonCanceled {
			i = 1 + atomic.AddUint32(&around.told, 1)%uint32(len(around.gaveUp)-1)
		}
		atomic.StorePointer(&around.gaveUp[i], unsafe.Pointer(e))
	}
}

// readText looks in the text of err for the error of a call inside the attempt
// that gave up.
func (v *verdict) readText(attempt context.Context, err error) {
	if attempt == nil || v.marked || v.lasting {
		return
	}
	around := enclosingOf(attempt)
	for i := range around.gaveUp {
		gave := (*Error)(atomic.LoadPointer(&around.gaveUp[i]))
		if gave != nil && strings.Contains(err.Error(), gave.Error()) {
			v.class, v.judged, v.gaveUp, v.outOfTime = ClassPermanent, true, true, gave.Reason == ReasonDeadline
			return
		}
	}
}
