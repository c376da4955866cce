package backoff

import (
	"context"
	"strings"
	"sync/atomic"
)

// enclosingKey is the key by which a context finds the attempt that it is for.
type enclosingKey struct{}

// An enclosing attempt has a context of its own, by which a call inside tells it
// that it gave up: the error may arrive as a text only.
type enclosing struct {
	outer *enclosing
	// gaveUp has the newest errors of calls that gave up. The first is of a
	// call that was cancelled, often because another one gave up.
	gaveUp [8]atomic.Pointer[Error]
	next   atomic.Uint32 // where the next of the others goes
}

// enclosingOf returns the innermost attempt that ctx is for, or nil.
func enclosingOf(ctx context.Context) *enclosing {
	e, _ := ctx.Value(enclosingKey{}).(*enclosing)
	return e
}

// withEnclosing returns a context for an attempt of a call under ctx.
func withEnclosing(ctx context.Context) context.Context {
	return context.WithValue(ctx, enclosingKey{}, &enclosing{outer: enclosingOf(ctx)})
}

// tell tells the attempts around a call under ctx that it gave up.
func (e *Error) tell(ctx context.Context) {
	for around := enclosingOf(ctx); around != nil && e.isFinal(); around = around.outer {
		i := uint32(0)
		if e.Reason != ReasonCanceled {
			i = 1 + around.next.Add(1)%uint32(len(around.gaveUp)-1)
		}
		around.gaveUp[i].Store(e)
	}
}

// readText looks in the text of err for the error of a call inside the attempt
// that gave up.
func (v *verdict) readText(attempt context.Context, err error) {
	if attempt == nil || v.marked || v.supervised {
		return
	}
	around := enclosingOf(attempt)
	for i := range around.gaveUp {
		gave := around.gaveUp[i].Load()
		if gave != nil && strings.Contains(err.Error(), gave.Error()) {
			v.class, v.judged, v.gaveUp, v.outOfTime = ClassPermanent, true, true, gave.Reason == ReasonDeadline
			return
		}
	}
}
